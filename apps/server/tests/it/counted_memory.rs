//! What the server takes is what it counts, or little more: whoever fills its limits does not have it killed.
//!
//! Each test holds something at once, and compares what is resident with what is counted. `--nocapture` shows both.

use crate::common::process::{Process, command};
use crate::common::raw::unread;
use crate::common::{config, page};
use prost::Message;
use qdrant_client::qdrant::{
    Condition, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, DeletePointsBuilder,
    Distance, FieldType, Filter, GetCollectionInfoRequest, ListValue, PointStruct, PointsIdsList,
    SetPayloadPointsBuilder, UpsertPointsBuilder, Value, VectorParamsBuilder, value,
};
use qdrant_client::{Payload, Qdrant};
use tokio::runtime::Runtime;

const MIB: f64 = 1_048_576.0;

/// Memory that is resident may be so many times what is counted, and so much more.
const TIMES: f64 = 1.25;
const MORE: f64 = 64.0 * MIB;

struct Running {
    process: Process,
    runtime: Runtime,
    client: Qdrant,
    _data: tempfile::TempDir,
}

impl Running {
    fn start(settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let process = Process::start(command(data.path(), settings));
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async { config(process.grpc).build().unwrap() });
        Self {
            process,
            runtime,
            client,
            _data: data,
        }
    }

    async fn create(&self, name: &str, dim: u64) {
        let params = VectorParamsBuilder::new(dim, Distance::Dot);
        let create = CreateCollectionBuilder::new(name).vectors_config(params);
        self.client.create_collection(create).await.unwrap();
    }

    fn metric(&self, name: &str) -> f64 {
        let (_, text) = page(self.process.admin, "/metrics");
        let line = text.lines().find(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(' '))
        });
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// What is counted and what is resident, having compared them.
    fn compare(&self, what: &str) -> (f64, f64) {
        let counted = self.metric("chiplet_server_memory_used_bytes");
        let resident = self.metric("process_resident_memory_bytes");
        let (c, r) = (counted / MIB, resident / MIB);
        println!("{what}: {c:.1} MiB counted, {r:.1} MiB resident");
        assert!(resident <= TIMES * counted + MORE, "{what}: {c} {r}");
        (counted, resident)
    }
}

/// Each has a cache, and what belongs to an open file.
#[test]
fn collections_count_with_their_caches() {
    let running = Running::start(&[]);
    running.runtime.block_on(async {
        let mut first = None;
        for number in 1..=150 {
            let name = format!("c{number}");
            running.create(&name, 16).await;
            let points: Vec<PointStruct> = (0..2_000_u64)
                .map(|id| PointStruct::new(id, vec![0.5; 16], Payload::new()))
                .collect();
            let upsert = UpsertPointsBuilder::new(&name, points).wait(true);
            running.client.upsert_points(upsert).await.unwrap();
            if number % 50 == 0 {
                let now = running.compare(&format!("{number} collections"));
                let (counted, resident) = *first.get_or_insert(now);
                // What the server takes by itself hides nothing of what collections take.
                assert!(
                    now.1 - resident <= TIMES * (now.0 - counted),
                    "{first:?} {now:?}"
                );
            }
        }
    });
}

/// A list of so many values that are nothing: two bytes each, and far more once they are decoded.
fn nothings(values: usize) -> Payload {
    let list = ListValue {
        values: vec![Value::default(); values],
    };
    let list = Value {
        kind: Some(value::Kind::ListValue(list)),
    };
    [("list", list)].into()
}

/// Changes of payloads wait in the queue while a write before them takes its time.
#[test]
fn changes_of_payloads_count_while_they_wait() {
    let running = Running::start(&[("LIMITS__QUERY_SECONDS", "3600")]);
    running.runtime.block_on(async {
        running.create("line", 1).await;
        let numbers: Vec<i64> = (0..100).collect();
        let payload = Payload::try_from(serde_json::json!({ "numbers": numbers })).unwrap();
        let points: Vec<PointStruct> = (0..10_000_u64)
            .map(|id| PointStruct::new(id, vec![0.5], payload.clone()))
            .collect();
        for points in points.chunks(1_000) {
            let upsert = UpsertPointsBuilder::new("line", points).wait(true);
            running.client.upsert_points(upsert).await.unwrap();
        }
        let none = (0..999).map(|_| Condition::matches("numbers", vec![-1_i64]));
        let dear = DeletePointsBuilder::new("line").points(Filter::should(none));
        running
            .client
            .delete_points(dear.wait(false))
            .await
            .unwrap();
        let set = SetPayloadPointsBuilder::new("line", nothings(1 << 20))
            .points_selector(PointsIdsList {
                ids: vec![1.into()],
            })
            .wait(false);
        for _ in 0..16 {
            running.client.set_payload(set.clone()).await.unwrap();
        }
        let (counted, _) = running.compare("16 changes that wait");
        assert!(counted >= 32.0 * MIB, "they wait: {counted}");
        running.client.delete_collection("line").await.unwrap();
    });
}

/// A path of millions of parts would take a text for each.
#[test]
fn a_long_key_takes_no_more_than_its_bytes() {
    const PARTS: usize = 15_000_000;
    let running = Running::start(&[]);
    running.runtime.block_on(async {
        running.create("line", 1).await;
        let key = "a.".repeat(PARTS) + "a";
        let filter = Filter::must([Condition::matches(key, true)]);
        let delete = DeletePointsBuilder::new("line").points(filter).wait(true);
        let refused = running.client.delete_points(delete).await.unwrap_err();
        assert!(refused.to_string().contains("bytes"), "{refused}");
    });
    let peak = running.process.peak_memory() as f64;
    // The message as it came, and decoded.
    let counted = 2.0 * 2.0 * PARTS as f64;
    println!("a long key: {:.1} MiB at the peak", peak / MIB);
    assert!(peak <= TIMES * counted + MORE, "{peak}");
}

/// Descriptions of a collection with many declared fields, asked for by a client that reads none of them.
#[test]
fn unread_answers_count() {
    const FIELDS: usize = 300;
    let running = Running::start(&[("LIMITS__MEMORY_BYTES", "134217728")]);
    running.runtime.block_on(async {
        running.create("line", 1).await;
        for number in 0..FIELDS {
            let field = format!("{number:01000}");
            let kind = FieldType::Keyword;
            let create = CreateFieldIndexCollectionBuilder::new("line", field, kind).wait(false);
            running.client.create_field_index(create).await.unwrap();
        }
        let ask = GetCollectionInfoRequest {
            collection_name: "line".into(),
        };
        let mut message = vec![0];
        message.extend_from_slice(&(ask.encoded_len() as u32).to_be_bytes());
        ask.encode(&mut message).unwrap();
        let grpc = running.process.grpc;
        let path = "/qdrant.Collections/Get";
        let mut held = Vec::new();
        for _ in 0..6 {
            held.push(unread(grpc, path, message.clone(), 250).await);
        }
        let begun = held.iter().flat_map(|(begun, _)| begun);
        let begun = begun.filter(|begun| **begun).count();
        println!("{begun} answers are held");
        let (counted, _) = running.compare("answers that nobody reads");
        assert!(counted >= 64.0 * MIB && begun < 1_500, "{counted}, {begun}");
    });
}
