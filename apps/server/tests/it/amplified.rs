//! Two bytes of a message may become hundreds. Such messages are refused by a limit that is named, and the memory of
//! the server grows by no more than is said here. `--nocapture` shows the table.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::common::config;
use crate::common::raw::unread;
use bytes::Bytes;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, GetPoints, GetPointsBuilder, PointId, PointStruct,
    UpsertPointsBuilder, Value, VectorParamsBuilder, value,
};
use tonic::{Code, Status};

const MIB: usize = 1 << 20;

/// By how much memory may grow for a message that is refused before it is decoded: its bytes, and what a server needs
/// to read and answer anything.
const REFUSED: usize = 40 * MIB;

/// For one that is let through: eight times the largest message, and the message.
const DECODED: usize = 9 * 32 * MIB;

/// A server of its own, so that its memory is not this program's.
struct Server {
    process: Child,
    grpc: SocketAddr,
    _data: tempfile::TempDir,
}

impl Server {
    fn start(variables: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_chiplet-server"))
            .env("CHIPLET_GRPC_ADDR", "127.0.0.1:0")
            .env("CHIPLET_ADMIN_ADDR", "127.0.0.1:0")
            .env("CHIPLET_DATA_DIR", data.path())
            .env("CHIPLET_SCHEDULER__PIN", "none")
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let grpc = log
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                let (_, rest) = line.split_once("gRPC on ")?;
                rest.split(',').next()?.parse().ok()
            })
            .expect("the server says where it is");
        // Somebody has to read on, or the server would wait for it.
        std::thread::spawn(move || log.for_each(drop));
        Self {
            process,
            grpc,
            _data: data,
        }
    }

    /// Kilobytes that the kernel reports under `name`, in bytes.
    fn memory(&self, name: &str) -> usize {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    /// Makes a call, and says how it ended and by how much memory grew meanwhile at most.
    fn growth(
        &self,
        runtime: &tokio::runtime::Runtime,
        path: &str,
        body: Vec<u8>,
    ) -> (Status, usize) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
        let before = self.memory("VmRSS");
        let status = runtime.block_on(call(self.grpc, path, body));
        (status, self.memory("VmHWM").saturating_sub(before))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a body as it is, and returns the status of the answer.
async fn call(grpc: SocketAddr, path: &str, body: Vec<u8>) -> Status {
    let stream = tokio::net::TcpStream::connect(grpc).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("http://{grpc}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (answer, mut send) = client.send_request(request, false).unwrap();
    // The server may refuse it before all of it is there.
    let sent = tokio::spawn(async move {
        let mut body = Bytes::from(body);
        while !body.is_empty() {
            send.reserve_capacity(body.len().min(MIB));
            match std::future::poll_fn(|context| send.poll_capacity(context)).await {
                Some(Ok(room)) => {
                    if send
                        .send_data(body.split_to(room.min(body.len())), false)
                        .is_err()
                    {
                        return;
                    }
                }
                _ => return,
            }
        }
        // An error means that there is an answer already.
        let _ = send.send_data(Bytes::new(), true);
    });
    let (head, mut rest) = answer.await.unwrap().into_parts();
    while let Some(data) = rest.data().await {
        let taken = data.unwrap().len();
        rest.flow_control().release_capacity(taken).unwrap();
    }
    let trailers = rest.trailers().await.unwrap().unwrap_or_default();
    sent.abort();
    Status::from_header_map(&trailers)
        .or_else(|| Status::from_header_map(&head.headers))
        .expect("every answer has a status")
}

fn varint(number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encode_length_delimiter(number, &mut bytes).expect("vectors grow");
    bytes
}

/// A field that holds `content`.
fn field(number: usize, content: Vec<u8>) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len()), content].concat()
}

/// So many empty messages in field `number`: two bytes each, or three from the sixteenth field on.
fn empty(number: usize, count: usize) -> Vec<u8> {
    [varint(number << 3 | 2), vec![0]].concat().repeat(count)
}

fn framed(message: Vec<u8>) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [vec![0], length.to_vec(), message].concat()
}

/// A payload of one list of so many empty values, in field `number`.
fn payload(number: usize, values: usize) -> Vec<u8> {
    let list = field(7, empty(1, values));
    field(number, [field(1, b"a".to_vec()), field(2, list)].concat())
}

/// Within this, reads are let in; what they decode to is another matter.
const READ: usize = MIB - 64;
const WRITE: usize = 30 * MIB;

#[test]
fn amplified_messages_are_refused_and_take_no_memory() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let invalid = Code::InvalidArgument;
    let filter = |number, bytes| field(number, empty(2, bytes / 2));
    let name = || field(1, b"none".to_vec());
    let point = |content: Vec<u8>| [name(), field(3, content)].concat();
    let read = "limits.read_bytes";
    let write = "limits.message_bytes";
    let rows: Vec<(&str, &str, Vec<u8>, &str)> = vec![
        ("conditions", "Points/Search", filter(3, WRITE), read),
        ("conditions", "Points/Search", filter(3, READ), read),
        ("conditions", "Points/Count", filter(2, WRITE), read),
        ("conditions", "Points/Count", filter(2, READ), read),
        ("conditions", "Points/Scroll", filter(2, READ), read),
        ("conditions", "Points/Query", filter(5, READ), read),
        ("prefetches", "Points/Query", empty(2, READ / 2), read),
        (
            "empty ids",
            "Points/Get",
            empty(2, READ / 2),
            "limits.results",
        ),
        (
            "ids of has_id",
            "Points/Count",
            field(2, field(2, field(3, empty(1, READ / 2)))),
            read,
        ),
        ("positive ids", "Points/Recommend", empty(2, READ / 2), read),
        ("pairs", "Points/Discover", empty(3, READ / 2), read),
        ("metadata", "Collections/Create", empty(18, READ / 3), read),
        ("metadata", "Collections/Create", empty(18, WRITE / 3), read),
        (
            "a name",
            "Collections/Get",
            field(1, vec![b'x'; WRITE]),
            read,
        ),
        (
            "actions",
            "Collections/UpdateAliases",
            empty(1, READ / 2),
            read,
        ),
        (
            "conditions of a query",
            "Points/SearchBatch",
            field(2, filter(3, WRITE)),
            write,
        ),
        (
            "conditions of a query",
            "Points/QueryBatch",
            field(2, filter(5, WRITE)),
            write,
        ),
        (
            "empty points",
            "Points/Upsert",
            empty(3, WRITE / 2),
            "limits.upsert_points",
        ),
        (
            "values",
            "Points/Upsert",
            point(payload(3, WRITE / 2)),
            write,
        ),
        ("fields", "Points/Upsert", point(empty(3, WRITE / 2)), write),
        (
            "named vectors",
            "Points/Upsert",
            point(field(4, field(2, empty(1, WRITE / 2)))),
            write,
        ),
        (
            "parts of a multi-vector",
            "Points/Upsert",
            point(field(4, field(1, field(103, empty(1, WRITE / 2))))),
            write,
        ),
        (
            "empty ids",
            "Points/Delete",
            field(3, field(1, empty(1, WRITE / 2))),
            write,
        ),
        (
            "conditions",
            "Points/Delete",
            field(3, filter(2, WRITE)),
            write,
        ),
        ("values", "Points/SetPayload", payload(3, WRITE / 2), write),
        (
            "values",
            "Points/OverwritePayload",
            payload(3, WRITE / 2),
            write,
        ),
        ("keys", "Points/DeletePayload", empty(3, WRITE / 2), write),
        (
            "conditions",
            "Points/ClearPayload",
            field(3, filter(2, WRITE)),
            write,
        ),
        ("vectors", "Points/UpdateVectors", empty(3, READ / 2), read),
    ];
    println!("| request | body | peak growth MiB | refused by |\n|---|---|---|---|");
    for (what, method, message, names) in rows {
        let body = framed(message);
        let size = body.len() as f64 / MIB as f64;
        let (status, grown) = server.growth(&runtime, &format!("/qdrant.{method}"), body);
        let mib = grown as f64 / MIB as f64;
        println!("| {method}: {what} | {size:.1} MiB | {mib:.1} | `{names}` |");
        assert_eq!(status.code(), invalid, "{method}, {what}: {status}");
        assert!(
            status.message().contains(names),
            "{method}, {what}: {status}"
        );
        assert!(grown < REFUSED, "{method}, {what}: {mib} MiB");
    }
}

/// As much as a message may decode to: what is estimated is not less than what is taken.
#[test]
fn what_is_let_through_takes_no_more_than_is_said() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let name = || field(1, b"none".to_vec());
    let call = |method: &str, message: Vec<u8>| {
        let path = format!("/qdrant.Points/{method}");
        server.growth(&runtime, &path, framed([name(), message].concat()))
    };
    println!("| request | elements | peak growth MiB | status |\n|---|---|---|---|");
    // With the first power of two to try, which is too large.
    type Kind = (&'static str, &'static str, u32, fn(usize) -> Vec<u8>);
    let kinds: [Kind; 5] = [
        ("Upsert", "values", 22, |n| field(3, payload(3, n))),
        ("Upsert", "named vectors", 19, |n| {
            field(3, field(4, field(2, (0..n).flat_map(named).collect())))
        }),
        ("Delete", "ids", 23, |n| field(3, field(1, empty(1, n)))),
        ("Delete", "conditions", 19, |n| {
            field(3, field(2, empty(2, n)))
        }),
        ("Count", "conditions", 18, |n| field(2, empty(2, n))),
    ];
    for (method, what, first, message) in kinds {
        assert_eq!(
            call(method, message(1 << first)).0.code(),
            Code::InvalidArgument,
            "{method}, {what}"
        );
        // The largest power of two that is let through; lists double.
        let mut counts = (1..=first).rev().map(|bits| 1 << bits);
        let (count, status, grown) = counts
            .find_map(|count| {
                let (status, grown) = call(method, message(count));
                assert!(grown < DECODED, "{method}, {count} {what}: {grown} bytes");
                (status.code() != Code::InvalidArgument).then_some((count, status, grown))
            })
            .expect("some are let through");
        let mib = grown as f64 / MIB as f64;
        println!(
            "| {method}: {what} | {count} | {mib:.1} | {:?} |",
            status.code()
        );
        assert!(count > 1_000, "{method}, {what}: {count} are let through");
    }
}

/// A named vector of three letters, which is not the same as the one before.
fn named(number: usize) -> Vec<u8> {
    let key = format!("{number:x}");
    field(
        1,
        [field(1, key.into_bytes()), field(2, Vec::new())].concat(),
    )
}

/// What is behind a call's message is not decoded.
#[test]
fn a_call_has_one_message() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let second = framed(field(3, empty(2, WRITE / 2)));
    let body = [framed(field(1, b"none".to_vec())), second].concat();
    let (status, grown) = server.growth(&runtime, "/qdrant.Points/Count", body);
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("one message"), "{status}");
    assert!(grown < REFUSED, "{grown}");
}

/// An answer takes what is sent, and counts until it is read: payloads of empty values would take forty times as much
/// decoded.
#[test]
fn answers_take_what_is_sent_and_count_until_they_are_read() {
    const LIMIT: usize = 128 * MIB;
    const POINTS: u64 = 40;
    const ANSWER: usize = 20 * MIB;
    let server = Server::start(&[("CHIPLET_LIMITS__MEMORY_BYTES", &LIMIT.to_string())]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = config(server.grpc);
    runtime.block_on(async {
        let client = client.build().unwrap();
        let params = VectorParamsBuilder::new(1, Distance::Dot);
        let create = CreateCollectionBuilder::new("points").vectors_config(params);
        client.create_collection(create).await.unwrap();
        let value = qdrant_client::qdrant::ListValue {
            values: vec![Value::default(); MIB / 4],
        };
        for id in 0..POINTS {
            let list = Value {
                kind: Some(value::Kind::ListValue(value.clone())),
            };
            let point = PointStruct::new(id, vec![1.0], [("a", list)]);
            let upsert = UpsertPointsBuilder::new("points", vec![point]).wait(true);
            client.upsert_points(upsert).await.unwrap();
        }
        std::fs::write(format!("/proc/{}/clear_refs", server.process.id()), "5").unwrap();
        let before = server.memory("VmRSS");
        let ids: Vec<PointId> = (0..POINTS).map(Into::into).collect();
        let all = GetPointsBuilder::new("points", ids.clone()).with_payload(true);
        assert_eq!(
            client.get_points(all).await.unwrap().result.len(),
            POINTS as usize
        );
        let grown = server.memory("VmHWM").saturating_sub(before);
        assert!(grown < ANSWER + REFUSED, "{grown}");
        let message = GetPoints {
            collection_name: "points".into(),
            ids: ids.clone(),
            with_payload: Some(true.into()),
            ..GetPoints::default()
        };
        let message = framed(prost::Message::encode_to_vec(&message));
        let begun = unread(server.grpc, "/qdrant.Points/Get", message, 10)
            .await
            .0;
        assert!(begun.iter().filter(|is| **is).count() >= 3, "{begun:?}");
        assert!(begun.contains(&false), "{begun:?}: 200 MiB are held");
        let plain = GetPointsBuilder::new("points", ids);
        assert_eq!(
            client.get_points(plain).await.unwrap().result.len(),
            POINTS as usize
        );
    });
}

/// Requests under way count in the limit, all together, and are refused beyond it.
#[test]
fn requests_under_way_count_in_the_memory_limit() {
    const LIMIT: usize = 64 * MIB;
    let server = Server::start(&[("CHIPLET_LIMITS__MEMORY_BYTES", &LIMIT.to_string())]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let values = || framed([field(1, b"none".to_vec()), field(3, payload(3, MIB))].concat());
    let (status, grown) = server.growth(&runtime, "/qdrant.Points/Upsert", values());
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("limits.memory_bytes"), "{status}");
    assert!(grown < REFUSED, "{grown}");
    // Each of them fits alone.
    let few = || framed([field(1, b"none".to_vec()), field(3, payload(3, MIB / 8))].concat());
    let (status, _) = server.growth(&runtime, "/qdrant.Points/Upsert", few());
    assert_eq!(status.code(), Code::NotFound, "{status}");
    std::fs::write(format!("/proc/{}/clear_refs", server.process.id()), "5").unwrap();
    let before = server.memory("VmRSS");
    runtime.block_on(async {
        let grpc = server.grpc;
        let calls: Vec<_> = (0..64)
            .map(|_| tokio::spawn(call(grpc, "/qdrant.Points/Upsert", few())))
            .collect();
        for call in calls {
            let status = call.await.unwrap();
            let expected = [Code::NotFound, Code::ResourceExhausted];
            assert!(expected.contains(&status.code()), "{status}");
        }
    });
    let grown = server.memory("VmHWM").saturating_sub(before);
    assert!(grown < LIMIT + REFUSED, "{grown}");
}
