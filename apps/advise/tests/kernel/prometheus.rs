//! Answers as Prometheus does, inside the machine: a rate that is better while the group is bound.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};

/// Brings the loopback interface up, as nothing else does on this machine, and listens.
pub fn serve(cpus: &'static str) -> SocketAddr {
    up();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let read = BufReader::new(stream.try_clone().expect("one more handle"));
            read.lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .for_each(drop);
            let is_bound = std::fs::read_to_string(cpus).is_ok_and(|text| text == "0-7\n");
            let value = if is_bound { 120 } else { 100 };
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
            );
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    address
}

/// `ip link set lo up`, for which there is no program here.
#[allow(unsafe_code, reason = "an ioctl that no safe crate here offers")]
fn up() {
    // SAFETY: an all-zero `ifreq` is valid; its name ends with a zero byte; the kernel reads it and keeps nothing.
    let result = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        (request.ifr_name[0], request.ifr_name[1]) = (b'l' as libc::c_char, b'o' as libc::c_char);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        libc::close(socket);
        result
    };
    assert_eq!(result, 0, "lo: {}", std::io::Error::last_os_error());
}
