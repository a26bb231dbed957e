//! Calls that no client's library makes: what they are answered.

use crate::common::{Running, unharmed};
use tonic::{Code, Status};

/// How a call with a message of these fields is refused.
fn refused(running: &Running, path: &str, fields: &[u8]) -> Status {
    let grpc = running.grpc();
    let mut message = vec![0];
    message.extend_from_slice(&(fields.len() as u32).to_be_bytes());
    message.extend_from_slice(fields);
    running.run(async {
        let stream = tokio::net::TcpStream::connect(grpc).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{grpc}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (answer, mut send) = client.send_request(request, false).unwrap();
        // A call that is not there is answered, and its stream closed, before the message has come.
        let _ = send.send_data(message.into(), true);
        let answer = answer.await.unwrap();
        Status::from_header_map(answer.headers()).unwrap()
    })
}

#[test]
fn points_and_queries_are_counted_before_they_are_decoded() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let (invalid, unimplemented) = (Code::InvalidArgument, Code::Unimplemented);
    for (method, tag, code, says) in [
        ("Upsert", 0x1a, invalid, "more than 100000 points"),
        ("Upsert", 0x1a, invalid, "limits.upsert_points"),
        ("SearchBatch", 0x12, invalid, "more than 256 queries"),
        ("QueryBatch", 0x12, invalid, "limits.batch"),
        ("Get", 0x12, invalid, "more than 10000 ids"),
        ("RecommendBatch", 0x12, unimplemented, "recommendation"),
        ("DiscoverBatch", 0x12, unimplemented, "discovery"),
        ("UpdateBatch", 0x1a, unimplemented, "different updates"),
    ] {
        let fields = [[tag, 0].repeat(200_000), vec![0x07]].concat();
        let status = refused(&running, &format!("/qdrant.Points/{method}"), &fields);
        assert_eq!(status.code(), code, "{method}: {status}");
        assert!(status.message().contains(says), "{method}: {status}");
    }
    unharmed(&running);
}

#[test]
fn a_name_that_is_not_in_utf_8_is_the_clients_mistake() {
    let running = Running::start();
    running.fill("line", 4, 10);
    for path in ["/qdrant.Points/Upsert", "/qdrant.Points/Count"] {
        let status = refused(&running, path, b"\x0a\x02\xff\xfe");
        assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status}");
        assert!(status.message().contains("UTF-8"), "{path}: {status}");
    }
    unharmed(&running);
}

#[test]
fn calls_that_are_not_there_are_named() {
    let running = Running::start();
    for path in [
        "/qdrant.Snapshots/Create",
        "/qdrant.Points/Dream",
        "/nobody.Knows/This",
    ] {
        let status = refused(&running, path, &[]);
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
        assert!(status.message().contains(path), "{status:?}");
    }
}
