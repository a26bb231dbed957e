//! The memory limit: what does not fit is refused, the rest goes on.

use std::time::{Duration, Instant};

use crate::common::{self, Running, line, refusal, unharmed};
use qdrant_client::qdrant::{
    CollectionInfo, CountPointsBuilder, DeletePointsBuilder, PointStruct, PointsIdsList,
    QueryPointsBuilder, UpsertPointsBuilder,
};
use tonic::Code;

#[test]
fn writes_beyond_the_memory_limit_are_refused_and_the_rest_serves() {
    let running = Running::with(|settings| settings.limits.memory_bytes = 300_000);
    running.fill("line", 4, 10);
    let upsert = |from: u64, count: u64| {
        let points: Vec<PointStruct> = (from..from + count)
            .map(|id| PointStruct::new(id, line(4, id), qdrant_client::Payload::new()))
            .collect();
        let upsert = UpsertPointsBuilder::new("line", points).wait(true);
        running.run(running.client.upsert_points(upsert))
    };
    // What is sent, and what is kept of it, count alike.
    let kept = (1..100)
        .map(|batch| upsert(batch * 20, 20))
        .find(Result::is_err);
    for refused in [upsert(10_000, 1_000), kept.expect("it is full")] {
        let (code, message) = refusal(refused);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(message.contains("limits.memory_bytes"), "{message}");
    }
    let ids = (20..4_000_u64).map(Into::into).collect::<Vec<_>>();
    for ids in ids.chunks(100) {
        let delete = DeletePointsBuilder::new("line").points(PointsIdsList { ids: ids.to_vec() });
        running
            .run(running.client.delete_points(delete.wait(true)))
            .unwrap();
    }
    unharmed(&running);
    assert!(running.metric("chiplet_server_shed_total", &["memory_limit"]) >= 1.0);
}

/// What was stored with more memory is not loaded into less: it is whole, and says what it needs.
#[test]
fn loading_counts_in_the_memory_limit() {
    // No index: a build that runs would keep the file open.
    let mut running = Running::with(|settings| settings.index.full_scan_kib = 1 << 20);
    running.fill("line", 4, 10);
    // Several at a time: what they take before they are refused is not there for a small one meanwhile.
    for large in ["large", "a", "b", "z"] {
        running.fill(large, 400, 1_000);
    }
    for (limit, loaded) in [(1_000_000, false), (16_000_000, true)] {
        let mut settings = common::settings(&running.data);
        settings.limits.memory_bytes = limit;
        running.server.take().unwrap().shutdown();
        let server = chiplet_server::server::Server::start(&settings).unwrap();
        server.wait_until_ready();
        let config = common::config(server.grpc_addr());
        running.client = running.run(async { config.build().unwrap() });
        running.server = Some(server);
        unharmed(&running);
        let count = running.run(running.client.count(CountPointsBuilder::new("large")));
        if loaded {
            assert_eq!(count.unwrap().result.unwrap().count, 1_000);
        } else {
            let (code, message) = refusal(count);
            assert_eq!(code, Code::ResourceExhausted, "{message}");
            assert!(message.contains("limits.memory_bytes"), "{message}");
            let used = running.metric("chiplet_server_memory_used_bytes", &[]);
            // The small one, with the cache of its file.
            assert!(
                used < 250_000.0,
                "{used}: what was not loaded takes nothing"
            );
        }
    }
}

/// Links of a point, in graphs that shall not fit: they take several times what the points do that are linked.
const MANY_LINKS: u64 = 128;

/// Where there is no room for a graph, searches go on without.
#[test]
fn an_index_beyond_the_memory_limit_is_not_built() {
    let running = Running::with(|settings| {
        settings.limits.memory_bytes = 1_200_000;
        // Of all points, and not of the first of them.
        settings.index.full_scan_kib = 30;
    });
    running.fill_linked("line", 4, 2_000, MANY_LINKS);
    let info = || {
        let info = running.run(running.client.collection_info("line"));
        info.unwrap().result.unwrap()
    };
    let built_or_not = |info: &CollectionInfo| {
        let optimizer = info.optimizer_status.as_ref().unwrap();
        info.indexed_vectors_count() > 0 || !optimizer.error.is_empty()
    };
    // In the background.
    let give_up = Instant::now() + Duration::from_secs(300);
    while !built_or_not(&info()) {
        assert!(Instant::now() < give_up, "nothing is built or refused");
    }
    let problem = info().optimizer_status.unwrap().error;
    assert!(problem.contains("limits.memory_bytes"), "{problem}");
    assert!(running.metric("chiplet_server_memory_used_bytes", &[]) <= 1_200_000.0);
    let query = QueryPointsBuilder::new("line").query(line(4, 3)).limit(1);
    assert_eq!(
        running
            .run(running.client.query(query))
            .unwrap()
            .result
            .len(),
        1
    );
}

/// Points that are written again and again take no more memory than once, though no index over them fits.
#[test]
fn overwriting_goes_on_where_no_index_fits() {
    let running = Running::with(|settings| {
        settings.limits.memory_bytes = 3_000_000;
        settings.index.full_scan_kib = 90;
    });
    running.fill_linked("line", 4, 6_000, MANY_LINKS);
    for batch in 0..12 * 12 {
        let points: Vec<PointStruct> = (batch * 500..(batch + 1) * 500)
            .map(|id| id % 6_000)
            .map(|id| PointStruct::new(id, line(4, id), qdrant_client::Payload::new()))
            .collect();
        // Until dead rows have been forgotten, in the background.
        let give_up = Instant::now() + Duration::from_secs(300);
        loop {
            let upsert = UpsertPointsBuilder::new("line", points.clone()).wait(true);
            match running.run(running.client.upsert_points(upsert)) {
                Ok(_) => break,
                Err(error) => {
                    assert_eq!(refusal::<()>(Err(error)).0, Code::ResourceExhausted);
                    assert!(Instant::now() < give_up, "no room was made");
                }
            }
        }
    }
    let count = running.run(running.client.count(CountPointsBuilder::new("line")));
    assert_eq!(count.unwrap().result.unwrap().count, 6_000);
}

/// Where nothing more fits, what is deleted makes room all the same.
#[test]
fn deleting_makes_room_when_the_memory_is_full() {
    let running = Running::with(|settings| {
        settings.limits.memory_bytes = 2_200_000;
        settings.index.full_scan_kib = 1_000;
    });
    running.fill("line", 4, 9_000);
    let upsert = |from: u64| {
        let points: Vec<PointStruct> = (from..from + 200)
            .map(|id| PointStruct::new(id, line(4, id), qdrant_client::Payload::new()))
            .collect();
        let upsert = UpsertPointsBuilder::new("line", points).wait(true);
        running.run(running.client.upsert_points(upsert))
    };
    let batches = || (9_000..15_000).step_by(200);
    let refused = batches().map(upsert).find(Result::is_err);
    let (code, message) = refusal(refused.expect("it is full"));
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    let ids: Vec<_> = (0..6_000_u64).map(Into::into).collect();
    for ids in ids.chunks(500) {
        let delete = DeletePointsBuilder::new("line").points(PointsIdsList { ids: ids.to_vec() });
        running
            .run(running.client.delete_points(delete.wait(true)))
            .unwrap();
    }
    // In the background.
    let give_up = Instant::now() + Duration::from_secs(300);
    for batch in batches() {
        while upsert(batch).is_err() {
            assert!(Instant::now() < give_up, "no room was made");
        }
    }
    let count = running.run(running.client.count(CountPointsBuilder::new("line")));
    assert_eq!(count.unwrap().result.unwrap().count, 9_000);
}
