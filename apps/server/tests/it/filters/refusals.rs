//! What is refused: filters that cannot be said, and payload indexes that do not fit.

use qdrant_client::Payload;
use qdrant_client::qdrant::{
    Condition, CountPointsBuilder, CreateFieldIndexCollectionBuilder, DeletePointsBuilder,
    FieldType, Filter, IsNullCondition, QueryPointsBuilder, ScrollPointsBuilder,
    SetPayloadPointsBuilder,
};
use serde_json::json;
use tonic::Code;

use super::POINTS;
use super::points::{create, point, scrolled, stored, upsert, vector};
use crate::common::{Running, refusal};

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
    let running = Running::with(|settings| settings.limits.memory_bytes = 1_400_000);
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
