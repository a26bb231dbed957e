//! Changes of payloads, and of what filters select.

use qdrant_client::Payload;
use qdrant_client::qdrant::{
    DeletePayloadPointsBuilder, DeletePointsBuilder, FieldType, Filter, PointId, PointsIdsList,
    SetPayloadPointsBuilder,
};
use serde_json::json;
use tonic::Code;

use super::POINTS;
use super::model::{Random, filter, selected};
use super::points::{compare, create, declare, fill, point, restart, stored, upsert};
use crate::common::{Running, refusal};

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
                        // Null takes a field away, as the API has it.
                        old.retain(|key, value| !(value.is_null() && new.get(key).is_some()));
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
