//! A client for shards and replicas.
//!
//! Each key lives on one shard, and a shard on one server or several, its replicas. A call asks all shards that have
//! one of its keys at once, each at the replica of two that has fewer of our calls under way. A replica that refuses or
//! does not answer is left for the next one: a call has two seconds at each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt as _;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::made_up;
use crate::protocol::rows_client::RowsClient;
use crate::protocol::{GetReply, GetRequest, StatusReply, StatusRequest};

/// How long a server may take for a call, and to be connected to.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a call has found: the values one after the other, and a byte for each key, 1 where it has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// `[keys][value_bytes]`, zeros where there is none.
    pub values: Vec<u8>,
    /// 1 or 0 for each key.
    pub found: Vec<u8>,
}

/// A client; copies share the connections.
#[derive(Clone)]
pub struct Client {
    /// `[shards][replicas]`.
    shards: Arc<[Vec<Replica>]>,
    value_bytes: usize,
}

struct Replica {
    connections: Vec<RowsClient<Channel>>,
    under_way: AtomicUsize,
    turn: AtomicUsize,
}

impl Client {
    /// Connects to the servers at `addresses`, `[shards][replicas]` of `host:port`, `connections` times each.
    ///
    /// # Errors
    /// A server does not answer, or the servers' values have different lengths.
    pub async fn connect(addresses: &[Vec<String>], connections: usize) -> anyhow::Result<Self> {
        let mut shards = Vec::new();
        let mut value_bytes = None;
        for addresses in addresses {
            let mut replicas = Vec::new();
            for address in addresses {
                let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
                let endpoint = endpoint.tcp_nodelay(true).connect_timeout(PATIENCE);
                let endpoint = endpoint.timeout(PATIENCE);
                let mut opened = Vec::new();
                for _ in 0..connections.max(1) {
                    opened.push(RowsClient::new(endpoint.connect().await?));
                }
                let status = opened[0].status(StatusRequest {}).await?.into_inner();
                let bytes = *value_bytes.get_or_insert(status.value_bytes);
                anyhow::ensure!(
                    bytes == status.value_bytes,
                    "{address} has values of {} bytes, others of {bytes}",
                    status.value_bytes
                );
                replicas.push(Replica {
                    connections: opened,
                    under_way: AtomicUsize::new(0),
                    turn: AtomicUsize::new(0),
                });
            }
            anyhow::ensure!(!replicas.is_empty(), "a shard without a server");
            shards.push(replicas);
        }
        anyhow::ensure!(!shards.is_empty(), "no servers");
        Ok(Self {
            shards: shards.into(),
            value_bytes: value_bytes.unwrap_or(0) as usize,
        })
    }

    /// The values of `keys`.
    ///
    /// # Errors
    /// What a server said, if all replicas of a shard failed.
    pub async fn get(&self, keys: Vec<u64>) -> Result<Found, Status> {
        if self.shards.len() == 1 {
            let reply = self.ask(0, keys).await?;
            let GetReply { values, found } = reply;
            return Ok(Found { values, found });
        }
        let mut parts = vec![(Vec::new(), Vec::new()); self.shards.len()];
        for (at, &key) in keys.iter().enumerate() {
            let (places, part) = &mut parts[made_up::shard(key, self.shards.len())];
            places.push(at);
            part.push(key);
        }
        let mut asking = JoinSet::new();
        for (shard, (places, part)) in parts.into_iter().enumerate() {
            if !part.is_empty() {
                let client = self.clone();
                asking.spawn(async move { (places, client.ask(shard, part).await) });
            }
        }
        let bytes = self.value_bytes;
        let mut all = Found {
            values: vec![0; keys.len() * bytes],
            found: vec![0; keys.len()],
        };
        // A part that fails drops the others with `asking`.
        while let Some(answered) = asking.join_next().await {
            let (places, reply) = answered.map_err(|error| Status::internal(error.to_string()))?;
            let reply = reply?;
            for (from, &at) in places.iter().enumerate() {
                let value = &reply.values[from * bytes..][..bytes];
                all.values[at * bytes..][..bytes].copy_from_slice(value);
                all.found[at] = reply.found[from];
            }
        }
        Ok(all)
    }

    /// What every server says of itself.
    ///
    /// # Errors
    /// One does not answer.
    pub async fn status(&self) -> Result<Vec<StatusReply>, Status> {
        let mut all = Vec::new();
        for replica in self.shards.iter().flatten() {
            let mut client = replica.connections[0].clone();
            all.push(client.status(StatusRequest {}).await?.into_inner());
        }
        Ok(all)
    }

    async fn ask(&self, shard: usize, mut keys: Vec<u64>) -> Result<GetReply, Status> {
        let replicas = &self.shards[shard];
        let wanted = keys.len();
        let first = least_busy(replicas);
        let mut last = None;
        for step in 0..replicas.len() {
            let replica = &replicas[(first + step) % replicas.len()];
            let asked = match step + 1 < replicas.len() {
                true => keys.clone(),
                false => std::mem::take(&mut keys),
            };
            match replica.get(asked).await {
                Ok(reply)
                    if reply.found.len() == wanted
                        && reply.values.len() == wanted * self.value_bytes =>
                {
                    return Ok(reply);
                }
                Ok(_) => return Err(Status::internal("an answer of another length")),
                Err(status) if another_may_answer(status.code()) => last = Some(status),
                Err(status) => return Err(status),
            }
        }
        Err(last.unwrap_or_else(|| Status::internal("a shard without a server")))
    }
}

impl Replica {
    async fn get(&self, keys: Vec<u64>) -> Result<GetReply, Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut client = self.connections[turn % self.connections.len()].clone();
        let _under_way = UnderWay::new(&self.under_way);
        Ok(client.get(GetRequest { keys }).await?.into_inner())
    }
}

/// Counts a call until it is answered or given up.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Of two replicas drawn at random the one with fewer calls under way (Mitzenmacher, "The power of two choices", 2001).
fn least_busy(replicas: &[Replica]) -> usize {
    if replicas.len() == 1 {
        return 0;
    }
    let mut random = rand::rng();
    let one = random.random_range(0..replicas.len());
    let other = (one + random.random_range(1..replicas.len())) % replicas.len();
    let busy = |at: usize| replicas[at].under_way.load(Ordering::Relaxed);
    if busy(other) < busy(one) { other } else { one }
}

fn another_may_answer(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
            | Code::Unknown
            // What a call is that was sent as its connection was closed, or that took too long.
            | Code::Cancelled
    )
}
