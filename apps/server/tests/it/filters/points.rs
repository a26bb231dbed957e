//! The points that filters are tried on, and the comparison of what they select with what the model says.

use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, Distance,
    FieldType, Filter, GetPointsBuilder, HnswConfigDiffBuilder, PointId, PointStruct,
    QueryPointsBuilder, ScrollPointsBuilder, SearchParamsBuilder, UpsertPointsBuilder,
    VectorParamsBuilder,
};
use qdrant_client::{Payload, Qdrant};
use serde_json::Value;

use super::model::{Model, Random, filter, payload, selected};
use super::{DIM, POINTS};
use crate::common::{self, Running};

fn number(id: Option<&PointId>) -> u64 {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Num(number)) => *number,
        other => panic!("{other:?} is no number"),
    }
}

pub(crate) fn vector(id: u64) -> Vec<f32> {
    common::line(DIM, id)
}

pub(crate) fn point(id: u64, payload: &Value) -> PointStruct {
    let payload = Payload::try_from(payload.clone()).unwrap();
    PointStruct::new(id, vector(id), payload)
}

/// All points that a filter selects, page by page.
pub(crate) async fn scrolled(client: &Qdrant, filter: &Filter, page: u32) -> Vec<u64> {
    let (mut ids, mut offset) = (Vec::new(), None);
    loop {
        let mut scroll = ScrollPointsBuilder::new("points")
            .filter(filter.clone())
            .limit(page);
        if let Some(offset) = offset {
            scroll = scroll.offset::<PointId>(offset);
        }
        let answer = client.scroll(scroll).await.unwrap();
        ids.extend(answer.result.iter().map(|point| number(point.id.as_ref())));
        offset = answer.next_page_offset;
        if offset.is_none() {
            return ids;
        }
        assert_eq!(answer.result.len(), page as usize);
    }
}

/// Compares what many filters select with what the model says, by every call that takes a filter and changes nothing.
pub(crate) async fn compare(client: &Qdrant, model: &Model, random: &mut Random) {
    let mut selecting = 0;
    for _ in 0..120 {
        let (filter, test) = filter(random, 2);
        let right = selected(model, &test);
        selecting += usize::from(!right.is_empty() && right.len() < model.len());
        let count = CountPointsBuilder::new("points").filter(filter.clone());
        let counted = client.count(count).await.unwrap().result.unwrap().count;
        assert_eq!(counted, right.len() as u64, "{filter:?}");
        assert_eq!(scrolled(client, &filter, 100).await, right, "{filter:?}");
        let near = random.below(POINTS);
        let query = QueryPointsBuilder::new("points")
            .query(vector(near))
            .limit(5)
            .filter(filter.clone())
            .params(SearchParamsBuilder::default().hnsw_ef(400));
        let found = client.query(query).await.unwrap().result;
        let mut distances: Vec<u64> = right.iter().map(|id| id.abs_diff(near)).collect();
        distances.sort_unstable();
        distances.truncate(5);
        let scores: Vec<u64> = found.iter().map(|hit| hit.score.round() as u64).collect();
        assert_eq!(scores, distances, "{filter:?}");
        let found = found.iter().map(|hit| number(hit.id.as_ref()));
        assert!({ found }.all(|id| right.contains(&id)), "{filter:?}");
    }
    assert!(
        selecting > 15,
        "{selecting} filters select some and not all"
    );
}

pub(crate) async fn create(client: &Qdrant, threshold: u64) {
    let graph = HnswConfigDiffBuilder::default().full_scan_threshold(threshold);
    let params = VectorParamsBuilder::new(DIM as u64, Distance::Euclid);
    let create = CreateCollectionBuilder::new("points")
        .vectors_config(params)
        .hnsw_config(graph);
    client.create_collection(create).await.unwrap();
}

pub(crate) async fn upsert(client: &Qdrant, points: Vec<PointStruct>) {
    let upsert = UpsertPointsBuilder::new("points", points).wait(true);
    client.upsert_points(upsert).await.unwrap();
}

pub(crate) const FIELDS: [(&str, FieldType); 3] = [
    ("a", FieldType::Keyword),
    ("b", FieldType::Integer),
    ("a[].name", FieldType::Keyword),
];

/// Declares them, with this type for the second.
pub(crate) async fn declare(client: &Qdrant, second: FieldType) {
    for (key, kind) in FIELDS {
        let kind = if key == "b" { second } else { kind };
        let field = CreateFieldIndexCollectionBuilder::new("points", key, kind);
        client.create_field_index(field.wait(true)).await.unwrap();
    }
}

pub(crate) fn fill(random: &mut Random) -> (Model, Vec<PointStruct>) {
    let model: Model = (0..POINTS).map(|id| (id, payload(random))).collect();
    let points = model.iter().map(|(&id, payload)| point(id, payload));
    (model.clone(), points.collect())
}

pub(crate) fn restart(
    running: &mut Running,
    change: impl Fn(&mut chiplet_server::config::Settings),
) {
    let mut settings = common::settings(&running.data);
    change(&mut settings);
    running.server.take().unwrap().shutdown();
    let server = chiplet_server::server::Server::start(&settings).unwrap();
    server.wait_until_ready();
    let config = common::config(server.grpc_addr());
    running.client = running.run(async { config.build().unwrap() });
    running.server = Some(server);
}

/// Payloads of every point.
pub(crate) async fn stored(client: &Qdrant) -> Model {
    let ids: Vec<PointId> = (0..POINTS).map(Into::into).collect();
    let get = GetPointsBuilder::new("points", ids)
        .with_payload(true)
        .with_vectors(true);
    let points = client.get_points(get).await.unwrap().result;
    points
        .into_iter()
        .map(|point| {
            let id = number(point.id.as_ref());
            let found = point
                .vectors
                .as_ref()
                .and_then(|vectors| vectors.get_vector());
            let Some(qdrant_client::qdrant::vector_output::Vector::Dense(found)) = found else {
                panic!("{id} has lost its vector");
            };
            assert_eq!(found.data, vector(id));
            (id, Payload::from(point.payload).into())
        })
        .collect()
}
