//! A session with the stock Rust client. The Python client's longer one is in `python/test_session.py`.

use std::collections::HashMap;

use crate::common::{self, Running, line};
use qdrant_client::Payload;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    CollectionStatus, CountPointsBuilder, CreateCollectionBuilder,
    CreateFieldIndexCollectionBuilder, DeletePointsBuilder, Distance, FieldType, GetPointsBuilder,
    HnswConfigDiffBuilder, OptimizersConfigDiff, PointId, PointStruct, PointsIdsList,
    QueryBatchPointsBuilder, QueryPointsBuilder, ScoredPoint, SearchParamsBuilder,
    UpdateCollectionBuilder, UpsertPointsBuilder, Value, VectorParamsBuilder,
};

fn ids(points: &[ScoredPoint]) -> Vec<u64> {
    let number = |point: &ScoredPoint| match point.id.as_ref()?.point_id_options {
        Some(PointIdOptions::Num(number)) => Some(number),
        _ => None,
    };
    points.iter().map(|point| number(point).unwrap()).collect()
}

#[test]
fn what_is_stored_is_found() {
    let running = Running::start();
    running.fill("line", 4, 500);
    let client = &running.client;
    running.run(async {
        assert!(
            client
                .health_check()
                .await
                .unwrap()
                .title
                .contains("subset")
        );
        assert!(client.collection_exists("line").await.unwrap());
        assert_eq!(
            client.list_collections().await.unwrap().collections.len(),
            1
        );
        let info = client
            .collection_info("line")
            .await
            .unwrap()
            .result
            .unwrap();
        assert_eq!(info.points_count, Some(500));

        let query = QueryPointsBuilder::new("line")
            .query(line(4, 42))
            .limit(3)
            .offset(1)
            .with_payload(true)
            .with_vectors(true);
        let found = client.query(query).await.unwrap().result;
        assert_eq!(ids(&found), [41, 43, 40]);
        assert_eq!(found[0].score, 1.0);
        assert_eq!(found[0].payload["id"], Value::from(41_i64));
        assert!(found[0].vectors.is_some());

        let near = QueryPointsBuilder::new("line")
            .query(line(4, 100))
            .score_threshold(2.5)
            .params(SearchParamsBuilder::default().exact(true));
        assert_eq!(
            ids(&client.query(near).await.unwrap().result),
            [100, 99, 101, 98, 102]
        );

        let like = QueryPointsBuilder::new("line")
            .query(PointId::from(7))
            .limit(2);
        let batch = QueryBatchPointsBuilder::new("line", vec![like.clone().build(), like.build()]);
        let answers = client.query_batch(batch).await.unwrap().result;
        assert_eq!(answers.len(), 2);
        for answer in answers {
            assert_eq!(ids(&answer.result), [6, 8], "a point is not like itself");
        }

        let doomed: Vec<_> = (0..400_u64).map(Into::into).collect();
        let delete = DeletePointsBuilder::new("line")
            .points(PointsIdsList { ids: doomed })
            .wait(true);
        client.delete_points(delete).await.unwrap();
        let count = client.count(CountPointsBuilder::new("line")).await.unwrap();
        assert_eq!(count.result.unwrap().count, 100);
        let query = QueryPointsBuilder::new("line").query(line(4, 0)).limit(1);
        assert_eq!(ids(&client.query(query).await.unwrap().result), [400]);

        client.delete_collection("line").await.unwrap();
        assert!(!client.collection_exists("line").await.unwrap());
    });
}

#[test]
fn a_restart_changes_nothing() {
    let mut running = Running::start();
    running.fill("line", 3, 1_000);
    running.run(async {
        let field = CreateFieldIndexCollectionBuilder::new("line", "id", FieldType::Integer);
        running
            .client
            .create_field_index(field.wait(true))
            .await
            .unwrap();
        let point = PointStruct::new(
            "5c56c793-69f3-4fbf-87e6-c4bf54c28c26",
            line(3, 5_000),
            Payload::try_from(serde_json::json!({"nested": {"list": [1, 2.5, null, "ü"]}}))
                .unwrap(),
        );
        let again = PointStruct::new(7, line(3, 9_000), HashMap::<String, Value>::new());
        let upsert = UpsertPointsBuilder::new("line", vec![point, again]);
        running
            .client
            .upsert_points(upsert.wait(true))
            .await
            .unwrap();
    });
    let settings = common::settings(&running.data);
    running.server.take().unwrap().shutdown();
    let server = chiplet_server::server::Server::start(&settings).unwrap();
    server.wait_until_ready();
    let url = format!("http://{}", server.grpc_addr());
    running.server = Some(server);
    running.run(async {
        let client = qdrant_client::Qdrant::from_url(&url)
            .skip_compatibility_check()
            .build();
        let client = client.unwrap();
        let info = client
            .collection_info("line")
            .await
            .unwrap()
            .result
            .unwrap();
        assert_eq!(info.points_count, Some(1_001));
        assert!(info.payload_schema.contains_key("id"));
        let ids = vec![
            "5c56c793-69f3-4fbf-87e6-c4bf54c28c26".into(),
            7.into(),
            8.into(),
        ];
        let get = GetPointsBuilder::new("line", ids).with_payload(true);
        let points = client.get_points(get).await.unwrap().result;
        assert_eq!(points.len(), 3);
        let nested: serde_json::Value = points[0].payload["nested"].clone().into();
        assert_eq!(nested, serde_json::json!({"list": [1, 2.5, null, "ü"]}));
        assert!(
            points[1].payload.is_empty(),
            "an overwritten point keeps nothing"
        );
        assert_eq!(points[2].payload["id"], Value::from(8_i64));
    });
}

#[test]
fn an_index_is_built_and_searches_go_on_meanwhile() {
    let running = Running::with(|settings| {
        settings.index.full_scan_kib = 16;
        settings.index.rebuild_kib = 16;
    });
    running.run(async {
        let params = VectorParamsBuilder::new(8, Distance::Cosine);
        let create = CreateCollectionBuilder::new("grown").vectors_config(params);
        running.client.create_collection(create).await.unwrap();
        let vector = |id: u64| -> Vec<f32> {
            (0..8)
                .map(|x| (((id * 31 + x) * 7_919) % 1_009) as f32 - 500.0)
                .collect()
        };
        for batch in 0..20_u64 {
            let points = (batch * 200..(batch + 1) * 200)
                .map(|id| PointStruct::new(id, vector(id), Payload::new()))
                .collect::<Vec<_>>();
            let upsert = UpsertPointsBuilder::new("grown", points).wait(true);
            running.client.upsert_points(upsert).await.unwrap();
            let newest = batch * 200 + 199;
            let query = QueryPointsBuilder::new("grown")
                .query(vector(newest))
                .limit(1);
            let found = running.client.query(query).await.unwrap().result;
            assert!(
                found[0].score > 0.999,
                "what was written last is found at once"
            );
        }
        let indexed = async || {
            let info = running
                .client
                .collection_info("grown")
                .await
                .unwrap()
                .result
                .unwrap();
            (info.status == 1).then_some(info.indexed_vectors_count.unwrap_or(0))
        };
        let settled = loop {
            if let Some(count) = indexed().await {
                break count;
            }
            tokio::task::yield_now().await;
        };
        assert!(settled >= 3_000, "{settled} of 4000");
        // Nearly everything dies; the graph must still lead to what is left.
        let doomed = PointsIdsList {
            ids: (0..3_990_u64).map(Into::into).collect(),
        };
        let delete = DeletePointsBuilder::new("grown").points(doomed).wait(true);
        running.client.delete_points(delete).await.unwrap();
        let query = QueryPointsBuilder::new("grown").query(vector(1)).limit(20);
        let found = running.client.query(query).await.unwrap().result;
        let mut left = ids(&found);
        left.sort_unstable();
        assert_eq!(left, (3_990..4_000).collect::<Vec<_>>());
    });
}

#[test]
fn what_is_deleted_gives_its_memory_back() {
    let running = Running::start();
    running.fill("line", 16, 5_000);
    let used = || running.metric("chiplet_server_memory_used_bytes", &[]);
    let full = used();
    // A collection without points, with the cache of its file. The points' vectors alone are more.
    const EMPTY: f64 = 200_000.0;
    assert!(full > EMPTY + 5_000.0 * 64.0, "{full}");
    let doomed = PointsIdsList {
        ids: (0..5_000_u64).map(Into::into).collect(),
    };
    let delete = DeletePointsBuilder::new("line").points(doomed).wait(true);
    running.run(running.client.delete_points(delete)).unwrap();
    // In the background, once nothing is left to search.
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while used() > EMPTY {
        assert!(
            std::time::Instant::now() < give_up,
            "{} of {full} bytes are left",
            used()
        );
    }
    let empty = used();
    running.fill("other", 16, 100);
    assert!(used() > empty);
    running
        .run(running.client.delete_collection("other"))
        .unwrap();
    while used() > empty {
        assert!(
            std::time::Instant::now() < give_up,
            "a collection takes its memory along"
        );
    }
}

/// Writes go on while indexes are built, by two threads: in the end everything is as a plain map says, before and after
/// a restart.
#[test]
fn builds_lose_and_revive_nothing() {
    const DIM: usize = 4;
    let often = |settings: &mut chiplet_server::config::Settings| {
        settings.index.full_scan_kib = 1;
        settings.index.rebuild_kib = 1;
        settings.index.builders = 2;
    };
    let mut running = Running::with(often);
    running.fill("line", DIM, 0);
    let mut model = HashMap::new();
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    running.run(async {
        for round in 0..300_u64 {
            let first = random(400);
            if round % 3 == 2 {
                let ids: Vec<u64> = (first..first + 30).collect();
                ids.iter().for_each(|id| {
                    model.remove(id);
                });
                let ids = ids.into_iter().map(Into::into).collect();
                let delete = DeletePointsBuilder::new("line").points(PointsIdsList { ids });
                running
                    .client
                    .delete_points(delete.wait(true))
                    .await
                    .unwrap();
            } else {
                let points: Vec<PointStruct> = (first..first + 50)
                    .map(|id| {
                        model.insert(id, round);
                        PointStruct::new(id, line(DIM, id), [("round", (round as i64).into())])
                    })
                    .collect();
                let upsert = UpsertPointsBuilder::new("line", points).wait(true);
                running.client.upsert_points(upsert).await.unwrap();
            }
        }
    });
    let check = |running: &Running| {
        running.run(async {
            let near = QueryPointsBuilder::new("line")
                .query(line(DIM, 0))
                .limit(1_000);
            let exact = near
                .with_payload(true)
                .params(SearchParamsBuilder::default().exact(true));
            let found = running.client.query(exact).await.unwrap().result;
            let rounds: HashMap<u64, u64> = ids(&found)
                .into_iter()
                .zip(&found)
                .map(|(id, point)| (id, point.payload["round"].as_integer().unwrap() as u64))
                .collect();
            assert_eq!(rounds, model);
            let all = (0..500_u64).map(Into::into).collect::<Vec<_>>();
            let got = running
                .client
                .get_points(GetPointsBuilder::new("line", all))
                .await
                .unwrap();
            assert_eq!(got.result.len(), model.len());
        });
    };
    check(&running);
    while running.metric("chiplet_server_builds_pending", &[]) > 0.0 {}
    check(&running);
    let mut settings = common::settings(&running.data);
    often(&mut settings);
    running.server.take().unwrap().shutdown();
    let server = chiplet_server::server::Server::start(&settings).unwrap();
    server.wait_until_ready();
    let config = qdrant_client::Qdrant::from_url(&format!("http://{}", server.grpc_addr()));
    running.client = running.run(async { config.skip_compatibility_check().build().unwrap() });
    running.server = Some(server);
    check(&running);
}

/// As bulk loaders do: no index while points are loaded, one afterwards.
#[test]
fn an_index_waits_until_everything_is_loaded() {
    let running = Running::with(|settings| settings.index.full_scan_kib = 1);
    let client = &running.client;
    let update = |threshold| {
        let optimizers = OptimizersConfigDiff {
            indexing_threshold: Some(threshold),
            max_optimization_threads: Some(1.into()),
            ..OptimizersConfigDiff::default()
        };
        let update = UpdateCollectionBuilder::new("line").optimizers_config(optimizers);
        running.run(client.update_collection(update))
    };
    running.fill("line", 4, 10);
    assert!(update(0).unwrap().result);
    let points: Vec<PointStruct> = (0..400)
        .map(|id| PointStruct::new(id, line(4, id), Payload::new()))
        .collect();
    let upsert = UpsertPointsBuilder::new("line", points).wait(true);
    running.run(client.upsert_points(upsert)).unwrap();
    let info = || {
        let info = running.run(client.collection_info("line"));
        info.unwrap().result.unwrap()
    };
    // A build that is due is asked for before the write is answered, and shows as yellow.
    assert_eq!(info().status(), CollectionStatus::Green);
    assert_eq!(info().indexed_vectors_count(), 0);
    assert!(update(1).unwrap().result);
    while info().indexed_vectors_count() < 400 {
        std::thread::yield_now();
    }
    let graph = HnswConfigDiffBuilder::default().m(0);
    let stop = UpdateCollectionBuilder::new("line").hnsw_config(graph);
    assert!(running.run(client.update_collection(stop)).unwrap().result);
    let graph = HnswConfigDiffBuilder::default().m(8);
    let other = UpdateCollectionBuilder::new("line").hnsw_config(graph);
    let (code, message) = common::refusal(running.run(client.update_collection(other)));
    assert_eq!(code, tonic::Code::Unimplemented);
    assert!(message.contains("settings"), "{message}");
}
