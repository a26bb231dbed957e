//! The sample data, and collections that only have its name.

use std::path::{Path, PathBuf};

use crate::common::Running;
use qdrant_client::qdrant::{CountPointsBuilder, GetPointsBuilder};

fn datasets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets")
}

fn count(running: &Running) -> u64 {
    let counted = running.client.count(CountPointsBuilder::new("words"));
    running.run(counted).unwrap().result.unwrap().count
}

/// Lets index builds end: this process ends after the tests, and OpenBLAS does not bear that while it trains lists. The
/// server itself ends without asking it.
fn builds_end(running: &Running) {
    while running.metric("chiplet_server_builds_pending", &[]) > 0.0 {
        // Builds have the lowest priority, and a core of two would only ask.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_sample_is_loaded_once() {
    let running = Running::start();
    let server = running.server.as_ref().unwrap();
    server.load_sample(&datasets()).unwrap();
    assert_eq!(count(&running), 30_000);
    let deleted = qdrant_client::qdrant::DeletePointsBuilder::new("words").points(
        qdrant_client::qdrant::PointsIdsList {
            ids: vec![7.into()],
        },
    );
    running
        .run(running.client.delete_points(deleted.wait(true)))
        .unwrap();
    // As after a start that was stopped half-way.
    server.load_sample(&datasets()).unwrap();
    assert_eq!(count(&running), 30_000);
    builds_end(&running);
}

/// Of the sample's own dimension and of another.
#[test]
fn a_collection_of_somebody_else_is_left_alone() {
    for dim in [4, 50] {
        let running = Running::start();
        running.fill("words", dim, 10);
        let server = running.server.as_ref().unwrap();
        server.load_sample(&datasets()).unwrap();
        assert_eq!(count(&running), 10, "{dim} dimensions");
        let get = GetPointsBuilder::new("words", vec![3.into()]).with_payload(true);
        let found = running.run(running.client.get_points(get)).unwrap().result;
        assert!(found[0].payload.contains_key("id"), "{dim} dimensions");
        builds_end(&running);
    }
}
