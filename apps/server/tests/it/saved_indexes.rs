//! A restart loads indexes instead of building them, and believes none that does not belong to the points.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{self, Running};
use chiplet_server::config::Settings;
use chiplet_server::server::Server;
use qdrant_client::Payload;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, DeletePointsBuilder, Distance, HnswConfigDiffBuilder, PointStruct,
    PointsIdsList, QueryPointsBuilder, SearchParamsBuilder, SetPayloadPointsBuilder,
    UpsertPointsBuilder, VectorParamsBuilder,
};

const DIM: usize = 8;
const POINTS: u64 = 2_000;
/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(300);

fn soon(settings: &mut Settings) {
    settings.index.full_scan_kib = 16;
}

fn vector(id: u64) -> Vec<f32> {
    let mut seed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..DIM)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f32
        })
        .collect()
}

fn files(running: &Running) -> (PathBuf, PathBuf) {
    let folder = running.data.path().join("chiplet-indexes");
    (folder.join("points.table"), folder.join("points.rows"))
}

fn made(path: &Path) -> SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

fn wait_until(what: impl Fn() -> bool) {
    let give_up = Instant::now() + BOUND;
    while !what() {
        assert!(Instant::now() < give_up, "it never came to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn create(running: &Running, metadata: &[(&str, &str)]) {
    let graph = HnswConfigDiffBuilder::default().m(8);
    let params = VectorParamsBuilder::new(DIM as u64, Distance::Cosine);
    let mut create = CreateCollectionBuilder::new("points").vectors_config(params);
    if metadata.is_empty() {
        create = create.hnsw_config(graph);
    }
    let metadata = metadata
        .iter()
        .map(|(key, value)| (key.to_string(), (*value).into()));
    let create = create.metadata(metadata.collect::<std::collections::HashMap<_, _>>());
    running
        .run(running.client.create_collection(create))
        .unwrap();
}

fn upsert(running: &Running, ids: impl IntoIterator<Item = u64>, shift: u64) {
    let points: Vec<_> = ids
        .into_iter()
        .map(|id| PointStruct::new(id, vector(id + shift), Payload::new()))
        .collect();
    let upsert = UpsertPointsBuilder::new("points", points).wait(true);
    running.run(running.client.upsert_points(upsert)).unwrap();
}

/// A server that has built an index over all points, and saved it.
fn built(metadata: &[(&str, &str)]) -> Running {
    let running = Running::with(soon);
    create(&running, metadata);
    upsert(&running, 0..POINTS, 0);
    settled(&running);
    running
}

/// Waits until no index is being built, and what was built is saved.
fn settled(running: &Running) {
    let (_, list) = files(running);
    wait_until(|| list.exists() && running.metric("chiplet_server_builds_pending", &[]) == 0.0);
}

fn restart(running: &mut Running) {
    let mut settings = common::settings(&running.data);
    soon(&mut settings);
    running.server.take().unwrap().shutdown();
    let server = Server::start(&settings).unwrap();
    server.wait_until_ready();
    let config = common::config(server.grpc_addr());
    running.client = running.run(async { config.build().unwrap() });
    running.server = Some(server);
}

fn indexed(running: &Running) -> u64 {
    let info = running.run(running.client.collection_info("points"));
    info.unwrap().result.unwrap().indexed_vectors_count()
}

/// The nearest of each of some points, by the index and exactly.
fn nearest(running: &Running, exact: bool) -> Vec<u64> {
    (0..POINTS)
        .step_by(97)
        .map(|id| {
            let params = SearchParamsBuilder::default().exact(exact);
            let query = QueryPointsBuilder::new("points")
                .query(vector(id))
                .limit(1)
                .params(params);
            let found = running.run(running.client.query(query)).unwrap().result;
            match found[0]
                .id
                .as_ref()
                .and_then(|id| id.point_id_options.clone())
            {
                Some(PointIdOptions::Num(number)) => number,
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn a_restart_loads_what_was_built() {
    let lists = [("chiplet.index", "ivf"), ("chiplet.code", "SQ8")];
    for metadata in [&[][..], &lists] {
        let mut running = built(metadata);
        let (table, list) = files(&running);
        let (before, count) = (made(&table), indexed(&running));
        assert!(count >= POINTS * 3 / 4, "{count}");
        let found = nearest(&running, false);
        restart(&mut running);
        assert_eq!(indexed(&running), count);
        assert_eq!(nearest(&running, false), found);
        // Written, overwritten and deleted since; changed payloads keep their place in the index.
        upsert(&running, POINTS..POINTS + 50, 0);
        upsert(&running, 0..20, 1_000_000);
        let ids = (500..530_u64).map(Into::into).collect();
        let delete = DeletePointsBuilder::new("points")
            .points(PointsIdsList { ids })
            .wait(true);
        running.run(running.client.delete_points(delete)).unwrap();
        let ids = (600..630_u64).map(Into::into).collect();
        let set = SetPayloadPointsBuilder::new(
            "points",
            Payload::try_from(serde_json::json!({"a": 1})).unwrap(),
        );
        let set = set.points_selector(PointsIdsList { ids }).wait(true);
        running.run(running.client.set_payload(set)).unwrap();
        for _ in 0..2 {
            restart(&mut running);
            let gone = 20 + 30;
            assert!(indexed(&running) >= count - gone, "{}", indexed(&running));
            assert_eq!(nearest(&running, false), nearest(&running, true));
        }
        assert_eq!(made(&table), before, "nothing was built");
        running
            .run(running.client.delete_collection("points"))
            .unwrap();
        assert!(!table.exists() && !list.exists());
    }
}

#[test]
fn an_index_that_does_not_belong_to_the_points_is_not_believed() {
    type Harm = fn(&Path, &Path);
    let harms: [(&str, Harm); 5] = [
        ("no list", |_, list| std::fs::remove_file(list).unwrap()),
        ("no table", |table, _| std::fs::remove_file(table).unwrap()),
        ("half a table", |table, _| {
            let bytes = std::fs::read(table).unwrap();
            std::fs::write(table, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("another list", |_, list| {
            let mut bytes = std::fs::read(list).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(list, bytes).unwrap();
        }),
        ("a changed table", |table, _| {
            let mut bytes = std::fs::read(table).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(table, bytes).unwrap();
        }),
    ];
    let mut running = built(&[]);
    for (what, harm) in harms {
        let (table, list) = files(&running);
        harm(&table, &list);
        let before = table.exists().then(|| made(&table));
        restart(&mut running);
        settled(&running);
        assert_ne!(Some(made(&table)), before, "{what}: built anew");
        assert!(indexed(&running) >= POINTS * 3 / 4, "{what}");
        assert_eq!(nearest(&running, false), nearest(&running, true), "{what}");
    }
}

/// Files that were left behind by a collection of the same name, with the same ids.
#[test]
fn another_collections_index_is_not_taken() {
    let mut running = built(&[]);
    let (table, list) = files(&running);
    let copies = [&table, &list].map(|path| std::fs::read(path).unwrap());
    running
        .run(running.client.delete_collection("points"))
        .unwrap();
    create(&running, &[]);
    // A few are the same.
    upsert(&running, 0..100, 0);
    upsert(&running, 100..POINTS, 5_000);
    settled(&running);
    running.server.take().unwrap().shutdown();
    for (path, bytes) in [&table, &list].into_iter().zip(copies) {
        std::fs::write(path, bytes).unwrap();
    }
    let strange = table.with_file_name("nobody.table");
    std::fs::write(&strange, b"left behind").unwrap();
    let mut settings = common::settings(&running.data);
    soon(&mut settings);
    let server = Server::start(&settings).unwrap();
    server.wait_until_ready();
    let config = common::config(server.grpc_addr());
    running.client = running.run(async { config.build().unwrap() });
    running.server = Some(server);
    settled(&running);
    assert!(!strange.exists());
    assert_eq!(nearest(&running, false), nearest(&running, true));
    assert!(indexed(&running) >= POINTS * 3 / 4);
}
