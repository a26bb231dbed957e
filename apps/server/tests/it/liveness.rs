//! Whatever a request costs, the server goes on to say that it lives: nothing dear runs on the network's threads.

use std::time::{Duration, Instant};

use crate::common::{Running, line};
use qdrant_client::Payload;
use qdrant_client::qdrant::{
    Condition, DeletePointsBuilder, Filter, PointStruct, QueryBatchPointsBuilder,
    QueryPointsBuilder, ScrollPointsBuilder, UpsertPointsBuilder,
};
use tokio::task::JoinHandle;

/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(240);

const POINTS: u64 = 20_000;

/// A server with one thread for the network, and points that are dear to filter: an hour is allowed.
fn running() -> Running {
    let running = Running::with(|settings| {
        settings.scheduler.network_threads = 1;
        settings.limits.query_seconds = 3_600;
    });
    running.fill("line", 4, 1);
    let numbers: Vec<i64> = (0..100).collect();
    let payload = Payload::try_from(serde_json::json!({ "numbers": numbers })).unwrap();
    for first in (0..POINTS).step_by(1_000) {
        let points: Vec<PointStruct> = (first..first + 1_000)
            .map(|id| PointStruct::new(id, line(4, id), payload.clone()))
            .collect();
        let upsert = UpsertPointsBuilder::new("line", points).wait(true);
        running.run(running.client.upsert_points(upsert)).unwrap();
    }
    running
}

/// A filter that looks at each of a point's numbers a thousand times, and so at two billion.
fn dear() -> Filter {
    // Numbers that collide in a hash that is only a product, as that of `rustc_hash`.
    let inverse = (0..6).fold(0xf135_7aea_2e62_a9c5_u64, |x, _| {
        x.wrapping_mul(2_u64.wrapping_sub(0xf135_7aea_2e62_a9c5_u64.wrapping_mul(x)))
    });
    let colliding = |r: u64| (r.wrapping_mul(inverse) | 1 << 62) as i64;
    let numbers: Vec<i64> = (1..40).map(colliding).collect();
    Filter::should((0..999).map(|_| Condition::matches("numbers", numbers.clone())))
}

/// The server says that it lives after a worker has begun with the request, and before the request has ended.
fn lives_meanwhile<T: std::fmt::Debug>(running: &Running, request: &JoinHandle<T>, busy: &str) {
    let give_up = Instant::now() + BOUND;
    while running.metric(busy, &[]) < 1.0 {
        assert!(!request.is_finished(), "it was too cheap");
        assert!(Instant::now() < give_up, "it begins");
    }
    for _ in 0..3 {
        assert_eq!(running.page("/livez").0, 200);
    }
    assert!(!request.is_finished(), "it was answered only afterwards");
}

const WORKERS: &str = "chiplet_domain_workers_busy";

#[test]
fn the_server_lives_beside_a_dear_batch() {
    let running = running();
    let client = running.client.clone();
    let query = QueryPointsBuilder::new("line")
        .query(line(4, 3))
        .filter(dear());
    let batch = QueryBatchPointsBuilder::new("line", vec![query.build(); 8]);
    let request = running
        .runtime
        .spawn(async move { client.query_batch(batch).await });
    lives_meanwhile(&running, &request, WORKERS);
    request.abort();
}

#[test]
fn the_server_lives_beside_a_dear_scroll_with_many_names() {
    let running = running();
    let client = running.client.clone();
    let names: Vec<String> = (0..999)
        .map(|number| format!("\"name {number}\".part"))
        .collect();
    let scroll = ScrollPointsBuilder::new("line")
        .filter(dear())
        .with_payload(qdrant_client::qdrant::PayloadIncludeSelector { fields: names })
        .limit(10_000);
    let request = running
        .runtime
        .spawn(async move { client.scroll(scroll).await });
    lives_meanwhile(&running, &request, WORKERS);
    request.abort();
}

/// The filter of a write is worked out by the collection's writing thread.
#[test]
fn the_server_lives_beside_a_dear_deletion() {
    let running = running();
    let tasks = || running.metric("chiplet_table_queries_total", &["line"]);
    assert_eq!(tasks(), 0.0);
    let client = running.client.clone();
    let delete = DeletePointsBuilder::new("line").points(dear()).wait(true);
    let request = running
        .runtime
        .spawn(async move { client.delete_points(delete).await });
    let give_up = Instant::now() + BOUND;
    // It is read by a worker first, as a task of the collection.
    while tasks() < 1.0 {
        assert!(Instant::now() < give_up, "a worker reads the filter");
    }
    for _ in 0..3 {
        assert_eq!(running.page("/livez").0, 200);
    }
    assert!(!request.is_finished(), "it was answered only afterwards");
    request.abort();
    // Nothing else ends it.
    running
        .run(running.client.delete_collection("line"))
        .unwrap();
}
