//! One process of a mode: reads the tables, starts its pool, and answers queries from its sockets.
//!
//! Standard input brings a line of JSON that says what to do, then a line for each question how much processor time was
//! used. It ends when standard input does: also when the command is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use chiplet_table::Neighbor;
use chiplet_topology::{LevelChoice, Topology, pin};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::arguments::{Arguments, Graph};
use super::super::machine;
use super::super::pools::{self, Caller, Done, Job, Pool, Told, Workers};
use super::super::usage::Usage;
use super::saved;
use super::wire::{self, Answer, Ask};

/// What an instance is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Where the tables are.
    pub(super) folder: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) connections: usize,
    /// As `--strategy` names it.
    pub(super) strategy: String,
    pub(super) cpus: Vec<u32>,
    /// Whether the cpus are fewer than the command has.
    pub(super) pinned: bool,
}

/// What an instance says, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// It listens, with so many threads that answer and so many bytes of tables.
    Ready { threads: usize, table_bytes: u64 },
    /// It cannot; it ends.
    Failed(String),
    /// Processor time it has used, in microseconds.
    Processor(u64),
}

/// Runs until standard input ends.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Ctrl-C goes to all processes of a terminal; the command decides when its instances end.
    ctrlc::set_handler(|| ()).context("Ctrl-C cannot be handled")?;
    let mut lines = std::io::stdin().lock().lines();
    let setup = lines.next().context("no setup on standard input")??;
    match serve(arguments, &serde_json::from_str(&setup)?) {
        Ok(ready) => say(&ready)?,
        Err(error) => return say(&Reply::Failed(format!("{error:#}"))),
    }
    while let Some(Ok(_)) = lines.next() {
        say(&Reply::Processor(
            Usage::of_process().processor().as_micros() as u64,
        ))?;
    }
    // Queries that still run are nobody's.
    std::process::exit(0)
}

fn say(reply: &Reply) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(reply)?)?;
    Ok(out.flush()?)
}

fn serve(arguments: &Arguments, setup: &Setup) -> anyhow::Result<Reply> {
    // Before the cpus are taken away: --domains may name more of them.
    let machine = match setup.pinned {
        true => Topology::detect(arguments.level.unwrap_or(LevelChoice::Auto))?,
        false => machine::topology(arguments, |_| ())?,
    };
    let machine = machine.restricted_to(&setup.cpus)?;
    // Threads that are started later have these cpus, too.
    pin::pin_current_thread(&setup.cpus)?;
    let workers = Workers::of(arguments, &machine, (&machine, &machine), 0)?;
    let choice = setup.strategy.parse()?;
    let tables = Box::leak(saved::load(&setup.folder, arguments)?.into_boxed_slice());
    let table_bytes = tables
        .iter()
        .map(|table| table.index(Graph::Own).size_bytes())
        .sum();
    let count = tables.len();
    let pool: Arc<dyn Pool> = pools::start(&choice, arguments, &machine, &workers, tables)?.into();
    let listener = UnixListener::bind(&setup.socket)
        .with_context(|| format!("{} cannot be listened on", setup.socket.display()))?;
    let connections = setup.connections;
    std::thread::Builder::new()
        .name("listener".to_owned())
        .spawn(move || {
            for stream in listener.incoming().take(connections).flatten() {
                let pool = Arc::clone(&pool);
                let connection = move || answer(stream, &*pool, count);
                if let Err(error) = std::thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(connection)
                {
                    eprintln!("chiplet: an instance has no thread for a connection: {error}");
                }
            }
        })?;
    Ok(Reply::Ready {
        threads: workers.count,
        table_bytes,
    })
}

/// Hands the queries of one connection to the pool until it is closed.
fn answer(stream: UnixStream, pool: &dyn Pool, tables: usize) {
    let Ok(to) = stream.try_clone() else { return };
    let caller: Arc<dyn Caller> = Arc::new(Connection(Mutex::new(to)));
    let (mut from, mut bytes) = (BufReader::new(stream), Vec::new());
    while let Ok(ask) = wire::read::<Ask>(&mut from, &mut bytes) {
        let done = Done::Told(Told::new(Arc::clone(&caller), ask.id));
        let table = ask.table as usize;
        // Dropping `done` says that there is no answer.
        if table < tables {
            pool.send(Job {
                table,
                query: ask.query(),
                done,
            });
        }
    }
}

struct Connection(Mutex<UnixStream>);

impl Caller for Connection {
    fn tell(&self, id: u64, answer: Option<&[Neighbor]>) {
        // The command that is gone needs no answer.
        let _ = wire::write(&self.0.lock(), &Answer::new(id, answer));
    }
}
