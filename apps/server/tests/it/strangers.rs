//! What those may do who have not shown the key: take little memory, and keep out nobody who has it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::common::process::{Process, command};
use crate::common::{Running, config};
use chiplet_server::config::Secret;
use qdrant_client::Qdrant;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(240);

/// Memory that all strangers together may take.
const ALLOWED: u64 = 64 << 20;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn header(block: &mut Vec<u8>, name: &str, value: &str) {
    // A literal that is not indexed; lengths below 127.
    block.extend_from_slice(&[0, name.len() as u8]);
    block.extend_from_slice(name.as_bytes());
    block.push(value.len() as u8);
    block.extend_from_slice(value.as_bytes());
}

/// The head of a call to health, with so many headers more.
fn head(more: usize) -> Vec<u8> {
    // POST, http.
    let mut block = vec![0x83, 0x86];
    header(&mut block, ":path", "/grpc.health.v1.Health/Check");
    header(&mut block, ":authority", "localhost");
    header(&mut block, "content-type", "application/grpc");
    header(&mut block, "te", "trailers");
    for number in 0..more {
        header(&mut block, &format!("{number:x}"), "");
    }
    block
}

/// Half-open calls: their heads, and then a ping that is answered when these were looked at.
fn attack(calls: u32, headers: usize) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    let block = head(headers);
    for call in 0..calls {
        const END_HEADERS: u8 = 4;
        bytes.extend(frame(HEADERS, END_HEADERS, 2 * call + 1, &block));
    }
    bytes.extend(frame(PING, 0, 0, b"finished"));
    bytes
}

/// A connection that sends what it has and reads what comes.
struct Attacker {
    stream: TcpStream,
    unsent: Vec<u8>,
    received: Vec<u8>,
    over: bool,
}

impl Attacker {
    fn new(address: SocketAddr, bytes: Vec<u8>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self {
            stream,
            unsent: bytes,
            received: Vec::new(),
            over: false,
        }
    }

    /// Goes on as far as it gets. It is over when the server has answered the ping, or ended the connection.
    fn go_on(&mut self) {
        while !self.unsent.is_empty() && !self.over {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.over = true,
            }
        }
        let mut buffer = [0; 1 << 16];
        while !self.over {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.over = true,
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.over = true,
            }
        }
        let mut at = 0;
        while let Some(head) = self.received.get(at..at + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let Some(payload) = self.received.get(at + 9..at + 9 + length) else {
                break;
            };
            const ACK: u8 = 1;
            let answered = kind == PING && flags == ACK && payload == b"finished";
            self.over |= answered || kind == GOAWAY;
            at += 9 + length;
        }
        self.received.drain(..at);
    }
}

fn friend(address: SocketAddr) -> Qdrant {
    config(address).api_key("sesame").build().unwrap()
}

/// Strangers open calls and never end them. The server takes little memory for all of them, and serves who has the key.
fn strangers_take_little(connections: usize, calls: u32, headers: usize) {
    let data = tempfile::tempdir().unwrap();
    let settings = [("AUTH__API_KEY", "sesame"), ("LOG", "info")];
    let server = Process::start(command(data.path(), &settings));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let early = runtime.block_on(async {
        let early = friend(server.grpc);
        early.list_collections().await.unwrap();
        early
    });
    let before = server.peak_memory();
    let bytes = attack(calls, headers);
    let mut attackers: Vec<Attacker> = (0..connections)
        .map(|_| Attacker::new(server.grpc, bytes.clone()))
        .collect();
    let begun = Instant::now();
    while !attackers.iter().all(|attacker| attacker.over) {
        assert!(begun.elapsed() < BOUND, "the server answers nobody");
        attackers.iter_mut().for_each(Attacker::go_on);
        runtime.block_on(async {
            early.list_collections().await.unwrap();
            // A client of its own each time: a new connection beside the strangers'.
            friend(server.grpc).list_collections().await.unwrap();
        });
    }
    let grown = server.peak_memory() - before;
    println!("{connections} connections with {calls} calls of {headers} headers: {grown} bytes");
    assert!(grown < ALLOWED, "it grew by {grown} bytes");
}

#[test]
fn half_open_probes_with_many_headers_take_little_memory() {
    strangers_take_little(40, 250, 200);
}

#[test]
fn half_open_probes_of_many_connections_take_little_memory() {
    strangers_take_little(200, 250, 1);
}

#[test]
fn more_connections_than_there_are_places_take_little_memory() {
    strangers_take_little(700, 20, 200);
}

async fn channel(address: SocketAddr) -> Channel {
    let url = format!("http://{address}");
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

/// Health's streams are open as long as their client likes. Strangers may have a few on each connection; that takes
/// none from who comes with the key, nor from whoever watches before it shows the key.
#[test]
fn strangers_take_no_streams_of_health_from_others() {
    let running = Running::with(|settings| settings.auth.api_key = Some(Secret::new("sesame")));
    running.run(async {
        let mut streams = Vec::new();
        let mut refused = 0;
        let request = HealthCheckRequest::default;
        let mut strangers = Vec::new();
        for _ in 0..3 {
            let mut health = HealthClient::new(channel(running.grpc()).await);
            for _ in 0..100 {
                match health.watch(request()).await {
                    Ok(stream) => streams.push(stream),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted);
                        refused += 1;
                    }
                }
            }
            strangers.push(health);
        }
        assert!(refused > 200, "only {refused} of 300 were refused");
        // A probe of its own connection, and a watcher of another that has not shown the key yet.
        let mut health = HealthClient::new(channel(running.grpc()).await);
        health.check(request()).await.unwrap();
        streams.push(health.watch(request()).await.unwrap());
        let mut keyed = HealthClient::new(channel(running.grpc()).await);
        for _ in 0..100 {
            let mut request = tonic::Request::new(request());
            let key = "sesame".parse().unwrap();
            request.metadata_mut().insert("api-key", key);
            streams.push(keyed.watch(request).await.unwrap());
        }
    });
}
