//! The processes of one mode, as a pool that answers queries.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use parking_lot::Mutex;

use super::super::pools::{Done, Job, Pool};
use super::instance::{Reply, Setup};
use super::wire::{self, Answer, Ask};

/// How long an instance may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an instance that runs may take to answer, or to take what is written to it. One that is stopped never does.
const STUCK: Duration = Duration::from_secs(20);

/// How long it may take to read the tables.
const LOADING: Duration = Duration::from_secs(1_800);

/// All processes of a mode. A query goes to the one with the fewest outstanding, as a load balancer would send it.
pub(super) struct Fleet {
    members: Vec<Member>,
    next: AtomicUsize,
}

impl Fleet {
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self {
            members,
            next: AtomicUsize::new(0),
        }
    }

    /// Processor time that all have used.
    pub(super) fn processor(&self) -> anyhow::Result<Duration> {
        let members = self.members.iter().zip(1..);
        let each = members.map(|(member, number)| {
            let count = self.members.len();
            let used = member.processor();
            used.with_context(|| format!("process {number} of {count}"))
        });
        each.sum()
    }

    /// Threads that answer, of all processes.
    pub(super) fn threads(&self) -> usize {
        self.members.iter().map(|member| member.threads).sum()
    }

    /// Bytes of all processes' tables.
    pub(super) fn table_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.table_bytes).sum()
    }
}

impl Pool for Fleet {
    fn send(&self, job: Job) {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.members.len();
        let members = (0..count).map(|i| &self.members[(first + i) % count]);
        let least = members.min_by_key(|member| member.outstanding.load(Ordering::Relaxed));
        if let Some(member) = least {
            member.send(first, job);
        }
    }
}

/// One process.
pub(super) struct Member {
    process: Mutex<Process>,
    connections: Vec<Arc<Connection>>,
    outstanding: Arc<AtomicUsize>,
    threads: usize,
    table_bytes: u64,
}

impl Member {
    /// Starts this program again as an instance that does what `setup` says; `adopt` is given its id before it does.
    pub(super) fn start(setup: &Setup, adopt: impl FnOnce(u32)) -> anyhow::Result<Self> {
        let mut process = Process::start()?;
        adopt(process.child.id());
        let (threads, table_bytes) = match process.ask(&serde_json::to_string(setup)?, LOADING)? {
            Reply::Ready {
                threads,
                table_bytes,
            } => (threads, table_bytes),
            Reply::Failed(why) => bail!("an instance did not start: {why}"),
            other @ Reply::Processor(_) => bail!("an instance says {other:?}"),
        };
        let outstanding = Arc::new(AtomicUsize::new(0));
        let connect = |_| {
            let stream = UnixStream::connect(&setup.socket).context("no connection")?;
            Connection::start(stream, &outstanding)
        };
        let connections = (0..setup.connections)
            .map(connect)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            process: Mutex::new(process),
            connections,
            outstanding,
            threads,
            table_bytes,
        })
    }

    fn send(&self, number: usize, job: Job) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.connections[number % self.connections.len()].send(job);
    }

    fn processor(&self) -> anyhow::Result<Duration> {
        match self.process.lock().ask("", STUCK)? {
            Reply::Processor(micros) => Ok(Duration::from_micros(micros)),
            other => bail!("an instance says {other:?}"),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        for connection in &self.connections {
            // Its reader ends, and whoever is in the middle of writing.
            let _ = connection.control.shutdown(Shutdown::Both);
        }
    }
}

/// The child, and the pipes to it.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// Its lines; a thread reads them, so that waiting has an end.
    output: Receiver<String>,
}

impl Process {
    fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program is not found")?;
        let mut words = std::env::args_os().skip(1);
        let mut child = Command::new(program)
            .args(words.next())
            // Before the others, which may end with `--`.
            .arg("--instance")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("an instance did not start")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let lines = BufReader::new(output.context("an instance without output")?).lines();
        let (tell, told) = mpsc::channel();
        let read = move || {
            for line in lines.map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("replies".to_owned())
            .spawn(read)?;
        Ok(Self {
            child,
            input,
            output: told,
        })
    }

    /// Writes a line and reads one, which has to come within `patience`.
    fn ask(&mut self, line: &str, patience: Duration) -> anyhow::Result<Reply> {
        let asked = self.input.as_mut().map(|input| writeln!(input, "{line}"));
        let answer = match asked {
            Some(Ok(())) => self.output.recv_timeout(patience),
            _ => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(answer) => Ok(serde_json::from_str(&answer)?),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("an instance ended: {}", self.child.wait()?)
            }
            Err(RecvTimeoutError::Timeout) => bail!(
                "an instance (process id {}) has not answered for {} s; was it stopped?",
                self.child.id(),
                patience.as_secs()
            ),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.input.take());
        let began = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A socket to a process, and who waits for its answers.
struct Connection {
    stream: Mutex<UnixStream>,
    /// The same, for who must not wait for a writer.
    control: UnixStream,
    waiting: Mutex<Waiting>,
    outstanding: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    queries: HashMap<u64, Done>,
    closed: bool,
}

impl Connection {
    fn start(stream: UnixStream, outstanding: &Arc<AtomicUsize>) -> anyhow::Result<Arc<Self>> {
        let mut from = BufReader::new(stream.try_clone()?);
        stream.set_write_timeout(Some(STUCK))?;
        let connection = Arc::new(Self {
            control: stream.try_clone()?,
            stream: Mutex::new(stream),
            waiting: Mutex::default(),
            outstanding: Arc::clone(outstanding),
        });
        let reader = Arc::clone(&connection);
        let read = move || {
            let mut bytes = Vec::new();
            while let Ok(answer) = wire::read::<Answer>(&mut from, &mut bytes) {
                reader.finish(&answer);
            }
            reader.close();
        };
        std::thread::Builder::new()
            .name("answers".to_owned())
            .spawn(read)?;
        Ok(connection)
    }

    fn send(&self, job: Job) {
        let id = {
            let mut waiting = self.waiting.lock();
            if waiting.closed {
                self.outstanding.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            waiting.last += 1;
            let id = waiting.last;
            waiting.queries.insert(id, job.done);
            id
        };
        let ask = Ask::new(id, job.table, &job.query);
        if wire::write(&self.stream.lock(), &ask).is_err() {
            self.close();
        }
    }

    fn finish(&self, answer: &Answer) {
        let done = self.waiting.lock().queries.remove(&answer.id);
        if let Some(done) = done {
            self.outstanding.fetch_sub(1, Ordering::Relaxed);
            done.finish(answer.hits().as_deref());
        }
    }

    /// All that wait have no answer, and those that are sent from now on have none either.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let lost = std::mem::take(&mut waiting.queries);
        drop(waiting);
        self.outstanding.fetch_sub(lost.len(), Ordering::Relaxed);
    }
}
