//! Filters and what they select: counted, read page by page, searched, changed and deleted. A model in plain JSON says
//! what is right.

mod changes;
mod model;
mod points;
mod refusals;

use self::model::{Random, payload};
use self::points::{FIELDS, compare, create, declare, fill, point, restart, upsert};
use crate::common::Running;
use qdrant_client::qdrant::{
    DeleteFieldIndexCollectionBuilder, DeletePointsBuilder, FieldType, PointsIdsList,
};

/// A block has 128 rows, so that there are some that are closed and one that is not.
const DIM: usize = 512;
const POINTS: u64 = 450;

#[test]
fn filters_select_what_they_say_with_payload_indexes_and_without() {
    let running = Running::start();
    let mut random = Random(1);
    let used = || running.metric("chiplet_server_memory_used_bytes", &[]);
    running.run(async {
        let client = &running.client;
        create(client, 1 << 20).await;
        let (mut model, points) = fill(&mut random);
        upsert(client, points).await;
        compare(client, &model, &mut random).await;
        let before = used();
        for kind in [FieldType::Integer, FieldType::Float, FieldType::Bool] {
            declare(client, kind).await;
            assert!(used() > before, "indexes take memory, and it counts");
            compare(client, &model, &mut random).await;
        }
        // Overwritten and deleted rows are in closed blocks too.
        for round in 0..3 {
            let changed: Vec<u64> = (0..80).map(|_| random.below(POINTS)).collect();
            for &id in &changed {
                model.insert(id, payload(&mut random));
            }
            let points = changed.iter().map(|id| point(*id, &model[id])).collect();
            upsert(client, points).await;
            let doomed: Vec<u64> = (0..10).map(|_| random.below(POINTS)).collect();
            doomed.iter().for_each(|id| drop(model.remove(id)));
            let ids = doomed.into_iter().map(Into::into).collect();
            let delete = DeletePointsBuilder::new("points").points(PointsIdsList { ids });
            client.delete_points(delete.wait(true)).await.unwrap();
            compare(client, &model, &mut Random(round)).await;
        }
        let full = used();
        for (key, _) in FIELDS {
            let field = DeleteFieldIndexCollectionBuilder::new("points", key);
            client.delete_field_index(field.wait(true)).await.unwrap();
        }
        assert!(used() < full, "what is no longer declared takes no memory");
        compare(client, &model, &mut random).await;
    });
}

/// A graph and the rows written since it was built are filtered alike, before a restart and after it.
#[test]
fn filters_hold_with_a_graph_and_after_a_restart() {
    let small = |settings: &mut chiplet_server::config::Settings| {
        settings.index.rebuild_kib = 16;
    };
    let mut running = Running::with(small);
    let mut random = Random(5);
    let model = running.run(async {
        let client = &running.client;
        create(client, 16).await;
        declare(client, FieldType::Integer).await;
        let (mut model, points) = fill(&mut random);
        upsert(client, points).await;
        loop {
            let info = client.collection_info("points").await.unwrap();
            let info = info.result.unwrap();
            if info.indexed_vectors_count() > 0 && info.status == 1 {
                break;
            }
            tokio::task::yield_now().await;
        }
        for id in 0..20 {
            model.insert(id * 7, payload(&mut random));
        }
        let points = (0..20).map(|id| point(id * 7, &model[&(id * 7)])).collect();
        upsert(client, points).await;
        compare(client, &model, &mut random).await;
        model
    });
    restart(&mut running, small);
    running.run(compare(&running.client, &model, &mut random));
}
