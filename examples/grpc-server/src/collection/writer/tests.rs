use std::path::Path;

use super::*;
use crate::collection::Catalog;
use crate::collection::catalog::Loading;
use crate::collection::point::{Payload, Point};
use crate::collection::schema::{Distance, IndexKind, Settings};
use crate::config::SchedulerSettings;
use crate::memory::Budget;
use crate::scheduling::Scheduler;
use crate::scheduling::background::Background;

fn settings() -> Settings {
    Settings {
        dim: 3,
        distance: Distance::Dot,
        index: IndexKind::Flat,
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
        let builder = Builder::start(1, &Background::new(&scheduler)).unwrap();
        let budget = Arc::new(Budget::new(1 << 20));
        let catalog = Catalog::new(folder, scheduler, Arc::clone(&builder), budget, 10);
        catalog.scan().unwrap();
        catalog.load(&Loading::default());
        Self {
            catalog,
            builder,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    fn write(&self, changes: Vec<Change>) -> Result<Written, WriteError> {
        let collection = self.catalog.find("a").unwrap();
        collection.write(changes, 1 << 20, &self.builder, self.runtime.handle())
    }
}

#[test]
fn a_point_of_another_dimension_is_refused_and_nothing_stored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::over(folder.path());
    server.catalog.create("a", settings()).unwrap();
    for dim in [0, 2, 4] {
        let written = server.write(vec![put(1, vec![1.0; 3]), put(2, vec![1.0; dim])]);
        assert!(
            matches!(written, Err(WriteError::Dimension { got, want: 3, .. }) if got == dim),
            "{dim} components: {written:?}"
        );
    }
    assert_eq!(server.catalog.find("a").unwrap().view().live, 0);
    assert_eq!(server.catalog.budget().used(), 0);
    let written = server.write(vec![put(1, vec![1.0; 3])]).unwrap();
    server.runtime.block_on(written).unwrap().unwrap();
}
