//! The admin port asks for no key. It answers all the same whoever else holds on to it, and no other web page's
//! browser.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{self, Running};

#[test]
fn slow_clients_do_not_keep_probes_out() {
    let running = Running::start();
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(running.admin()).unwrap();
        // A request that is never finished. An error means that it was closed for a newer one.
        let _ = stream.write_all(b"G");
        slow.push(stream);
    }
    for _ in 0..5 {
        assert_eq!(running.page("/livez"), (200, "alive\n".into()));
    }
    drop(slow);
}

#[test]
fn a_page_of_another_name_reads_nothing() {
    let running = Running::with(|settings| settings.admin_hosts = "chiplet.example".into());
    let ask = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(running.admin()).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let address = running.admin().to_string();
    for path in ["/metrics", "/api/state", "/", "/page.js"] {
        assert_eq!(ask(path, "evil.example"), "421", "{path}");
        for good in [&*address, "localhost", "chiplet.example:6335"] {
            assert_eq!(ask(path, good), "200", "{path} by {good}");
        }
    }
    assert_eq!(ask("/livez", "node-7.example"), "200");
    assert_eq!(ask("/readyz", "node-7.example"), "200");
}

/// However many look at once, one snapshot is taken at a time, and each is answered.
#[test]
fn many_scrapes_at_once_are_all_answered() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let admin = running.admin();
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(move || assert_eq!(common::page(admin, "/metrics").0, 200));
        }
        running.fill("other", 4, 100);
    });
}
