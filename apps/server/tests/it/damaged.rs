//! A collection's file in which one page took another's place: that collection says so, the others are served.

use std::collections::HashSet;

use crate::common::{Running, refusal};
use qdrant_client::qdrant::CountPointsBuilder;
use tonic::Code;

const PAGE: usize = 4_096;

/// Two pages of points, by their kind and their number of records.
fn two_leaves(file: &[u8]) -> (usize, usize) {
    const LEAF: u8 = 1;
    let mut seen = HashSet::new();
    let full = (1..file.len() / PAGE).filter(|page| {
        let page = &file[page * PAGE..(page + 1) * PAGE];
        page[0] == LEAF && page[2] > 10 && seen.insert(page.to_vec())
    });
    let full: Vec<usize> = full.take(2).collect();
    (full[0], full[1])
}

#[test]
fn a_damaged_collection_is_seen_from_outside_and_others_are_served() {
    let running = Running::start();
    running.fill("a", 4, 2_000);
    running.fill("b", 4, 10);
    let file = running.data.path().join("a.redb");
    let running = running.again(|| {
        let mut bytes = std::fs::read(&file).unwrap();
        let (from, to) = two_leaves(&bytes);
        bytes.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
        std::fs::write(&file, bytes).unwrap();
    });
    running.run(async {
        let count = async |name| running.client.count(CountPointsBuilder::new(name)).await;
        assert_eq!(count("b").await.unwrap().result.unwrap().count, 10);
        let (code, message) = refusal(count("a").await);
        assert_eq!(code, Code::DataLoss, "{message}");
        assert!(message.contains("a.redb"), "{message}");
    });
    let (_, state) = running.page("/api/state");
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let tables = state["tables"].as_array().unwrap();
    let a = tables.iter().find(|table| table["name"] == "a").unwrap();
    assert_eq!(a["status"], "red");
    let (status, ready) = running.page("/readyz");
    assert_eq!(status, 200);
    assert!(ready.contains("1 collections cannot be served"), "{ready}");
    let unserved = |reason| running.metric("chiplet_server_collections_unserved", &[reason]);
    assert_eq!((unserved("damaged"), unserved("no_memory")), (1.0, 0.0));
    assert_eq!(running.metric("chiplet_server_builds_red", &[]), 0.0);
}

/// What is asked often has a name of its own in the metrics.
#[test]
fn calls_that_are_served_are_counted_by_name() {
    let running = Running::start();
    running.fill("b", 4, 10);
    running.run(async {
        let scroll = qdrant_client::qdrant::ScrollPointsBuilder::new("b");
        running.client.scroll(scroll).await.unwrap();
    });
    let handled = |method: &str| running.metric("grpc_server_handled_total", &[method]);
    assert_eq!(handled("qdrant.Points/Scroll"), 1.0);
    assert_eq!(handled("\"other\""), 0.0);
}
