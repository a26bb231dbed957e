//! Real clients over loopback: look-ups, refusals, writes, shards, replicas that end.

use chiplet_index::Pages;
use keyed_rows::client::Client;
use keyed_rows::protocol::rows_client::RowsClient;
use keyed_rows::protocol::{Entry, GetRequest, StatusRequest, WriteRequest};
use keyed_rows::{MAX_KEYS, Service, made_up};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Code;

const KEYS: u64 = 10_000;

struct Server {
    address: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    async fn start(own: usize, shards: usize) -> Self {
        let rows = made_up::rows(KEYS, own, shards, Pages::Small).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let serving = Service::new(rows).serve(listener, async { drop(stopped.await) });
        Self {
            address,
            stop,
            serving: tokio::spawn(serving),
        }
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn it_finds_refuses_and_writes() {
    let server = Server::start(0, 1).await;
    let url = format!("http://{}", server.address);
    let mut client = RowsClient::connect(url).await.unwrap();
    let mut get = async |keys: Vec<u64>| {
        let reply = client.get(GetRequest { keys }).await;
        reply.map(|reply| reply.into_inner())
    };
    let reply = get(vec![7, KEYS, 3]).await.unwrap();
    assert_eq!(reply.found, [1, 0, 1]);
    let wanted = [made_up::value(7), [0; made_up::VALUE], made_up::value(3)];
    assert_eq!(reply.values, wanted.concat());
    assert!(get(Vec::new()).await.unwrap().values.is_empty());
    let many = get(vec![0; MAX_KEYS + 1]).await.unwrap_err();
    assert_eq!(many.code(), Code::InvalidArgument);

    let url = format!("http://{}", server.address);
    let mut writer = RowsClient::connect(url).await.unwrap();
    let entry = |key, value: Option<&[u8]>| Entry {
        key,
        value: value.map(<[u8]>::to_vec),
    };
    let value = [9; made_up::VALUE];
    // One value is too short, so the others are not written either.
    let entries = vec![entry(7, Some(&value)), entry(8, Some(b"short"))];
    let refused = writer.write(WriteRequest { entries }).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("key 8"), "{refused}");
    assert_eq!(get(vec![7]).await.unwrap().values, made_up::value(7));
    let entries = vec![
        entry(7, Some(&value)),
        entry(KEYS, Some(&value)),
        entry(3, None),
    ];
    let reply = writer.write(WriteRequest { entries }).await.unwrap();
    assert_eq!(reply.into_inner().written, 3);
    let reply = get(vec![7, KEYS, 3]).await.unwrap();
    assert_eq!(reply.found, [1, 1, 0]);
    assert_eq!(reply.values[..made_up::VALUE], value);

    // So much is written that versions are built while this goes on; some calls may be told to try again.
    for start in (0..80_000_u64).step_by(5_000) {
        loop {
            let entries = (start..start + 5_000).map(|key| entry(KEYS + 1 + key, Some(&value)));
            let entries = entries.collect();
            match writer.write(WriteRequest { entries }).await {
                Ok(_) => break,
                Err(full) => assert_eq!(full.code(), Code::ResourceExhausted, "{full}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    let all: Vec<u64> = (0..80_000).step_by(97).map(|key| KEYS + 1 + key).collect();
    let reply = get(all).await.unwrap();
    assert!(reply.found.iter().all(|&found| found == 1));
    let status = writer.status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.value_bytes, made_up::VALUE as u64);
    assert!(status.keys > KEYS && status.written < 80_000, "{status:?}");
    assert!(status.cpu_ns > 0);
    drop((client, writer));
    server.end().await;
}

#[tokio::test]
async fn shards_answer_in_order_and_replicas_stand_in() {
    let shards = 3;
    let mut servers = Vec::new();
    for own in 0..shards {
        servers.push([
            Server::start(own, shards).await,
            Server::start(own, shards).await,
        ]);
    }
    let addresses: Vec<Vec<String>> = servers
        .iter()
        .map(|servers| {
            servers
                .iter()
                .map(|server| server.address.clone())
                .collect()
        })
        .collect();
    let client = Client::connect(&addresses, 2).await.unwrap();
    let keys: Vec<u64> = (0..500).map(|at| at * 7919 % (KEYS + 500)).collect();
    let check = async |client: &Client| {
        let found = client.get(keys.clone()).await.unwrap();
        for (at, &key) in keys.iter().enumerate() {
            let value = &found.values[at * made_up::VALUE..][..made_up::VALUE];
            let there = key < KEYS;
            assert_eq!(found.found[at], u8::from(there), "key {key}");
            let wanted = if there {
                made_up::value(key)
            } else {
                [0; made_up::VALUE]
            };
            assert_eq!(value, wanted, "key {key}");
        }
    };
    check(&client).await;
    // A replica of each shard ends; the other one answers.
    let mut left = Vec::new();
    for [one, other] in servers {
        one.end().await;
        left.push(other);
    }
    for _ in 0..10 {
        check(&client).await;
    }
    // Without one, a call says so instead of answering a part.
    left.pop().unwrap().end().await;
    let refused = client.get(keys.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    drop(client);
    for server in left {
        server.end().await;
    }
}
