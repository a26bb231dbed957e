//! Whatever comes in: a clear status, nothing lost, nothing leaked.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{Running, line, refusal, unharmed};
use prost::Message;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, PointStruct, QueryPointsBuilder, SearchParamsBuilder,
    UpsertPointsBuilder, VectorParamsBuilder,
};
use tonic::Code;

#[test]
fn bad_queries_are_refused_by_what_is_wrong() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let query = |name: &str, vector: Vec<f32>| QueryPointsBuilder::new(name).query(vector);
    let nan = vec![0.0, f32::NAN, 0.0, 0.0];
    let huge = vec![f32::MAX; 4];
    let params = SearchParamsBuilder::default;
    let cases = [
        (query("line", vec![1.0; 3]), Code::InvalidArgument, "4"),
        (query("line", vec![]), Code::InvalidArgument, "4"),
        (query("line", nan), Code::InvalidArgument, "NaN"),
        (query("line", huge), Code::InvalidArgument, "norm"),
        (
            query("line", line(4, 0)).limit(0),
            Code::InvalidArgument,
            "limit",
        ),
        (
            query("line", line(4, 0)).limit(u64::MAX),
            Code::InvalidArgument,
            "limits.results",
        ),
        (
            query("line", line(4, 0)).limit(10).offset(u64::MAX),
            Code::InvalidArgument,
            "limits.results",
        ),
        (
            query("line", line(4, 0)).params(params().hnsw_ef(1 << 40)),
            Code::InvalidArgument,
            "limits.hnsw_ef",
        ),
        (query("none", line(4, 0)), Code::NotFound, "none"),
        (query("a/b", line(4, 0)), Code::InvalidArgument, "name"),
        (
            query(&"x".repeat(10_000), line(4, 0)),
            Code::InvalidArgument,
            "240 bytes",
        ),
        (
            query("line", line(4, 0)).using("other"),
            Code::Unimplemented,
            "named vectors",
        ),
    ];
    for (query, code, named) in cases {
        let (got, message) = refusal(running.run(running.client.query(query)));
        assert_eq!(got, code, "{message}");
        assert!(
            message.contains(named),
            "{message:?} does not name {named:?}"
        );
        assert!(message.len() < 1_000);
    }
    unharmed(&running);
}

#[test]
fn bad_collections_are_refused() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let create = |name: &str, size: u64, distance: Distance| {
        CreateCollectionBuilder::new(name).vectors_config(VectorParamsBuilder::new(size, distance))
    };
    let long = "ü".repeat(125);
    let escaped = "%".repeat(100);
    let cases = [
        (
            create("line", 4, Distance::Dot),
            Code::AlreadyExists,
            "exists",
        ),
        (create("", 4, Distance::Dot), Code::InvalidArgument, "empty"),
        (
            create("../up", 4, Distance::Dot),
            Code::InvalidArgument,
            "/",
        ),
        (
            create("a\nb", 4, Distance::Dot),
            Code::InvalidArgument,
            "control",
        ),
        (
            create(&long, 4, Distance::Dot),
            Code::InvalidArgument,
            "240 bytes",
        ),
        (
            create(&escaped, 4, Distance::Dot),
            Code::InvalidArgument,
            "too long",
        ),
        (create("a", 0, Distance::Dot), Code::InvalidArgument, "size"),
        (
            create("a", 1 << 40, Distance::Dot),
            Code::InvalidArgument,
            "limits.dimensions",
        ),
        (
            create("a", 4, Distance::Manhattan),
            Code::Unimplemented,
            "Manhattan",
        ),
        (
            create("a", 4, Distance::UnknownDistance),
            Code::InvalidArgument,
            "distance",
        ),
        (
            create("a", 4, Distance::Dot).shard_number(3),
            Code::Unimplemented,
            "shards",
        ),
        (
            CreateCollectionBuilder::new("a"),
            Code::InvalidArgument,
            "vectors_config",
        ),
    ];
    for (create, code, named) in cases {
        let (got, message) = refusal(running.run(running.client.create_collection(create)));
        assert_eq!(got, code, "{message}");
        assert!(
            message.contains(named),
            "{message:?} does not name {named:?}"
        );
    }
    assert_eq!(
        running
            .run(running.client.list_collections())
            .unwrap()
            .collections
            .len(),
        1
    );
    unharmed(&running);
}

#[test]
fn an_upsert_with_one_bad_point_stores_nothing() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let empty = qdrant_client::Payload::new;
    for bad in [
        PointStruct::new(99, vec![1.0; 5], empty()),
        PointStruct::new(99, vec![f32::INFINITY; 4], empty()),
        PointStruct::new("no uuid", line(4, 1), empty()),
        PointStruct {
            id: None,
            ..PointStruct::new(1, line(4, 1), empty())
        },
        PointStruct {
            vectors: None,
            ..PointStruct::new(99, line(4, 1), empty())
        },
    ] {
        let points = vec![PointStruct::new(98, line(4, 98), empty()), bad];
        let upsert = UpsertPointsBuilder::new("line", points).wait(true);
        let (code, message) = refusal(running.run(running.client.upsert_points(upsert)));
        assert_eq!(code, Code::InvalidArgument, "{message}");
        unharmed(&running);
    }
}

#[test]
fn a_message_over_the_limit_is_refused() {
    let running = Running::with(|settings| {
        settings.limits.message_bytes = 10_000;
        settings.limits.read_bytes = 5_000;
    });
    running.fill("line", 4, 10);
    let query = QueryPointsBuilder::new("line").query(vec![0.5; 1_500]);
    let (code, message) = refusal(running.run(running.client.query(query)));
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(message.contains("limits.read_bytes"), "{message}");
    let point = PointStruct::new(1, vec![0.5; 3_000], qdrant_client::Payload::new());
    let upsert = UpsertPointsBuilder::new("line", vec![point]);
    let (code, message) = refusal(running.run(running.client.upsert_points(upsert)));
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(message.contains("limits.message_bytes"), "{message}");
    unharmed(&running);
}

#[test]
fn garbage_on_the_port_ends_its_own_connection_only() {
    let running = Running::start();
    running.fill("line", 4, 10);
    let mut noise = vec![0_u8; 4_096];
    for round in 0..50_u8 {
        for (index, byte) in noise.iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(round.wrapping_mul(37) | 1) ^ round;
        }
        let mut stream = TcpStream::connect(running.grpc()).unwrap();
        if round % 2 == 0 {
            stream
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .unwrap();
        }
        // The server may have hung up already.
        let _ = stream.write_all(&noise);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    unharmed(&running);
}

/// Peers that stop before their connection stands: with nothing said, in HTTP/2's first line, and after it without ever
/// acknowledging the server's settings. And the same before and within a TLS handshake.
#[test]
fn half_open_connections_are_ended() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let client_hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";
    let plain = Running::start();
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let encrypted = Running::with(|settings| {
        settings.tls.cert = Some(certificate);
        settings.tls.key = Some(key);
    });
    let silent: Vec<TcpStream> = [
        (&plain, &b""[..]),
        (&plain, &preface[..10]),
        (&plain, &preface[..]),
        (&encrypted, &b""[..]),
        (&encrypted, &client_hello[..]),
    ]
    .into_iter()
    .map(|(running, said)| {
        let mut stream = TcpStream::connect(running.grpc()).unwrap();
        stream.write_all(said).unwrap();
        stream
    })
    .collect();
    for mut stream in silent {
        // Ends in an error if it does not end by itself.
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    plain.fill("line", 4, 10);
    unharmed(&plain);
}

/// Clients that ask and do not read the answers take no more than their share of places, and free them when they go.
#[test]
fn slow_readers_hold_their_places_and_no_more() {
    const PLACES: usize = 4;
    let running = Running::with(|settings| settings.limits.requests = PLACES);
    running.fill("line", 4, 10);
    let large = qdrant_client::Payload::from([("text", "x".repeat(1 << 20).into())]);
    let upsert = UpsertPointsBuilder::new("line", vec![PointStruct::new(3, line(4, 3), large)]);
    running
        .run(running.client.upsert_points(upsert.wait(true)))
        .unwrap();

    let ask = QueryPointsBuilder::new("line")
        .query(line(4, 3))
        .limit(1)
        .with_payload(true)
        .build();
    let mut message = vec![0];
    message.extend_from_slice(&(ask.encoded_len() as u32).to_be_bytes());
    ask.encode(&mut message).unwrap();
    let grpc = running.grpc();
    let unread = running.run(async {
        let stream = tokio::net::TcpStream::connect(grpc).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut unread = Vec::new();
        for _ in 0..PLACES {
            let request = http::Request::post(format!("http://{grpc}/qdrant.Points/Query"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(())
                .unwrap();
            let (answer, mut send) = client.send_request(request, false).unwrap();
            send.send_data(message.clone().into(), true).unwrap();
            // Its head has come, so it holds a place; its body is never read.
            unread.push(answer.await.unwrap());
        }
        (unread, connection)
    });
    let query = || QueryPointsBuilder::new("line").query(line(4, 3)).limit(1);
    let (code, message) = refusal(running.run(running.client.query(query())));
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("limits.requests"), "{message}");
    assert!(running.metric("chiplet_server_shed_total", &["requests"]) >= 1.0);

    unread.1.abort();
    drop(unread);
    let give_up = Instant::now() + Duration::from_secs(60);
    while running.run(running.client.query(query())).is_err() {
        assert!(Instant::now() < give_up, "places are free again");
    }
    unharmed(&running);
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let running = Running::with(|settings| settings.limits.connections = 20);
    let connections: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(running.grpc()).unwrap())
        .collect();
    let give_up = Instant::now() + Duration::from_secs(60);
    while running.metric("chiplet_server_shed_total", &["connections"]) < 20.0 {
        assert!(
            Instant::now() < give_up,
            "those beyond the limit are refused"
        );
    }
    let closed = connections.iter().filter(|connection| {
        let mut connection: &TcpStream = connection;
        connection.set_nonblocking(true).unwrap();
        match connection.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    });
    assert_eq!(closed.count(), 20);
}
