//! What became of each query of a round, noted by the thread that had its answer.
//!
//! A round's [`Recorder`] counts what is outstanding, so that a driver can keep a number of queries in flight, and
//! keeps a small record of each answer. Records lie in chunks that never move: growing must not stop a worker in
//! the middle of a measurement. Recall is computed for every [`RECALL_EVERY`]-th query only, as it takes the
//! worker's time too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use chiplet_executor::Neighbor;
use parking_lot::Mutex;

use super::shelf::Shelf;

/// One in eight answers is checked: thousands a round, at about 1 % of a small search's time.
pub(crate) const RECALL_EVERY: u64 = 8;

/// Records a chunk holds: 96 KiB, below the size from which allocators ask the kernel each time.
const CHUNK: usize = 4_096;

/// Lists of chunks; threads are spread over them, so that two seldom want the same one.
const SHARDS: usize = 64;

/// One query's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// When the answer was there, from the round's start, in nanoseconds.
    pub(crate) ended: u64,
    /// From the intended (or, closed loop, actual) send time, in nanoseconds.
    pub(crate) latency: u64,
    pub(crate) table: u32,
    /// Recall in 1/255, or `None` where it was not looked at.
    pub(crate) recall: Option<u8>,
    /// Refused or failed: there is no answer.
    pub(crate) failed: bool,
}

/// Collects a round's records.
pub(crate) struct Recorder {
    began: Instant,
    shelf: Arc<Shelf>,
    shards: Box<[Mutex<Vec<Vec<Record>>>]>,
    outstanding: AtomicUsize,
    /// The driver is called when no more than this many queries are outstanding.
    low: AtomicUsize,
    /// Whether the driver waits for that call.
    waiting: AtomicBool,
    driver: Thread,
}

impl Recorder {
    /// A recorder for what the calling thread sends in a round that began at `began`.
    pub(crate) fn new(shelf: &Arc<Shelf>, began: Instant) -> Arc<Self> {
        Arc::new(Self {
            began,
            shelf: Arc::clone(shelf),
            shards: (0..SHARDS).map(|_| Mutex::new(Vec::new())).collect(),
            outstanding: AtomicUsize::new(0),
            low: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            driver: std::thread::current(),
        })
    }

    /// A query is about to be sent.
    pub(crate) fn expect(
        self: &Arc<Self>,
        sequence: u64,
        table: usize,
        query: usize,
        from: Instant,
    ) -> Completion {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Completion {
            recorder: Some(Arc::clone(self)),
            from,
            table: table as u32,
            query: query as u32,
            look: sequence.is_multiple_of(RECALL_EVERY),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    /// Waits until at most `low` queries are outstanding, or `until`; false if the time came first. Only for the
    /// thread that made the recorder.
    pub(crate) fn wait_for_room(&self, low: usize, until: Instant) -> bool {
        self.low.store(low, Ordering::Relaxed);
        loop {
            // SeqCst, as in `count_down`: of the two sides that write one and read the other, one sees the other.
            self.waiting.store(true, Ordering::SeqCst);
            if self.outstanding.load(Ordering::SeqCst) <= low {
                self.waiting.store(false, Ordering::Relaxed);
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.waiting.store(false, Ordering::Relaxed);
                return false;
            }
            std::thread::park_timeout(left);
        }
    }

    fn count_down(&self) {
        let left = self.outstanding.fetch_sub(1, Ordering::SeqCst) - 1;
        if self.waiting.load(Ordering::SeqCst)
            && left <= self.low.load(Ordering::Relaxed)
            && self.waiting.swap(false, Ordering::AcqRel)
        {
            self.driver.unpark();
        }
    }

    fn keep(&self, record: Record) {
        let mut shard = self.shards[shard()].lock();
        match shard.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(record),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(record);
                shard.push(chunk);
            }
        }
    }

    /// All records so far, in no order. Those are taken out.
    pub(crate) fn take(&self) -> Vec<Record> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for chunk in shard.lock().drain(..) {
                all.extend(chunk);
            }
        }
        all
    }
}

/// This thread's shard: threads take them in turn.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    MINE.with(|mine| *mine)
}

/// The duty to say how one query ended. Dropping it says that it failed.
pub(crate) struct Completion {
    recorder: Option<Arc<Recorder>>,
    from: Instant,
    table: u32,
    query: u32,
    look: bool,
}

impl Completion {
    /// The answer is there, or there is none.
    pub(crate) fn finish(mut self, answer: Option<&[Neighbor]>) {
        let now = Instant::now();
        self.end(now, answer);
    }

    fn end(&mut self, now: Instant, answer: Option<&[Neighbor]>) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        let recall = match answer {
            Some(hits) if self.look => {
                let truth = &recorder.shelf.tables[self.table as usize].truth;
                let found = hits.iter().map(|hit| hit.id as u32);
                Some((truth.recall(self.query as usize, found) * 255.0).round() as u8)
            }
            _ => None,
        };
        recorder.keep(Record {
            ended: nanos(now.saturating_duration_since(recorder.began)),
            latency: nanos(now.saturating_duration_since(self.from)),
            table: self.table,
            recall,
            failed: answer.is_none(),
        });
        recorder.count_down();
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

    fn recorder() -> Arc<Recorder> {
        Recorder::new(&Arc::new(Shelf::empty()), Instant::now())
    }

    #[test]
    fn every_expected_query_leaves_one_record_however_it_ends() {
        let recorder = recorder();
        let from = Instant::now();
        // Not looked at for recall: their sequence numbers are no multiples of eight.
        let (answered, refused, dropped) = (
            recorder.expect(1, 0, 0, from),
            recorder.expect(2, 0, 0, from),
            recorder.expect(3, 0, 0, from),
        );
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
    fn the_driver_is_called_when_there_is_room() {
        let recorder = recorder();
        let queries: Vec<_> = (0..9)
            .map(|n| recorder.expect(8 * n + 1, 0, 0, Instant::now()))
            .collect();
        assert!(!recorder.wait_for_room(4, Instant::now()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for query in queries {
                    query.finish(Some(&[]));
                }
            });
            assert!(recorder.wait_for_room(0, Instant::now() + Duration::from_secs(60)));
        });
    }
}
