//! Filters and what they select: counted, read page by page, searched, changed and deleted. A model in plain JSON says what
//! is right.

mod common;

use std::collections::BTreeMap;

use common::{Running, refusal};
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
    DeleteFieldIndexCollectionBuilder, DeletePayloadPointsBuilder, DeletePointsBuilder, Distance,
    FieldType, Filter, GetPointsBuilder, HnswConfigDiffBuilder, IsNullCondition, PointId,
    PointStruct, PointsIdsList, QueryPointsBuilder, Range, ScrollPointsBuilder,
    SearchParamsBuilder, SetPayloadPointsBuilder, UpsertPointsBuilder, VectorParamsBuilder,
};
use qdrant_client::{Payload, Qdrant};
use serde_json::{Value, json};
use tonic::Code;

/// A block has 128 rows, so that there are some that are closed and one that is not.
const DIM: usize = 512;
const POINTS: u64 = 450;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

type Model = BTreeMap<u64, Value>;

/// A payload in which any field may be missing, null, empty, a list, or of another type.
fn payload(random: &mut Random) -> Value {
    let mut payload = serde_json::Map::new();
    let values = [
        json!("red"),
        json!("blue"),
        json!(["red", "green"]),
        json!([]),
        json!(null),
        json!([null]),
        json!(1),
        json!(2),
        json!(2.0),
        json!(2.5),
        json!([1, 7.5, "2"]),
        json!(true),
        json!([false, 3]),
        json!({"name": "red"}),
        json!([{"name": "red"}, {"name": ["blue", null]}]),
        json!([[1, 2], "red"]),
    ];
    for key in ["a", "b"] {
        if random.below(5) > 0 {
            payload.insert(key.into(), random.of(&values));
        }
    }
    payload.into()
}

/// The values at a path, and whether they satisfy a test.
fn at<'a>(payload: &'a Value, key: &str) -> Vec<&'a Value> {
    match key {
        "a.name" => payload["a"].get("name").into_iter().collect(),
        "a[].name" => {
            let all = payload["a"].as_array();
            all.into_iter()
                .flatten()
                .filter_map(|value| value.get("name"))
                .collect()
        }
        key => payload.get(key).into_iter().collect(),
    }
}

fn any(payload: &Value, key: &str, test: impl Fn(&Value) -> bool) -> bool {
    at(payload, key).into_iter().any(|value| match value {
        Value::Array(elements) => elements.iter().any(&test),
        value => test(value),
    })
}

type Test = Box<dyn Fn(u64, &Value) -> bool>;

/// A condition, and what it says by the model.
fn condition(random: &mut Random, depth: u64) -> (Condition, Test) {
    let key = random.of(&["a", "b", "a.name", "a[].name"]);
    match random.below(if depth > 0 { 10 } else { 9 }) {
        0 => {
            let text = random.of(&["red", "green", "none"]);
            let test = move |_, payload: &Value| any(payload, key, |value| value == text);
            (Condition::matches(key, text.to_owned()), Box::new(test))
        }
        1 => {
            let texts = ["blue", "green"];
            let test = move |_, payload: &Value| {
                any(payload, key, |value| texts.iter().any(|text| value == text))
            };
            let texts = texts.map(str::to_owned).to_vec();
            (Condition::matches(key, texts), Box::new(test))
        }
        2 => {
            let number = random.below(3) as i64;
            let test =
                move |_, payload: &Value| any(payload, key, |value| value.as_i64() == Some(number));
            (Condition::matches(key, number), Box::new(test))
        }
        3 => {
            let flag = random.below(2) == 0;
            let test = move |_, payload: &Value| any(payload, key, |value| *value == json!(flag));
            (Condition::matches(key, flag), Box::new(test))
        }
        4 => {
            let (gte, lt) = (random.of(&[1.0, 2.0, 2.25]), random.of(&[2.0, 2.5, 8.0]));
            let range = Range {
                gte: Some(gte),
                lt: Some(lt),
                ..Range::default()
            };
            let test = move |_, payload: &Value| {
                let inside = |value: &Value| value.as_f64().is_some_and(|x| x >= gte && x < lt);
                any(payload, key, inside)
            };
            (Condition::range(key, range), Box::new(test))
        }
        5 => {
            let test = move |_, payload: &Value| {
                let nothing = |value: &&Value| value.is_null() || **value == json!([]);
                at(payload, key).iter().all(nothing)
            };
            (Condition::is_empty(key), Box::new(test))
        }
        6 => {
            let test = move |_, payload: &Value| at(payload, key).iter().any(|x| x.is_null());
            (Condition::is_null(key), Box::new(test))
        }
        7 => {
            let ids: Vec<u64> = (0..40).map(|_| random.below(POINTS + 50)).collect();
            let asked: Vec<PointId> = ids.iter().map(|&id| id.into()).collect();
            let test = move |id, _: &Value| ids.contains(&id);
            (Condition::has_id(asked), Box::new(test))
        }
        8 => {
            let except = vec!["red".to_owned()];
            let test = move |_, payload: &Value| {
                any(payload, key, |x| x.is_string() && *x != json!("red"))
            };
            (
                Condition::matches(key, !MatchValue::from(except)),
                Box::new(test),
            )
        }
        _ => {
            let (filter, test) = filter(random, depth - 1);
            (filter.into(), test)
        }
    }
}

fn filter(random: &mut Random, depth: u64) -> (Filter, Test) {
    let mut conditions = |most: u64| -> (Vec<Condition>, Vec<Test>) {
        let count = random.below(most);
        (0..count).map(|_| condition(random, depth)).unzip()
    };
    let (must, musts) = conditions(2);
    let (should, shoulds) = conditions(4);
    let (must_not, nots) = conditions(2);
    let filter = Filter {
        must,
        should,
        must_not,
        min_should: None,
    };
    let test = move |id, payload: &Value| {
        musts.iter().all(|test| test(id, payload))
            && !nots.iter().any(|test| test(id, payload))
            && (shoulds.is_empty() || shoulds.iter().any(|test| test(id, payload)))
    };
    (filter, Box::new(test))
}

fn selected(model: &Model, test: &Test) -> Vec<u64> {
    let holds = |(id, payload): (&u64, &Value)| test(*id, payload).then_some(*id);
    model.iter().filter_map(holds).collect()
}

fn number(id: Option<&PointId>) -> u64 {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Num(number)) => *number,
        other => panic!("{other:?} is no number"),
    }
}

fn vector(id: u64) -> Vec<f32> {
    common::line(DIM, id)
}

fn point(id: u64, payload: &Value) -> PointStruct {
    let payload = Payload::try_from(payload.clone()).unwrap();
    PointStruct::new(id, vector(id), payload)
}

/// All points that a filter selects, page by page.
async fn scrolled(client: &Qdrant, filter: &Filter, page: u32) -> Vec<u64> {
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
async fn compare(client: &Qdrant, model: &Model, random: &mut Random) {
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

async fn create(client: &Qdrant, threshold: u64) {
    let graph = HnswConfigDiffBuilder::default().full_scan_threshold(threshold);
    let params = VectorParamsBuilder::new(DIM as u64, Distance::Euclid);
    let create = CreateCollectionBuilder::new("points")
        .vectors_config(params)
        .hnsw_config(graph);
    client.create_collection(create).await.unwrap();
}

async fn upsert(client: &Qdrant, points: Vec<PointStruct>) {
    let upsert = UpsertPointsBuilder::new("points", points).wait(true);
    client.upsert_points(upsert).await.unwrap();
}

const FIELDS: [(&str, FieldType); 3] = [
    ("a", FieldType::Keyword),
    ("b", FieldType::Integer),
    ("a[].name", FieldType::Keyword),
];

/// Declares them, with this type for the second.
async fn declare(client: &Qdrant, second: FieldType) {
    for (key, kind) in FIELDS {
        let kind = if key == "b" { second } else { kind };
        let field = CreateFieldIndexCollectionBuilder::new("points", key, kind);
        client.create_field_index(field.wait(true)).await.unwrap();
    }
}

fn fill(random: &mut Random) -> (Model, Vec<PointStruct>) {
    let model: Model = (0..POINTS).map(|id| (id, payload(random))).collect();
    let points = model.iter().map(|(&id, payload)| point(id, payload));
    (model.clone(), points.collect())
}

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
    let small = |settings: &mut chiplet_grpc_server::config::Settings| {
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

fn restart(running: &mut Running, change: impl Fn(&mut chiplet_grpc_server::config::Settings)) {
    let mut settings = common::settings(&running.data);
    change(&mut settings);
    running.server.take().unwrap().shutdown();
    let server = chiplet_grpc_server::server::Server::start(&settings).unwrap();
    server.wait_until_ready();
    let config = Qdrant::from_url(&format!("http://{}", server.grpc_addr()));
    running.client = running.run(async { config.skip_compatibility_check().build().unwrap() });
    running.server = Some(server);
}

/// Payloads of every point.
async fn stored(client: &Qdrant) -> Model {
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

#[test]
fn payloads_are_changed_in_the_order_of_the_writes_and_for_good() {
    let mut running = Running::start();
    let mut random = Random(9);
    let model = running.run(async {
        let client = &running.client;
        create(client, 1 << 20).await;
        let (mut model, points) = fill(&mut random);
        upsert(client, points).await;
        declare(client, FieldType::Integer).await;
        for round in 0..40 {
            let (filter, test) = filter(&mut random, 1);
            let chosen = selected(&model, &test);
            let new =
                json!({"a": random.of(&[json!("red"), json!(null), json!([1])]), "new": round});
            let set = || {
                SetPayloadPointsBuilder::new("points", Payload::try_from(new.clone()).unwrap())
                    .points_selector(filter.clone())
                    .wait(round % 2 == 0)
            };
            match round % 5 {
                0 | 1 => {
                    client.set_payload(set()).await.unwrap();
                    for id in chosen {
                        let old = model.get_mut(&id).unwrap().as_object_mut().unwrap();
                        old.extend(new.as_object().unwrap().clone());
                    }
                }
                2 => {
                    client.overwrite_payload(set()).await.unwrap();
                    chosen
                        .into_iter()
                        .for_each(|id| drop(model.insert(id, new.clone())));
                }
                3 => {
                    let keys = vec!["a".to_owned(), "none".to_owned()];
                    let delete = DeletePayloadPointsBuilder::new("points", keys);
                    let delete = delete.points_selector(filter).wait(false);
                    client.delete_payload(delete).await.unwrap();
                    for id in chosen {
                        model
                            .get_mut(&id)
                            .unwrap()
                            .as_object_mut()
                            .unwrap()
                            .remove("a");
                    }
                }
                _ if chosen.len() < 40 => {
                    let delete = DeletePointsBuilder::new("points").points(filter);
                    client.delete_points(delete.wait(false)).await.unwrap();
                    chosen.iter().for_each(|id| drop(model.remove(id)));
                }
                _ => {
                    // Each sees what the one before has done.
                    let id = *chosen.first().unwrap();
                    upsert(client, vec![point(id, &json!({"b": 7}))]).await;
                    model.insert(id, json!({"b": 7}));
                }
            }
        }
        // The last that did not wait is done before this.
        upsert(client, vec![point(0, &json!({"last": true}))]).await;
        model.insert(0, json!({"last": true}));
        assert_eq!(stored(client).await, model);
        compare(client, &model, &mut random).await;
        model
    });
    restart(&mut running, |_| ());
    running.run(async {
        assert_eq!(stored(&running.client).await, model);
        compare(&running.client, &model, &mut random).await;
    });
}

#[test]
fn what_cannot_be_changed_is_left_as_it_is() {
    let running = Running::with(|settings| settings.limits.upsert_points = POINTS as usize);
    running.run(async {
        let client = &running.client;
        create(client, 1 << 20).await;
        let (model, points) = fill(&mut Random(2));
        upsert(client, points).await;
        let new = || Payload::try_from(json!({"a": 1})).unwrap();
        let set = |ids: Vec<PointId>| {
            SetPayloadPointsBuilder::new("points", new())
                .points_selector(PointsIdsList { ids })
                .wait(true)
        };
        let missing = set(vec![3.into(), 9_999.into()]);
        let (code, message) = refusal(client.set_payload(missing).await);
        assert_eq!(code, Code::NotFound);
        assert!(message.contains("9999"), "{message}");
        let below = set(vec![3.into()]).key("a.b");
        let (code, message) = refusal(client.set_payload(below).await);
        assert_eq!(code, Code::Unimplemented);
        assert!(message.contains("below a key"), "{message}");
        let nobody = SetPayloadPointsBuilder::new("points", new()).wait(true);
        assert_eq!(
            refusal(client.set_payload(nobody).await).0,
            Code::InvalidArgument
        );
        let point = point(POINTS, &json!({}));
        upsert(client, vec![point]).await;
        let all = SetPayloadPointsBuilder::new("points", new())
            .points_selector(Filter::default())
            .wait(true);
        let (code, message) = refusal(client.set_payload(all).await);
        assert_eq!(code, Code::FailedPrecondition);
        assert!(message.contains("limits.upsert_points"), "{message}");
        assert_eq!(stored(client).await, model);
    });
}

#[test]
fn what_a_filter_cannot_say_is_refused_wherever_it_is_sent() {
    let running = Running::start();
    running.run(async {
        let client = &running.client;
        create(client, 1 << 20).await;
        upsert(client, vec![point(1, &json!({"a": 1}))]).await;
        for (condition, code, named) in [
            (
                Condition::matches_text("a", "x"),
                Code::Unimplemented,
                "full-text",
            ),
            (
                IsNullCondition { key: "a..b".into() }.into(),
                Code::InvalidArgument,
                "a..b",
            ),
            (Condition::default(), Code::InvalidArgument, "empty"),
        ] {
            let filter = Filter::must_not([Condition::from(Filter::should([condition]))]);
            let set = SetPayloadPointsBuilder::new("points", Payload::new());
            let refusals = [
                refusal(
                    client
                        .count(CountPointsBuilder::new("points").filter(filter.clone()))
                        .await,
                ),
                refusal(
                    client
                        .scroll(ScrollPointsBuilder::new("points").filter(filter.clone()))
                        .await,
                ),
                refusal(
                    client
                        .query(
                            QueryPointsBuilder::new("points")
                                .query(vector(1))
                                .filter(filter.clone()),
                        )
                        .await,
                ),
                refusal(
                    client
                        .delete_points(DeletePointsBuilder::new("points").points(filter.clone()))
                        .await,
                ),
                refusal(
                    client
                        .set_payload(set.points_selector(filter.clone()))
                        .await,
                ),
            ];
            for (got, message) in refusals {
                assert_eq!(got, code, "{message}");
                assert!(message.contains(named), "{message}");
            }
        }
        let geo = CreateFieldIndexCollectionBuilder::new("points", "a", FieldType::Geo);
        let (code, message) = refusal(client.create_field_index(geo).await);
        assert_eq!(code, Code::Unimplemented);
        assert!(
            message.contains("keyword, integer, float or bool"),
            "{message}"
        );
        assert_eq!(stored(client).await.len(), 1);
    });
}

/// What is kept in memory for a declared field has to fit; what is searched does not need it.
#[test]
fn a_payload_index_that_does_not_fit_is_not_declared() {
    let running = Running::with(|settings| settings.limits.memory_bytes = 1_200_000);
    running.run(async {
        let client = &running.client;
        create(client, 1 << 20).await;
        let text = |id: u64| json!({"a": format!("{id}-{}", "x".repeat(100))});
        for id in (0..POINTS).step_by(10) {
            let points = (id..id + 10).map(|id| point(id, &text(id))).collect();
            upsert(client, points).await;
        }
        let field = CreateFieldIndexCollectionBuilder::new("points", "a", FieldType::Keyword);
        let (code, message) = refusal(client.create_field_index(field.wait(true)).await);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(message.contains("limits.memory_bytes"), "{message}");
        let info = client
            .collection_info("points")
            .await
            .unwrap()
            .result
            .unwrap();
        assert!(info.payload_schema.is_empty());
        let filter = Filter::must([Condition::matches(
            "a",
            text(7)["a"].as_str().unwrap().to_owned(),
        )]);
        assert_eq!(scrolled(client, &filter, 5).await, [7]);
    });
}
