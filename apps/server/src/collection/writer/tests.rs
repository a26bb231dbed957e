use std::path::Path;
use std::time::Duration;

use super::*;
use crate::collection::Catalog;
use crate::collection::alter::{Action, Selection};
use crate::collection::catalog::Loading;
use crate::collection::filter::{Check, Condition, Test};
use crate::collection::path;
use crate::collection::point::{Payload, Point};
use crate::collection::schema::{Distance, IndexKind, Settings};
use crate::config::SchedulerSettings;
use crate::memory::Budget;
use crate::scheduling::Scheduler;
use crate::scheduling::background::Background;

const MEMORY: u64 = 4 * GROUP_BYTES;

fn settings() -> Settings {
    Settings {
        dim: 3,
        distance: Distance::Dot,
        index: IndexKind::Flat,
        quantization: None,
        full_scan_bytes: u64::MAX,
        rebuild_bytes: u64::MAX,
        metadata: Default::default(),
        fields: Default::default(),
    }
}

fn put(id: u64, vector: Vec<f32>) -> Change {
    Change::Put(Point {
        id: PointId::Number(id),
        vector,
        payload: Payload::from(&b"payload"[..]),
    })
}

/// What a write needs.
struct Server {
    catalog: Catalog,
    builder: Arc<Builder>,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Serves the collections that are in `folder`.
    fn over(folder: &Path) -> Self {
        let settings = SchedulerSettings {
            pin: "none".into(),
            ..SchedulerSettings::default()
        };
        let scheduler = Arc::new(Scheduler::start(&settings, |_| ()).unwrap());
        let builder = Builder::start(1, &Background::new(&scheduler), &scheduler).unwrap();
        let budget = Arc::new(Budget::new(MEMORY));
        let catalog = Catalog::new(folder, scheduler, Arc::clone(&builder), budget, 10);
        catalog.scan().unwrap();
        catalog.load(&Loading::default());
        Self {
            catalog,
            builder,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .max_blocking_threads(1)
                .build()
                .unwrap(),
        }
    }

    fn write(&self, work: impl Into<Work>) -> Result<Written, WriteError> {
        self.begin(work, true)
    }

    fn begin(&self, work: impl Into<Work>, watched: bool) -> Result<Written, WriteError> {
        let collection = self.catalog.find("a").unwrap();
        let runtime = self.runtime.handle();
        collection.write(work, watched, MEMORY, &self.builder, runtime)
    }
}

#[test]
fn a_point_of_another_dimension_is_refused_and_nothing_stored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::over(folder.path());
    server.catalog.create("a", settings()).unwrap();
    let before = server.catalog.budget().used();
    for dim in [0, 2, 4] {
        let written = server.write(vec![put(1, vec![1.0; 3]), put(2, vec![1.0; dim])]);
        assert!(
            matches!(written, Err(WriteError::Dimension { got, want: 3, .. }) if got == dim),
            "{dim} components: {written:?}"
        );
    }
    assert_eq!(server.catalog.find("a").unwrap().view().live, 0);
    assert_eq!(server.catalog.budget().used(), before);
    let written = server.write(vec![put(1, vec![1.0; 3])]).unwrap();
    server.runtime.block_on(written).unwrap().unwrap();
}

/// The numbers of writes run out, which panics where sums are checked.
#[cfg(debug_assertions)]
#[test]
fn a_write_that_panics_gives_back_what_it_and_those_behind_it_have_taken() {
    use crate::collection::caches::Caches;
    use crate::collection::store::{self, Store};

    let folder = tempfile::tempdir().unwrap();
    {
        let path = store::path_of(folder.path(), "a").unwrap();
        let store = Store::create(&path, &settings(), &Caches::new(u64::MAX)).unwrap();
        let last = put(1, vec![1.0; 3]);
        store.write([(&last, u64::MAX)].into_iter(), None).unwrap();
    }
    let server = Server::over(folder.path());
    let before = server.catalog.budget().used();
    // The only thread for writes is busy until both are queued; together they are too large for one turn.
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    server.runtime.spawn_blocking(move || begun.recv());
    let large = Change::Put(Point {
        id: PointId::Number(2),
        vector: vec![1.0; 3],
        payload: Payload::from(vec![0; GROUP_BYTES as usize]),
    });
    let panics = server.write(vec![large]).unwrap();
    let behind = server.write(vec![put(3, vec![1.0; 3])]).unwrap();
    drop(begin);
    assert!(server.runtime.block_on(panics).is_err());
    assert!(server.runtime.block_on(behind).is_err());
    let collection = server.catalog.find("a").unwrap();
    // Held until what was taken is given back.
    assert_eq!(collection.writes.0.lock().bytes, 0);
    assert_eq!(server.catalog.budget().used(), before);
    assert!(collection.writes.is_idle());
    let after = server.write(vec![put(4, vec![1.0; 3])]);
    assert!(matches!(after, Err(WriteError::Broken)), "{after:?}");
    assert_eq!(server.catalog.budget().used(), before);
}

/// A change of a point that is not there.
fn impossible(points: Selection, patience: Duration) -> Work {
    Work::Alter(Alter {
        points,
        action: Action::Set(Payload::from(vec![0; 1 << 20])),
        patience,
        most: 10,
    })
}

/// A filter that nothing satisfies, and no index knows of.
fn filter() -> Selection {
    Selection::Matching(Condition::Field(Check {
        path: path::Path::parse("a").unwrap(),
        test: Test::Bool(true),
    }))
}

fn served() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::over(folder.path());
    server.catalog.create("a", settings()).unwrap();
    let written = server.write(vec![put(1, vec![1.0; 3])]).unwrap();
    server.runtime.block_on(written).unwrap().unwrap();
    (folder, server)
}

#[test]
fn a_failure_that_nobody_hears_of_is_counted() {
    let (_folder, server) = served();
    let missing = || Selection::Ids(vec![PointId::Number(7)]);
    for (watched, failed) in [(true, 0), (false, 1)] {
        let work = impossible(missing(), Duration::MAX);
        let written = server.begin(work, watched).unwrap();
        let error = server.runtime.block_on(written).unwrap().unwrap_err();
        assert!(matches!(error, WriteError::NoPoint { .. }), "{error}");
        assert_eq!(server.catalog.failed_writes(), failed);
    }
}

#[test]
fn a_filter_of_a_write_ends_with_its_time_and_with_its_collection() {
    let (_folder, server) = served();
    let written = server.write(impossible(filter(), Duration::ZERO)).unwrap();
    let error = server.runtime.block_on(written).unwrap().unwrap_err();
    assert!(matches!(error, WriteError::TooLong { .. }), "{error}");
    let long = Duration::from_secs(1 << 30);
    let written = server.write(impossible(filter(), long)).unwrap();
    server.runtime.block_on(written).unwrap().unwrap();
    let collection = server.catalog.find("a").unwrap();
    collection.deleted.store(true, Ordering::Relaxed);
    let Work::Alter(alter) = impossible(filter(), long) else {
        unreachable!("it is one");
    };
    let error = alter.work_out(&collection).unwrap_err();
    assert!(matches!(error, WriteError::Deleted), "{error}");
}

#[test]
fn a_change_of_payloads_takes_memory_while_it_waits() {
    let (_folder, server) = served();
    let before = server.catalog.budget().used();
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    server.runtime.spawn_blocking(move || begun.recv());
    let wait = || impossible(filter(), Duration::from_secs(1 << 30));
    let one = server.write(wait()).unwrap();
    let other = server.write(wait()).unwrap();
    let waiting = server.catalog.budget().used() - before;
    assert!(waiting >= 2 << 20, "{waiting} bytes for two of a MiB");
    drop(begin);
    for written in [one, other] {
        server.runtime.block_on(written).unwrap().unwrap();
    }
    // The file's cache may have grown by some pages.
    let left = server.catalog.budget().used().saturating_sub(before);
    assert!(left < 1 << 20, "{left} bytes are still taken");
}
