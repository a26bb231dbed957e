//! Filters made at random, and what each says of payloads in plain JSON.

use std::collections::BTreeMap;

use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, Filter, PointId, Range};
use serde_json::{Value, json};

use super::POINTS;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

pub(crate) type Model = BTreeMap<u64, Value>;

/// A payload in which any field may be missing, null, empty, a list, or of another type.
pub(crate) fn payload(random: &mut Random) -> Value {
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
        json!([null, "blue"]),
        json!([{"name": [[null]]}]),
        json!((1_i64 << 53) + 1),
        json!([-(1_i64 << 53) - 1, i64::MAX]),
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

pub(crate) type Test = Box<dyn Fn(u64, &Value) -> bool>;

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
            let large = (1_i64 << 53) as f64;
            let gte = random.of(&[1.0, 2.0, 2.25, -large, large, f64::NEG_INFINITY]);
            let lt = random.of(&[2.0, 2.5, 8.0, large, large + 2.0, 9.3e18]);
            let range = Range {
                gte: Some(gte),
                lt: Some(lt),
                ..Range::default()
            };
            let test = move |_, payload: &Value| {
                // Exactly: the bounds here are whole where integers are not doubles.
                let inside = |value: &Value| match value.as_i64() {
                    Some(x) => {
                        i128::from(x) >= gte.ceil() as i128 && i128::from(x) < lt.ceil() as i128
                    }
                    None => value.as_f64().is_some_and(|x| x >= gte && x < lt),
                };
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
            let test = move |_, payload: &Value| any(payload, key, Value::is_null);
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
            let test =
                move |_, payload: &Value| any(payload, key, |x| !x.is_null() && *x != json!("red"));
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

pub(crate) fn filter(random: &mut Random, depth: u64) -> (Filter, Test) {
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

pub(crate) fn selected(model: &Model, test: &Test) -> Vec<u64> {
    let holds = |(id, payload): (&u64, &Value)| test(*id, payload).then_some(*id);
    model.iter().filter_map(holds).collect()
}
