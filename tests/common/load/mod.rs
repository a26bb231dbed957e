//! Everything at once on one executor, with books of its own: clients submit tiny closures and queries that can be
//! split, of which some panic, expire, overflow the queues, or lose their tickets; a steward adds and removes tables;
//! hot tables take turns. At the end the books and the executor's counters must agree to the last task.

pub mod book;
mod client;
mod steward;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, RwLock};
use std::time::{Duration, Instant};

use chiplet::snapshot::Snapshot;
use chiplet::{Context, Executor, Neighbor, Query, TableId};

use super::dice::Dice;
use super::lists::Lists;
use book::Book;

/// The message of a task's panic.
pub const MARK: &str = "a task of the load fails, as it should";

/// How long one set of tables stays hot.
const HOT_FOR: Duration = Duration::from_millis(3);

/// Bytes that a task of a hot table reports, and one of another.
const HOT_BYTES: u64 = 1 << 20;
const COLD_BYTES: u64 = 1 << 8;

/// Marks of queries that fail, told to the table by way of `ef`, which lists ignore.
const FAILS_IN_COARSE: usize = 1_001;
const FAILS_IN_SCAN: usize = 1_002;
const FAILS_IN_MERGE: usize = 1_003;

/// A table as clients find it.
struct Served {
    id: TableId,
    searchable: bool,
    book: Arc<Book>,
}

/// One executor under load. Its threads run [`Load::client`] and [`Load::steward`] until it is shut down.
pub struct Load {
    pub executor: Executor,
    slots: Vec<RwLock<Arc<Served>>>,
    /// Of all tables that ever were.
    books: Mutex<Vec<Arc<Book>>>,
    began: Instant,
    over: AtomicBool,
    added: AtomicU64,
    removed: AtomicU64,
    checked: AtomicU64,
    /// What an unhurried search of any list table answers.
    answer: Vec<Neighbor>,
}

/// Counts of tables over a load's life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    pub added: u64,
    pub removed: u64,
    /// Those of the removed whose counts were checked by themselves before.
    pub checked: u64,
}

impl Load {
    /// Puts `tables` tables on `executor`, a third of them with lists to search.
    pub fn new(executor: Executor, tables: usize) -> Self {
        quiet_panics();
        let query = query();
        let answer = chiplet::Table::search(&Lists::default(), &query, &mut Context::default());
        let mut load = Self {
            executor,
            slots: Vec::new(),
            books: Mutex::default(),
            began: Instant::now(),
            over: AtomicBool::new(false),
            added: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            answer: answer.expect("the query is sound"),
        };
        for slot in 0..tables {
            let served = load.add(slot % 3 == 0);
            load.slots.push(RwLock::new(Arc::new(served)));
        }
        load
    }

    /// Submits until the executor shuts down, then settles what it has waited for.
    pub fn client(&self, seed: u64) {
        client::Client::new(self, Dice(seed)).run();
    }

    /// Replaces tables, looks at the counters and checks them, until the executor shuts down.
    pub fn steward(&self, seed: u64) {
        steward::run(self, Dice(seed));
    }

    /// Tasks that have run so far; it grows as long as anything goes on.
    pub fn executions(&self) -> u64 {
        let books = self.books.lock().unwrap();
        books.iter().map(|book| book.executions()).sum()
    }

    /// What has become of the tables so far.
    pub fn tables(&self) -> Tables {
        Tables {
            added: self.added.load(Ordering::Relaxed),
            removed: self.removed.load(Ordering::Relaxed),
            checked: self.checked.load(Ordering::Relaxed),
        }
    }

    /// After the executor has shut down and all threads of the load have ended: every table's counts and the total's
    /// must be what the books say.
    pub fn settle(&self) -> Snapshot {
        let snapshot = self.executor.snapshot();
        assert_eq!(snapshot.tables.len(), self.slots.len());
        for slot in &self.slots {
            let served = slot.read().unwrap();
            let table = snapshot.tables.iter().find(|table| table.id == served.id);
            Book::check(
                [&*served.book],
                table.expect("the table was not removed").counts,
            );
        }
        let books = self.books.lock().unwrap();
        Book::check(books.iter().map(|book| &**book), snapshot.total);
        snapshot
    }

    fn add(&self, searchable: bool) -> Served {
        let book = Arc::new(Book::default());
        self.books.lock().unwrap().push(Arc::clone(&book));
        let id = if searchable {
            self.executor.add_table("lists", lists(&book))
        } else {
            self.executor.add_closure_table("closures", 1)
        };
        self.added.fetch_add(1, Ordering::Relaxed);
        Served {
            id,
            searchable,
            book,
        }
    }

    fn served(&self, slot: usize) -> Arc<Served> {
        Arc::clone(&self.slots[slot].read().unwrap())
    }

    /// Which of the sets of hot tables has its turn.
    fn turn(&self) -> u64 {
        (self.began.elapsed().as_nanos() / HOT_FOR.as_nanos()) as u64
    }

    /// Whether a table is in the hot set of this turn: one in four, others each time.
    fn is_hot(slot: usize, turn: u64) -> bool {
        let seed = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (slot as u64 * 0x1000_0000_01b3);
        Dice(seed).one_in(4)
    }
}

/// In every snapshot, whatever goes on meanwhile, all accepted tasks are accounted for.
pub fn assert_adds_up(snapshot: &Snapshot) {
    let tables = snapshot.tables.iter().map(|table| table.counts);
    for counts in tables.chain([snapshot.total]) {
        let known = counts.queued + counts.running + counts.ended();
        assert_eq!(counts.accepted, known, "{counts:?}");
    }
}

fn query() -> Query {
    Query::new([3.0])
}

/// Lists that keep book: a query is counted once, where it fails or when its parts are merged.
fn lists(book: &Arc<Book>) -> Lists {
    let [coarse, scan, merge] = [(); 3].map(|()| Arc::clone(book));
    Lists::default()
        .on_coarse(move |query| {
            if query.requested_ef() == Some(FAILS_IN_COARSE) {
                coarse.fail();
            }
        })
        .on_scan(move |query, unit| {
            // In one unit only, so that it is counted once.
            if query.requested_ef() == Some(FAILS_IN_SCAN) && unit.start == 0 {
                scan.fail();
            }
        })
        .on_merge(move |query, _| {
            if query.requested_ef() == Some(FAILS_IN_MERGE) {
                merge.fail();
            }
            merge.ran();
        })
}

/// Leaves the panics of failing tasks unsaid, and no others.
#[expect(
    clippy::incompatible_msrv,
    reason = "tests are built by the newest stable"
)]
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some(MARK) {
                usual(info);
            }
        }));
    });
}
