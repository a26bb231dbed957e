//! Pages of one query are cut from one list: no point is on two of them, and none of the nearest is on none.

use std::collections::HashSet;

use crate::common::{self, Running};
use qdrant_client::Payload;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, HnswConfigDiffBuilder, PointStruct, Query,
    QueryPointsBuilder, ScalarQuantizationBuilder, SearchParamsBuilder, UpsertPointsBuilder,
    VectorParamsBuilder,
};

const DIM: usize = 32;
const POINTS: u64 = 2_000;

/// Nothing in common, so that a graph has a hard time.
fn vector(id: u64) -> Vec<f32> {
    let mut seed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..DIM)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f32 / 16_777_216.0 - 0.5
        })
        .collect()
}

fn fill(running: &Running, codes: bool) {
    running.run(async {
        let client = &running.client;
        let graph = HnswConfigDiffBuilder::default()
            .m(4)
            .ef_construct(16)
            .full_scan_threshold(1);
        let params = VectorParamsBuilder::new(DIM as u64, Distance::Euclid);
        let mut create = CreateCollectionBuilder::new("points")
            .vectors_config(params)
            .hnsw_config(graph);
        if codes {
            create = create.quantization_config(ScalarQuantizationBuilder::default());
        }
        client.create_collection(create).await.unwrap();
        for first in (0..POINTS).step_by(common::BATCH) {
            let ids = first..first + common::BATCH as u64;
            let points: Vec<_> = ids
                .map(|id| PointStruct::new(id, vector(id), Payload::new()))
                .collect();
            let upsert = UpsertPointsBuilder::new("points", points).wait(true);
            client.upsert_points(upsert).await.unwrap();
        }
        loop {
            let info = client.collection_info("points").await.unwrap();
            let info = info.result.unwrap();
            if info.indexed_vectors_count() > 0 && info.status == 1 {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}

async fn found(running: &Running, query: Query, limit: u64, offset: u64, exact: bool) -> Vec<u64> {
    let params = SearchParamsBuilder::default().exact(exact);
    let query = QueryPointsBuilder::new("points")
        .query(query)
        .limit(limit)
        .offset(offset)
        .params(params);
    let hits = running.client.query(query).await.unwrap().result;
    let ids = hits.into_iter().map(|hit| hit.id.unwrap().point_id_options);
    ids.map(|id| match id {
        Some(PointIdOptions::Num(id)) => id,
        other => panic!("{other:?} is no number"),
    })
    .collect()
}

fn pages_are_disjoint_and_complete(codes: bool) {
    const PAGE: u64 = 10;
    const NEAREST: u64 = 400;
    let running = Running::start();
    fill(&running, codes);
    running.run(async {
        let (mut missing, mut twice) = (0, 0);
        let queries = (0..5).map(|i| vector(POINTS + i).into());
        for query in queries.chain([Query::new_nearest(7_u64)]) {
            let nearest = found(&running, query.clone(), NEAREST, 0, true).await;
            let mut listed = Vec::new();
            for offset in (0..NEAREST).step_by(PAGE as usize) {
                let page = found(&running, query.clone(), PAGE, offset, false).await;
                assert_eq!(page.len() as u64, PAGE);
                listed.extend(page);
            }
            let once: HashSet<u64> = listed.iter().copied().collect();
            twice += listed.len() - once.len();
            missing += nearest.iter().filter(|id| !once.contains(id)).count();
        }
        assert_eq!((twice, missing), (0, 0), "of six times {NEAREST}");
    });
}

#[test]
fn pages_of_a_graph_are_disjoint_and_complete() {
    pages_are_disjoint_and_complete(false);
}

#[test]
fn pages_of_a_graph_of_codes_are_disjoint_and_complete() {
    pages_are_disjoint_and_complete(true);
}
