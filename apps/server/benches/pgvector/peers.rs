//! Who is measured, and one client's connection to each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use chiplet::index::HnswConfig;
use chiplet_bench::workload::dataset::GloveSample;
use h2::client::SendRequest;
use http::Request;
use pgvector::Vector;
use prost::Message;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{Query, QueryPoints, QueryResponse, SearchParams};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, Statement};
use tonic::transport::Endpoint;

use super::common::process::{Process, cpu_time};
use super::common::words;
use super::helper::Postgres;

/// Results of a query.
pub(crate) const RESULTS: usize = 10;

/// What both build their graphs with: the server's defaults.
const M: usize = HnswConfig::DEFAULT_M;
const EF_CONSTRUCTION: usize = HnswConfig::DEFAULT_EF_CONSTRUCTION;

const COLLECTION: &str = "words";

/// HTTP/2 windows that no answer fills.
const WINDOW: u32 = 1 << 20;

enum Kind {
    Server(Process),
    Postgres(Postgres),
}

pub(crate) struct Peer {
    name: String,
    kind: Kind,
    /// How widely its graph is searched.
    ef: usize,
}

impl Peer {
    pub(crate) fn server(name: &str, process: Process) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Server(process),
            ef: 0,
        }
    }

    pub(crate) fn postgres(process: Postgres) -> Self {
        Self {
            name: "pgvector".to_owned(),
            kind: Kind::Postgres(process),
            ef: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn ef(&self) -> usize {
        self.ef
    }

    pub(crate) fn set_ef(&mut self, ef: usize) {
        self.ef = ef;
    }

    /// What `stock.py` calls it, and where it listens.
    pub(crate) fn address(&self) -> (&'static str, String) {
        match &self.kind {
            Kind::Server(process) => ("server", process.grpc.to_string()),
            Kind::Postgres(postgres) => ("postgres", format!("127.0.0.1:{}", postgres.port)),
        }
    }

    /// Processor time used so far, by all processes of the peer.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        match &self.kind {
            Kind::Server(process) => process.cpu_time(),
            Kind::Postgres(postgres) => cpu_time(postgres.process),
        }
    }

    /// Waits until the peer is idle.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Server(process) => process.settle(),
            // Its background processes are idle soon after the load; a backend has nothing to do between queries.
            Kind::Postgres(_) => Ok(()),
        }
    }

    /// Loads all words and builds an index over all of them.
    pub(crate) async fn load(&self, words: &GloveSample) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Server(process) => {
                let channel = Endpoint::from_shared(format!("http://{}", process.grpc))?
                    .connect()
                    .await?;
                let rows = words.vectors.len();
                words::fill(&channel, COLLECTION, &words.vectors, rows, rows).await?;
                words::wait_for_index(&channel, COLLECTION, rows as u64).await
            }
            Kind::Postgres(postgres) => load_postgres(postgres, words).await,
        }
    }

    /// Another client's connection.
    pub(crate) async fn connect(&self, words: &GloveSample) -> anyhow::Result<Connection> {
        match &self.kind {
            Kind::Server(process) => Grpc::connect(process, words, self.ef)
                .await
                .map(Connection::Grpc),
            Kind::Postgres(postgres) => Sql::connect(postgres, words, self.ef)
                .await
                .map(Connection::Sql),
        }
    }
}

async fn load_postgres(postgres: &Postgres, words: &GloveSample) -> anyhow::Result<()> {
    let client = session(postgres).await?;
    let dim = words.vectors.dim();
    client
        .batch_execute(&format!(
            "CREATE EXTENSION vector; \
             CREATE TABLE words (id bigint PRIMARY KEY, embedding vector({dim}) NOT NULL)"
        ))
        .await?;
    let insert = client.prepare("INSERT INTO words VALUES ($1, $2)").await?;
    client.batch_execute("BEGIN").await?;
    for (id, row) in words.vectors.rows().enumerate() {
        let vector = Vector::from(row.to_vec());
        client.execute(&insert, &[&(id as i64), &vector]).await?;
    }
    client
        .batch_execute(&format!(
            "COMMIT; \
             CREATE INDEX ON words USING hnsw (embedding vector_cosine_ops) \
             WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"
        ))
        .await
        .context("the index of pgvector")?;
    // Neither may be in a transaction, which several statements at once are.
    client.batch_execute("VACUUM ANALYZE words").await?;
    Ok(client.batch_execute("CHECKPOINT").await?)
}

async fn session(postgres: &Postgres) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(postgres.port)
        .user("postgres")
        .dbname("postgres")
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    Ok(client)
}

/// One client.
pub(crate) enum Connection {
    Grpc(Grpc),
    Sql(Sql),
}

impl Connection {
    /// Asks one of the queries and reads the whole answer.
    pub(crate) async fn ask(&mut self, query: usize) -> anyhow::Result<()> {
        match self {
            Self::Grpc(grpc) => grpc.ask(query).await.map(|_| ()),
            Self::Sql(sql) => sql.ask(query).await.map(|_| ()),
        }
    }

    /// The ids that one of the queries finds.
    pub(crate) async fn ids(&mut self, query: usize) -> anyhow::Result<Vec<u32>> {
        match self {
            Self::Grpc(grpc) => {
                let answer = QueryResponse::decode(grpc.ask(query).await?.slice(5..))?;
                let points = answer.result.into_iter();
                points
                    .map(|point| match point.id.and_then(|id| id.point_id_options) {
                        Some(PointIdOptions::Num(id)) => Ok(u32::try_from(id)?),
                        other => bail!("a point has the id {other:?}"),
                    })
                    .collect()
            }
            Self::Sql(sql) => {
                let rows = sql.ask(query).await?;
                rows.iter()
                    .map(|row| Ok(u32::try_from(row.get::<_, i64>(0))?))
                    .collect()
            }
        }
    }
}

/// A gRPC client on the bare HTTP/2 library, with its requests as bytes.
pub(crate) struct Grpc {
    send: SendRequest<Bytes>,
    head: Request<()>,
    bodies: Arc<Vec<Bytes>>,
}

impl Grpc {
    async fn connect(process: &Process, words: &GloveSample, ef: usize) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(process.grpc).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(stream)
            .await?;
        tokio::spawn(connection);
        let head = Request::post(format!("http://{}/qdrant.Points/Query", process.grpc))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let bodies = words
            .queries
            .iter()
            .map(|&row| body(words.vectors.row(row), ef))
            .collect();
        Ok(Self {
            send,
            head,
            bodies: Arc::new(bodies),
        })
    }

    async fn ask(&mut self, query: usize) -> anyhow::Result<Bytes> {
        std::future::poll_fn(|context| self.send.poll_ready(context)).await?;
        let (answer, mut request) = self.send.send_request(self.head.clone(), false)?;
        request.send_data(self.bodies[query].clone(), true)?;
        let (head, mut body) = answer.await?.into_parts();
        let mut message = BytesMut::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            message.extend_from_slice(&data);
        }
        let trailers = body.trailers().await?.unwrap_or(head.headers);
        let status = trailers.get("grpc-status");
        ensure!(
            status.is_some_and(|status| status == "0"),
            "a query failed: {status:?} {:?}",
            trailers.get("grpc-message")
        );
        Ok(message.freeze())
    }
}

/// A query's message as gRPC frames it: not compressed, its length, its bytes.
fn body(vector: &[f32], ef: usize) -> Bytes {
    let query = QueryPoints {
        collection_name: COLLECTION.to_owned(),
        query: Some(Query::new_nearest(vector.to_vec())),
        limit: Some(RESULTS as u64),
        params: Some(SearchParams {
            hnsw_ef: Some(ef as u64),
            ..SearchParams::default()
        }),
        ..QueryPoints::default()
    };
    let message = query.encode_to_vec();
    let length = (message.len() as u32).to_be_bytes();
    [&[0], &length[..], &message].concat().into()
}

/// A PostgreSQL client with a prepared statement.
pub(crate) struct Sql {
    client: Client,
    statement: Statement,
    vectors: Arc<Vec<Vector>>,
}

impl Sql {
    async fn connect(postgres: &Postgres, words: &GloveSample, ef: usize) -> anyhow::Result<Self> {
        let client = session(postgres).await?;
        client
            .batch_execute(&format!("SET hnsw.ef_search = {ef}"))
            .await?;
        let statement = client
            .prepare(&format!(
                "SELECT id FROM words ORDER BY embedding <=> $1 LIMIT {RESULTS}"
            ))
            .await?;
        let vectors = words
            .queries
            .iter()
            .map(|&row| Vector::from(words.vectors.row(row).to_vec()))
            .collect();
        Ok(Self {
            client,
            statement,
            vectors: Arc::new(vectors),
        })
    }

    async fn ask(&mut self, query: usize) -> anyhow::Result<Vec<tokio_postgres::Row>> {
        let rows = self
            .client
            .query(&self.statement, &[&self.vectors[query]])
            .await?;
        ensure!(rows.len() == RESULTS, "{} results", rows.len());
        Ok(rows)
    }
}
