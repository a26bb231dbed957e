//! How many files, and so connections, the server's process may have open.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::ALONE;
use crate::common::{Running, unharmed};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn the_server_takes_all_the_files_that_it_may_open() {
    let _alone = ALONE.lock();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let fewer = Rlimit {
        current: Some(1_000),
        maximum,
    };
    setrlimit(Resource::Nofile, fewer).unwrap();
    let _running = Running::start();
    assert_eq!(getrlimit(Resource::Nofile).current, maximum);
}

/// Ten thousand connections that say nothing: others are served, memory stays in bounds, and all are let go.
#[test]
fn ten_thousand_connections_harm_nobody() {
    let _alone = ALONE.lock();
    let running = Running::start();
    running.fill("line", 4, 10);
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, wanted).unwrap();
    // Both ends of every connection are in this process.
    let most = limit.maximum.map_or(10_000, |files| {
        (files.saturating_sub(1_000) / 2).min(10_000)
    });
    let before = running.metric("process_resident_memory_bytes", &[]);
    let connections: Vec<TcpStream> = (0..most)
        .map(|_| TcpStream::connect(running.grpc()).unwrap())
        .collect();
    unharmed(&running);
    let held = running.metric("process_resident_memory_bytes", &[]) - before;
    assert!(
        held < 16_384.0 * most as f64,
        "{held} bytes for {most} connections"
    );
    drop(connections);
    let give_up = Instant::now() + Duration::from_secs(60);
    while running.metric("chiplet_server_connections", &[]) > 10.0 {
        assert!(Instant::now() < give_up, "connections are let go");
    }
    unharmed(&running);
}
