//! The program that is emulated: the shipped executor, or a pool that it is compared with, with real tables, asked by
//! clients that each keep so many queries under way. It runs without QEMU too.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chiplet::index::{FlatTable, Metric};
use chiplet::topology::LevelChoice;
use chiplet::{
    Builder, Executor, Neighbor, Pin, PlannerConfig, Query, SearchError, SplitConfig, StealConfig,
    Table, TableId, Ticket, Topology,
};
use chiplet_baselines::Strategy;
use chiplet_caches::marker::{Marker, Phase};
use chiplet_caches::seen::Told;
use chiplet_caches::tables;
use chiplet_workload::traffic::{Arrivals, Group, Traffic};

/// Runs queries, as QEMU is told to; prints JSON.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Tables of `chiplet-caches tables`.
    #[arg(long)]
    pub folder: PathBuf,
    /// How many of them.
    #[arg(long, default_value_t = 12)]
    pub tables: usize,
    /// What is asked.
    #[arg(long, value_enum, default_value_t = Work::Graphs)]
    pub work: Work,
    /// A strategy of chiplet's, or `rayon`.
    #[arg(long, default_value = "ccd-aware")]
    pub strategy: String,
    /// Domains of the machine.
    #[arg(long, default_value_t = 12)]
    pub domains: u32,
    /// Cores of a domain.
    #[arg(long, default_value_t = 8)]
    pub cores: u32,
    /// L3 of a domain, in bytes.
    #[arg(long, default_value_t = 32 << 20)]
    pub l3_bytes: u64,
    /// Take the machine as the system shows it, and tie workers to their domains. It must have the domains and cores
    /// that are asked for; its L3s are what they are.
    #[arg(long)]
    pub detect: bool,
    /// Queries that are counted.
    #[arg(long, default_value_t = 2500)]
    pub queries: usize,
    /// Queries before them, that warm the caches.
    #[arg(long, default_value_t = 2500)]
    pub warm: usize,
    /// Queries under way for each worker.
    #[arg(long, default_value_t = 2)]
    pub under_way: usize,
    /// Threads that send them.
    #[arg(long, default_value_t = 8)]
    pub clients: usize,
    /// Popularity of the n-th table is n to the minus this; 0 is uniform.
    #[arg(long, default_value_t = 0.0)]
    pub skew: f64,
    /// Same seed, same queries.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Candidates that a search keeps.
    #[arg(long, default_value_t = 64)]
    pub ef: usize,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// The saved graphs.
    Graphs,
    /// Exact search over as many rows as the graphs have: every query reads all of a table.
    Scan,
}

impl Arguments {
    /// As the words of a command line.
    pub fn to_words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["program".into(), "--folder".into()];
        words.push(self.folder.clone().into());
        let work = match self.work {
            Work::Graphs => "graphs",
            Work::Scan => "scan",
        };
        for (name, value) in [
            ("tables", self.tables.to_string()),
            ("work", work.to_owned()),
            ("strategy", self.strategy.clone()),
            ("domains", self.domains.to_string()),
            ("cores", self.cores.to_string()),
            ("l3-bytes", self.l3_bytes.to_string()),
            ("queries", self.queries.to_string()),
            ("warm", self.warm.to_string()),
            ("under-way", self.under_way.to_string()),
            ("clients", self.clients.to_string()),
            ("skew", self.skew.to_string()),
            ("seed", self.seed.to_string()),
            ("ef", self.ef.to_string()),
        ] {
            words.push(format!("--{name}").into());
            words.push(value.into());
        }
        if self.detect {
            words.push("--detect".into());
        }
        words
    }
}

/// Who answers.
enum Pool {
    Chiplet(Executor, Vec<TableId>),
    /// A pool that knows no domains.
    Baseline(chiplet_baselines::Pool, Vec<Arc<dyn Table>>),
    Rayon(rayon::ThreadPool, Vec<Arc<dyn Table>>),
}

/// What is under way, and when it came.
enum Answer {
    Ticket(Ticket<Vec<Neighbor>>),
    Done,
}

/// Tells its client when its query has been answered.
struct Bell {
    slot: usize,
    to: Sender<(usize, Instant)>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Fails only when the client has gone.
        let _ = self.to.send((self.slot, Instant::now()));
    }
}

impl Pool {
    fn send(&self, table: usize, query: Query, bell: &Arc<Bell>) -> anyhow::Result<Answer> {
        match self {
            Self::Chiplet(executor, ids) => {
                let ticket = executor.submit(ids[table], query)?;
                Ok(Answer::Ticket(ticket))
            }
            Self::Baseline(pool, tables) => {
                let bell = Arc::clone(bell);
                let sent = pool.search(&tables[table], query, move |found| ring(found, bell));
                anyhow::ensure!(sent.is_ok(), "the pool has no place for a query");
                Ok(Answer::Done)
            }
            Self::Rayon(pool, tables) => {
                let (table, bell) = (Arc::clone(&tables[table]), Arc::clone(bell));
                pool.spawn(move || {
                    ring(table.search(&query, &mut chiplet::Context::default()), bell);
                });
                Ok(Answer::Done)
            }
        }
    }
}

/// Says that a query has been answered.
fn ring(found: Result<Vec<Neighbor>, SearchError>, bell: Arc<Bell>) {
    assert!(found.is_ok_and(|found| !found.is_empty()));
    bell.wake();
}

/// What a table is asked, and for how many neighbours.
struct Asked {
    queries: Vec<Vec<f32>>,
    k: usize,
}

/// A client's share of the queries, as (table, query).
type Share = Vec<(usize, usize)>;

pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let terms = tables::asked(&arguments.folder)?;
    let (mut shelf, mut asked) = (Vec::<Arc<dyn Table>>::new(), Vec::new());
    for table in 0..arguments.tables {
        let graph = tables::map_graph(&arguments.folder, table)?;
        let queries = tables::read_queries(&arguments.folder, table, graph.dim())?;
        let (k, ef) = match &terms {
            Some(terms) => terms.tables[table],
            None => (10, arguments.ef),
        };
        let graph = graph.with_ef(ef)?;
        asked.push(Asked { queries, k });
        shelf.push(match arguments.work {
            Work::Graphs => Arc::new(graph),
            Work::Scan => Arc::new(flat(table, graph.len(), graph.dim())?),
        });
    }
    let (domains, cores) = (arguments.domains, arguments.cores);
    let pool = if arguments.strategy == "rayon" {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads((domains * cores) as usize)
            .thread_name(move |index| format!("rayon-{}-{index}", index as u32 / cores))
            .build()?;
        Pool::Rayon(pool, shelf)
    } else {
        let strategy: Strategy = arguments.strategy.parse()?;
        start(&strategy, arguments, shelf)?
    };
    let (query_skew, hot) = terms.map_or((0.0, 0.0), |terms| (terms.query_skew, terms.hot_share));
    let all = Group::new(0..arguments.tables, asked[0].queries.len())
        .table_skew(arguments.skew)
        .query_skew(query_skew);
    let mut traffic = Traffic::new(arguments.seed, Arrivals::Steady { rate: 1.0 });
    for group in all.hot(hot) {
        traffic = traffic.group(group);
    }
    let mut stream = traffic.stream()?;
    let mut draw = |queries: usize| -> Vec<Share> {
        let mut shares = vec![Share::new(); arguments.clients];
        for n in 0..queries {
            let arrival = stream.next().expect("traffic does not end");
            shares[n % arguments.clients].push((arrival.table, arrival.query));
        }
        shares
    };
    let phases = [draw(arguments.warm), draw(arguments.queries)];

    let marker = Marker::new()?;
    marker.tell(Phase::Warm);
    serve(arguments, &pool, &asked, &phases[0])?;
    let before = snapshot(&pool);
    marker.tell(Phase::Measured);
    let mut served = serve(arguments, &pool, &asked, &phases[1])?;
    marker.tell(Phase::Over);
    let steals = snapshot(&pool).map_or([0; 3], |after| {
        let before = before.unwrap_or_default();
        [0, 1, 2].map(|level| after[level] - before[level])
    });
    served.sort_unstable_by_key(|served| served.1);
    let mut latencies: Vec<u64> = served
        .iter()
        .map(|served| served.0.as_nanos() as u64)
        .collect();
    latencies.sort_unstable();
    let told = Told {
        queries: served.len() as u64,
        qps: middle(&served),
        latencies_ns: [0.5, 0.9, 0.99, 0.999, 1.0]
            .map(|share| latencies[((latencies.len() - 1) as f64 * share) as usize]),
        steals,
    };
    println!("{}", serde_json::to_string(&told)?);
    // The pool's threads end with the process: nothing here is of interest to anybody.
    std::process::exit(0);
}

/// The pool of a strategy, with the tables of `shelf`.
fn start(
    strategy: &Strategy,
    arguments: &Arguments,
    shelf: Vec<Arc<dyn Table>>,
) -> anyhow::Result<Pool> {
    let (domains, cores) = (arguments.domains, arguments.cores);
    let uniform = || Topology::uniform(domains, cores, arguments.l3_bytes);
    if !strategy.is_chiplets() {
        let machine = match arguments.detect {
            true => Topology::detect(LevelChoice::Auto)?,
            false => uniform(),
        };
        check(&machine, domains, cores)?;
        let workers = (domains * cores) as usize;
        let limit = workers * arguments.under_way.max(1) * arguments.clients;
        let pool = chiplet_baselines::Pool::start(strategy, &machine, workers, limit)?;
        return Ok(Pool::Baseline(pool, shelf));
    }
    let builder = Executor::builder()
        .planner(strategy.planner(PlannerConfig::default()))
        .split(strategy.split(SplitConfig::default()))
        .run_length(strategy.run_length);
    let executor = match arguments.detect {
        true => detected(builder, domains, cores)?,
        false => builder.topology(uniform()).build()?,
    };
    let add = |(n, table)| executor.add_table(format!("{n}"), table);
    let ids = shelf.into_iter().enumerate().map(add).collect();
    Ok(Pool::Chiplet(executor, ids))
}

/// Whether the machine has the domains that were asked for.
fn check(machine: &Topology, domains: u32, cores: u32) -> anyhow::Result<()> {
    let found: Vec<usize> = machine
        .domains()
        .iter()
        .map(|domain| domain.cpus().len())
        .collect();
    anyhow::ensure!(
        found == vec![cores as usize; domains as usize],
        "detected domains of {found:?} cpus, not {domains} of {cores}"
    );
    Ok(())
}

/// An executor on this machine. Each worker must be tied to exactly the cpus of its domain.
fn detected(builder: Builder, domains: u32, cores: u32) -> anyhow::Result<Executor> {
    // Under emulation tasks wait hundreds of times longer and no cache is ever cold: the executor would find that
    // crossing pays.
    let at_home = StealConfig::new()
        .cold_factor(None)
        .cold_limit(Duration::from_secs(3_600));
    let executor = builder.pin(Pin::Domain).steal(at_home).build()?;
    let machine = executor.topology();
    check(machine, domains, cores)?;
    for worker in executor.workers() {
        let home = machine
            .domains()
            .iter()
            .find(|domain| domain.id == worker.domain);
        let home = home.context("a worker has no domain")?.cpus();
        anyhow::ensure!(
            worker.granted == home,
            "worker {} of domain {} is tied to {:?}, not {home:?}",
            worker.index,
            worker.domain,
            worker.granted
        );
    }
    Ok(executor)
}

/// Any rows will do: all of them are read whatever they are.
fn flat(table: usize, rows: usize, dim: usize) -> anyhow::Result<FlatTable> {
    let value = |n: usize| ((n + 31 * table) * 2_654_435_761 % 1_000) as f32 / 1_000.0;
    let values: Vec<f32> = (0..rows * dim).map(value).collect();
    Ok(FlatTable::build(values, dim, Metric::L2)?)
}

/// Steals by level: own queue, same domain, another one. The last has what was moved at its submit, too.
fn snapshot(pool: &Pool) -> Option<[u64; 3]> {
    match pool {
        Pool::Chiplet(executor, _) => {
            let steals = executor.snapshot().steals;
            let moved = steals.rebalanced + steals.overflow;
            Some([steals.own, steals.domain, steals.remote + moved])
        }
        Pool::Baseline(pool, _) => Some(pool.steals()),
        Pool::Rayon(..) => None,
    }
}

/// Answers a second between the first tenth of the answers and the last, when all clients are at it.
fn middle(served: &[(Duration, Instant)]) -> f64 {
    let (from, to) = (served.len() / 10, served.len() * 9 / 10);
    (to - from) as f64 / (served[to].1 - served[from].1).as_secs_f64()
}

/// Sends all queries, each client its share. Returns how long each took and when it was answered.
fn serve(
    arguments: &Arguments,
    pool: &Pool,
    asked: &[Asked],
    shares: &[Share],
) -> anyhow::Result<Vec<(Duration, Instant)>> {
    let workers = (arguments.domains * arguments.cores) as usize;
    let slots = (workers * arguments.under_way).div_ceil(shares.len());
    let begin = Barrier::new(shares.len());
    std::thread::scope(|scope| {
        let clients: Vec<_> = shares
            .iter()
            .map(|share| scope.spawn(|| client(pool, asked, share, slots, &begin)))
            .collect();
        let mut served = Vec::new();
        for client in clients {
            served.extend(client.join().expect("a client panicked")?);
        }
        Ok(served)
    })
}

fn client(
    pool: &Pool,
    asked: &[Asked],
    share: &Share,
    slots: usize,
    begin: &Barrier,
) -> anyhow::Result<Vec<(Duration, Instant)>> {
    let (to, bells) = channel();
    let wakers: Vec<Arc<Bell>> = (0..slots)
        .map(|slot| {
            Arc::new(Bell {
                slot,
                to: to.clone(),
            })
        })
        .collect();
    let mut under_way: Vec<Option<(Answer, Instant)>> = (0..slots).map(|_| None).collect();
    let mut served = Vec::with_capacity(share.len());
    let mut left = share.iter();
    let mut send = |slot: usize| -> anyhow::Result<Option<(Answer, Instant)>> {
        let Some(&(table, query)) = left.next() else {
            return Ok(None);
        };
        let Asked { queries, k } = &asked[table];
        let query = Query::new(&queries[query][..]).top(*k);
        let now = Instant::now();
        let mut answer = pool.send(table, query, &wakers[slot])?;
        if let Answer::Ticket(ticket) = &mut answer {
            let waker = Waker::from(Arc::clone(&wakers[slot]));
            if poll(ticket, &waker)? {
                Arc::clone(&wakers[slot]).wake();
                answer = Answer::Done;
            }
        }
        Ok(Some((answer, now)))
    };
    begin.wait();
    for (slot, place) in under_way.iter_mut().enumerate() {
        *place = send(slot)?;
    }
    while served.len() < share.len() {
        let (slot, at) = bells.recv().context("no answer will come")?;
        let (answer, began) = under_way[slot].take().context("an answer came twice")?;
        if let Answer::Ticket(mut ticket) = answer {
            let waker = Waker::from(Arc::clone(&wakers[slot]));
            anyhow::ensure!(
                poll(&mut ticket, &waker)?,
                "a ticket rang before its answer was there"
            );
        }
        served.push((at.saturating_duration_since(began), at));
        under_way[slot] = send(slot)?;
    }
    Ok(served)
}

/// Whether the answer is there.
fn poll(ticket: &mut Ticket<Vec<Neighbor>>, waker: &Waker) -> anyhow::Result<bool> {
    match std::pin::Pin::new(ticket).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(found) => {
            anyhow::ensure!(!found?.is_empty(), "a search found nothing");
            Ok(true)
        }
        Poll::Pending => Ok(false),
    }
}
