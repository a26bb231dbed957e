//! Payloads: kept encoded, opened where a filter or an answer needs what is in them.

use std::collections::HashMap;

use prost::Message;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{PointStruct, Value};

use super::point::Payload;

/// A payload's fields.
pub(crate) type Fields = HashMap<String, Value>;

/// Encodes a payload, to be kept.
pub(crate) fn keep(payload: Fields) -> Payload {
    let message = PointStruct {
        payload,
        ..PointStruct::default()
    };
    message.encode_to_vec().into()
}

/// What `kept` holds.
///
/// # Errors
/// It is no payload.
pub(crate) fn open(kept: &Payload) -> Result<Fields, prost::DecodeError> {
    PointStruct::decode(&**kept).map(|message| message.payload)
}

/// Where a value is in a payload: `color`, `owner.name`, `cities[].name`, `cities[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    first: String,
    rest: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Each,
    At(usize),
}

impl Path {
    /// Reads a path; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (name, mut brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
            if name.is_empty() || name.contains(['"', ']']) {
                return None;
            }
            steps.push(Step::Key(name.to_owned()));
            while !brackets.is_empty() {
                let (inside, after) = brackets.strip_prefix('[')?.split_once(']')?;
                steps.push(match inside {
                    "" => Step::Each,
                    number => Step::At(number.parse().ok()?),
                });
                brackets = after;
            }
        }
        let mut steps = steps.into_iter();
        match steps.next() {
            Some(Step::Key(first)) => Some(Self {
                first,
                rest: steps.collect(),
            }),
            _ => None,
        }
    }

    /// The values that are there: none or one, or several where the path has `[]`.
    pub(crate) fn values<'a>(&self, fields: &'a Fields) -> Vec<&'a Value> {
        let mut found: Vec<&Value> = fields.get(&self.first).into_iter().collect();
        for step in &self.rest {
            found = found
                .into_iter()
                .flat_map(|value| step.below(value))
                .collect();
        }
        found
    }
}

impl Step {
    fn below<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, &value.kind) {
            (Self::Key(key), Some(Kind::StructValue(inner))) => {
                inner.fields.get(key).into_iter().collect()
            }
            (Self::Each, Some(Kind::ListValue(list))) => list.values.iter().collect(),
            (Self::At(place), Some(Kind::ListValue(list))) => {
                list.values.get(*place).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The values that a condition looks at: of a list its elements.
pub(crate) fn elements(value: &Value) -> &[Value] {
    match &value.kind {
        Some(Kind::ListValue(list)) => &list.values,
        _ => std::slice::from_ref(value),
    }
}

pub(crate) fn is_null(value: &Value) -> bool {
    matches!(value.kind, None | Some(Kind::NullValue(_)))
}

/// Whether a value counts as nothing: null, or an empty list.
pub(crate) fn is_nothing(value: &Value) -> bool {
    is_null(value) || matches!(&value.kind, Some(Kind::ListValue(list)) if list.values.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(json: serde_json::Value) -> Fields {
        qdrant_client::Payload::try_from(json).unwrap().into()
    }

    #[test]
    fn a_payload_is_kept_as_it_is() {
        let payload = fields(json!({"a": 1, "b": {"c": [null, 2.5, "ü"]}}));
        assert_eq!(open(&keep(payload.clone())).unwrap(), payload);
        assert!(open(&Payload::default()).unwrap().is_empty());
        assert!(open(&Payload::from(&[7_u8][..])).is_err());
    }

    #[test]
    fn paths_lead_to_values() {
        let payload = fields(json!({
            "a": 1,
            "owner": {"name": "x"},
            "cities": [{"name": "p", "sizes": [1, 2]}, {"name": "q"}, 7],
        }));
        let found = |path: &str| -> Vec<serde_json::Value> {
            let path = Path::parse(path).unwrap();
            path.values(&payload)
                .into_iter()
                .map(|value| value.clone().into())
                .collect()
        };
        assert_eq!(found("a"), [json!(1)]);
        assert_eq!(found("owner.name"), [json!("x")]);
        assert_eq!(found("cities[].name"), [json!("p"), json!("q")]);
        assert_eq!(found("cities[0].sizes[]"), [json!(1), json!(2)]);
        assert_eq!(found("cities[0].sizes"), [json!([1, 2])]);
        for nowhere in [
            "b",
            "a.b",
            "owner.none",
            "cities.name",
            "cities[9].name",
            "a[]",
        ] {
            assert!(found(nowhere).is_empty(), "{nowhere}");
        }
        for bad in [
            "", ".", "a.", "a[", "a[x]", "a[1]b", "[0]", "\"a\".b", "a..b",
        ] {
            assert_eq!(Path::parse(bad), None, "{bad}");
        }
    }
}
