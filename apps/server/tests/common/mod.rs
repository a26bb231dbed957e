//! A server in this process, on free loopback ports, with a data folder of its own.

#![allow(dead_code, reason = "each test program uses some of it")]

pub mod process;
pub mod raw;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use chiplet_server::config::Settings;
use chiplet_server::server::Server;
use qdrant_client::Qdrant;
use qdrant_client::config::QdrantConfig;
use qdrant_client::qdrant::{
    CountPointsBuilder, CreateCollectionBuilder, Distance, HnswConfigDiffBuilder, PointStruct,
    QueryPointsBuilder, UpsertPointsBuilder, VectorParamsBuilder,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Long enough for any machine.
const HANG: Duration = Duration::from_secs(120);

/// Points of one upsert: few enough for servers that are given little memory.
pub const BATCH: usize = 500;

pub struct Running {
    pub server: Option<Server>,
    pub client: Qdrant,
    pub runtime: Runtime,
    pub data: TempDir,
}

/// The defaults, on free ports.
pub fn settings(data: &TempDir) -> Settings {
    let mut settings = Settings::default();
    settings.grpc_addr = SocketAddr::from(([127, 0, 0, 1], 0));
    settings.admin_addr = settings.grpc_addr;
    settings.data_dir = data.path().to_owned();
    // Machines differ; what is tested here does not depend on pinning.
    settings.scheduler.pin = "none".into();
    settings
}

/// A client that waits as long as any machine takes.
pub fn config(address: SocketAddr) -> QdrantConfig {
    let config = Qdrant::from_url(&format!("http://{address}")).skip_compatibility_check();
    config.timeout(HANG).connect_timeout(HANG)
}

impl Running {
    pub fn start() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(&data);
        change(&mut settings);
        let server = Server::start(&settings).unwrap();
        server.wait_until_ready();
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async { config(server.grpc_addr()).build().unwrap() });
        Self {
            server: Some(server),
            client,
            runtime,
            data,
        }
    }

    /// Stops it, and starts it on the same data once `meanwhile` is over.
    pub fn again(mut self, meanwhile: impl FnOnce()) -> Self {
        self.server.take().unwrap().shutdown();
        meanwhile();
        let server = Server::start(&settings(&self.data)).unwrap();
        server.wait_until_ready();
        self.client = self
            .runtime
            .block_on(async { config(server.grpc_addr()).build().unwrap() });
        self.server = Some(server);
        self
    }

    pub fn grpc(&self) -> SocketAddr {
        self.server.as_ref().unwrap().grpc_addr()
    }

    pub fn admin(&self) -> SocketAddr {
        self.server.as_ref().unwrap().admin_addr()
    }

    /// Runs a client's code.
    pub fn run<T>(&self, code: impl Future<Output = T>) -> T {
        self.runtime.block_on(code)
    }

    /// A collection of `rows` points; point `i` is at `(i, 0, 0, ..)`.
    pub fn fill(&self, name: &str, dim: usize, rows: u64) {
        self.fill_linked(name, dim, rows, 16);
    }

    /// [`Running::fill`], for graphs of `m` links a point.
    pub fn fill_linked(&self, name: &str, dim: usize, rows: u64, m: u64) {
        self.run(async {
            let graph = HnswConfigDiffBuilder::default().m(m);
            let params = VectorParamsBuilder::new(dim as u64, Distance::Euclid);
            self.client
                .create_collection(
                    CreateCollectionBuilder::new(name)
                        .vectors_config(params)
                        .hnsw_config(graph),
                )
                .await
                .unwrap();
            for first in (0..rows).step_by(BATCH) {
                let points: Vec<PointStruct> = (first..rows.min(first + BATCH as u64))
                    .map(|id| PointStruct::new(id, line(dim, id), [("id", (id as i64).into())]))
                    .collect();
                self.client
                    .upsert_points(UpsertPointsBuilder::new(name, points).wait(true))
                    .await
                    .unwrap();
            }
        });
    }

    /// One page of the admin port: its status and body.
    pub fn page(&self, path: &str) -> (u16, String) {
        page(self.admin(), path)
    }

    /// The sum of a metric's samples whose line contains all of `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let (status, text) = self.page("/metrics");
        assert_eq!(status, 200);
        text.lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
                    && labels.iter().all(|label| line.contains(label))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown();
        }
    }
}

/// A point on the first axis.
pub fn line(dim: usize, at: u64) -> Vec<f32> {
    let mut vector = vec![0.0; dim];
    vector[0] = at as f32;
    vector
}

pub fn page(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The gRPC code of a failed call, and its message.
pub fn refusal<T: std::fmt::Debug>(
    result: Result<T, qdrant_client::QdrantError>,
) -> (tonic::Code, String) {
    match result {
        Err(qdrant_client::QdrantError::ResponseError { status }) => {
            (status.code(), status.message().to_owned())
        }
        Err(qdrant_client::QdrantError::ResourceExhaustedError { status, .. }) => {
            (status.code(), status.message().to_owned())
        }
        other => panic!("no refusal: {other:?}"),
    }
}

/// Nothing that was refused has changed the ten points of `line`, and the server still serves.
pub fn unharmed(running: &Running) {
    running.run(async {
        let count = running.client.count(CountPointsBuilder::new("line")).await;
        assert_eq!(count.unwrap().result.unwrap().count, 10);
        let query = QueryPointsBuilder::new("line").query(line(4, 3)).limit(1);
        assert_eq!(running.client.query(query).await.unwrap().result.len(), 1);
    });
}
