//! How each query of a round ended, noted by the thread that had its answer.
//!
//! Threads share no line here: each counts what it sent and what it finished, and keeps its records, in a slot of its
//! own. Only the senders look at all slots. Records lie in chunks that never move: growing must not stop a worker in
//! the middle of a measurement. Recall is computed for every [`RECALL_EVERY`]-th query only, as it takes the worker's
//! time too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use chiplet_bench::workload::truth::Truth;
use chiplet_table::Neighbor;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use thread_local::ThreadLocal;

use super::tables::Tables;

/// One in eight answers is checked: thousands a round, at about 1 % of a small search's time.
const RECALL_EVERY: u64 = 8;

/// Records a chunk holds: 128 KiB, below the size from which allocators ask the kernel each time.
const CHUNK: usize = 4_096;

/// One query's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// When the answer was there, in nanoseconds: from the recorder's start, in an outcome from the measured time's.
    pub(crate) ended: u64,
    /// From the intended (or, closed loop, actual) send time, in nanoseconds.
    pub(crate) latency: u64,
    pub(crate) table: u32,
    /// Recall in 1/255, or `None` where it was not looked at.
    pub(crate) recall: Option<u8>,
    /// Refused or failed: there is no answer.
    pub(crate) failed: bool,
}

/// Collects the records of one round after the other.
pub(crate) struct Recorder {
    began: Instant,
    tables: &'static Tables,
    slots: ThreadLocal<CachePadded<Slot>>,
}

/// What one thread has noted.
#[derive(Default)]
struct Slot {
    sent: AtomicU64,
    ended: AtomicU64,
    records: Mutex<Vec<Vec<Record>>>,
}

impl Recorder {
    /// For as long as the process runs: a counted reference would be a line that every thread writes with each query.
    pub(crate) fn start(tables: &'static Tables) -> &'static Self {
        Box::leak(Box::new(Self {
            began: Instant::now(),
            tables,
            slots: ThreadLocal::new(),
        }))
    }

    /// Nanoseconds from the recorder's start to `instant`.
    pub(crate) fn nanos_at(&self, instant: Instant) -> u64 {
        nanos(instant.saturating_duration_since(self.began))
    }

    /// A query is about to be sent; `client` waits for it.
    pub(crate) fn expect(
        &'static self,
        sequence: u64,
        table: usize,
        query: usize,
        from: Instant,
        client: Option<&Arc<Client>>,
    ) -> Completion {
        self.slot().sent.fetch_add(1, Ordering::Relaxed);
        Completion {
            recorder: Some(self),
            from,
            table: table as u32,
            query: query as u32,
            look: sequence.is_multiple_of(RECALL_EVERY),
            client: client.map(Arc::clone),
        }
    }

    /// Queries sent and not ended. Those that end or are sent meanwhile may count or not.
    pub(crate) fn outstanding(&self) -> usize {
        // What ended first: of a query that ended, the sending is seen, too.
        let sum = |of: fn(&Slot) -> &AtomicU64| -> u64 {
            let slots = self.slots.iter();
            slots.map(|slot| of(slot).load(Ordering::Acquire)).sum()
        };
        let ended = sum(|slot| &slot.ended);
        sum(|slot| &slot.sent).saturating_sub(ended) as usize
    }

    /// Waits until all queries have ended, or `until`; false if the time came first.
    pub(crate) fn settle(&self, until: Instant) -> bool {
        while self.outstanding() > 0 {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    fn slot(&self) -> &Slot {
        self.slots.get_or_default()
    }

    /// All records so far, in no order. Those are taken out.
    pub(crate) fn take(&self) -> Vec<Record> {
        let chunks = self
            .slots
            .iter()
            .flat_map(|slot| std::mem::take(&mut *slot.records.lock()));
        chunks.flatten().collect()
    }
}

impl Slot {
    fn keep(&self, record: Record) {
        let mut chunks = self.records.lock();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(record),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(record);
                chunks.push(chunk);
            }
        }
    }
}

/// A sender that waits for each of its answers.
pub(crate) struct Client {
    answered: AtomicBool,
    thread: Thread,
}

impl Client {
    /// The calling thread's.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            answered: AtomicBool::new(false),
            thread: std::thread::current(),
        })
    }

    fn call(&self) {
        self.answered.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Waits for one answer, or `until`; false if the time came first. Only for the thread that made the client.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        while !self.answered.swap(false, Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::park_timeout(left);
        }
        true
    }
}

/// The duty to say how one query ended. Dropping it says that it failed.
pub(crate) struct Completion {
    recorder: Option<&'static Recorder>,
    from: Instant,
    table: u32,
    query: u32,
    look: bool,
    client: Option<Arc<Client>>,
}

impl Completion {
    /// The answer is there, or there is none.
    pub(crate) fn finish(mut self, answer: Option<&[Neighbor]>) {
        self.end(Instant::now(), answer);
    }

    fn end(&mut self, now: Instant, answer: Option<&[Neighbor]>) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        let recall = match answer {
            Some(hits) if self.look => {
                let truth = recorder.tables.all[self.table as usize].truth.as_ref();
                let found = hits.iter().map(|hit| hit.id as u32);
                let recall = |truth: &Truth| truth.recall(self.query as usize, found);
                truth.map(|truth| (recall(truth) * 255.0).round() as u8)
            }
            _ => None,
        };
        let slot = recorder.slot();
        slot.keep(Record {
            ended: recorder.nanos_at(now),
            latency: nanos(now.saturating_duration_since(self.from)),
            table: self.table,
            recall,
            failed: answer.is_none(),
        });
        // After the record: who sees that the query ended finds it.
        slot.ended.fetch_add(1, Ordering::Release);
        if let Some(client) = &self.client {
            client.call();
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.recorder.is_some() {
            self.end(Instant::now(), None);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> &'static Recorder {
        Recorder::start(Tables::empty().keep())
    }

    #[test]
    fn every_expected_query_leaves_one_record_however_it_ends() {
        let recorder = recorder();
        let from = Instant::now();
        // Not looked at for recall: their sequence numbers are no multiples of eight.
        let expect = |sequence| recorder.expect(sequence, 0, 0, from, None);
        let (answered, refused, dropped) = (expect(1), expect(2), expect(3));
        assert_eq!(recorder.outstanding(), 3);
        answered.finish(Some(&[]));
        refused.finish(None);
        drop(dropped);
        assert_eq!(recorder.outstanding(), 0);
        let failed: Vec<bool> = recorder.take().iter().map(|record| record.failed).collect();
        assert_eq!(failed, [false, true, true]);
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn what_other_threads_finish_is_counted_and_kept() {
        let recorder = recorder();
        let queries: Vec<_> = (0..9)
            .map(|n| recorder.expect(8 * n + 1, 0, 0, Instant::now(), None))
            .collect();
        assert!(!recorder.settle(Instant::now()));
        std::thread::spawn(move || {
            for query in queries {
                query.finish(Some(&[]));
            }
        });
        assert!(recorder.settle(Instant::now() + Duration::from_secs(60)));
        assert_eq!(recorder.take().len(), 9);
    }

    #[test]
    fn a_client_is_called_once_for_each_answer() {
        let recorder = recorder();
        let client = Client::new();
        assert!(!client.wait(Instant::now()));
        let query = recorder.expect(1, 0, 0, Instant::now(), Some(&client));
        let worker = std::thread::spawn(move || query.finish(Some(&[])));
        assert!(client.wait(Instant::now() + Duration::from_secs(60)));
        assert!(!client.wait(Instant::now()));
        worker.join().unwrap();
    }
}
