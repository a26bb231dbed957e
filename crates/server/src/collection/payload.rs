//! Payloads: kept encoded, opened where a filter or an answer needs what is in them.

use std::collections::{HashMap, HashSet};

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

/// A field of a kept payload, as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded<'a> {
    pub(crate) key: &'a str,
    /// Key and value: an entry of the map that every message has for a payload.
    pub(crate) entry: &'a [u8],
    value: &'a [u8],
}

impl Encoded<'_> {
    fn is_null(&self) -> bool {
        matches!(self.value, [] | [NULL, _])
    }
}

/// The tags of a payload's field in the message that it is kept as, of key and value in that, and of null in a value.
const PAYLOAD: u8 = 0x1a;
const KEY: u8 = 0x0a;
const VALUE: u8 = 0x12;
const NULL: u8 = 0x08;

/// The bytes that follow a tag and their length.
fn delimited<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = prost::decode_length_delimiter(&mut *bytes).ok()?;
    let (inside, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(inside)
}

/// The fields of a kept payload. Nothing is decoded, and no memory is taken; `None` for what makes no sense.
pub(crate) fn encoded(mut kept: &[u8]) -> impl Iterator<Item = Option<Encoded<'_>>> {
    let mut ended = false;
    std::iter::from_fn(move || {
        let (&tag, rest) = kept.split_first().filter(|_| !ended)?;
        kept = rest;
        let field = match tag {
            PAYLOAD => delimited(&mut kept).and_then(field),
            _ => None,
        };
        ended = field.is_none();
        Some(field)
    })
}

fn field(entry: &[u8]) -> Option<Encoded<'_>> {
    let (mut key, mut value, mut rest) = ("", &[][..], entry);
    while let Some((&tag, after)) = rest.split_first() {
        rest = after;
        match tag {
            KEY => key = std::str::from_utf8(delimited(&mut rest)?).ok()?,
            VALUE => value = delimited(&mut rest)?,
            _ => return None,
        }
    }
    Some(Encoded { key, entry, value })
}

/// A payload of some fields of others.
fn of_fields<'a>(fields: impl Iterator<Item = Encoded<'a>>) -> Payload {
    let mut kept = Vec::new();
    for field in fields {
        append(&mut kept, PAYLOAD, field.entry);
    }
    kept.into()
}

/// Appends a field of a message that has a length.
pub(crate) fn append(message: &mut Vec<u8>, tag: u8, content: &[u8]) {
    message.push(tag);
    prost::encode_length_delimiter(content.len(), message).expect("vectors grow");
    message.extend_from_slice(content);
}

/// The fields of `old` with those of `new` in the place of what has their names. As in the API, a null takes a field away.
/// `None` if one of them makes no sense.
pub(crate) fn merged(old: &Payload, new: &Payload) -> Option<Payload> {
    let new: HashMap<&str, Encoded<'_>> = encoded(new)
        .map(|field| field.map(|field| (field.key, field)))
        .collect::<Option<_>>()?;
    let old: Vec<Encoded<'_>> = encoded(old).collect::<Option<_>>()?;
    let stay = old.into_iter().filter(|field| !new.contains_key(field.key));
    let come = new.values().filter(|field| !field.is_null());
    Some(of_fields(stay.chain(come.copied())))
}

/// The fields of `old` without those of some names; `None` if it makes no sense.
pub(crate) fn without(old: &Payload, keys: &HashSet<String>) -> Option<Payload> {
    let old: Vec<Encoded<'_>> = encoded(old).collect::<Option<_>>()?;
    let stay = old.into_iter().filter(|field| !keys.contains(field.key));
    Some(of_fields(stay))
}

/// The longest name of a field, and the longest path to one, in bytes.
pub(crate) const LONGEST_KEY: usize = 1_024;

/// Where a value is in a payload: `color`, `owner.name`, `cities[].name`, `cities[0].name`.
///
/// Its text is kept once, and eight bytes for each step, so that a path of many short names takes little more than its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: Box<str>,
    steps: Box<[Step]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// These bytes of the text.
    Key {
        from: u16,
        to: u16,
    },
    Each,
    At(u32),
}

impl Path {
    /// Reads a path; `None` if it is none, or longer than [`LONGEST_KEY`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_KEY {
            return None;
        }
        let mut steps = Vec::new();
        let mut from = 0;
        for part in text.split('.') {
            let (name, mut brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
            if name.is_empty() || name.contains(['"', ']']) {
                return None;
            }
            steps.push(Step::Key {
                from: u16::try_from(from).ok()?,
                to: u16::try_from(from + name.len()).ok()?,
            });
            from += part.len() + 1;
            while !brackets.is_empty() {
                let (inside, after) = brackets.strip_prefix('[')?.split_once(']')?;
                steps.push(match inside {
                    "" => Step::Each,
                    number => Step::At(number.parse().ok()?),
                });
                brackets = after;
            }
        }
        Some(Self {
            text: text.into(),
            steps: steps.into(),
        })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Memory that it takes besides itself.
    pub(crate) fn bytes(&self) -> u64 {
        (self.text.len() + size_of_val(&*self.steps)) as u64
    }

    /// The values that are there: none or one, or several where the path has `[]`. `step` is told how many values each
    /// step looks at. Where nothing is left the path is not followed any further.
    pub(crate) fn values<'a>(
        &self,
        fields: &'a Fields,
        mut step: impl FnMut(usize),
    ) -> Vec<&'a Value> {
        let mut steps = self.steps.iter();
        let mut found: Vec<&Value> = match steps.next() {
            Some(&Step::Key { from, to }) => fields.get(self.name(from, to)).into_iter().collect(),
            _ => Vec::new(),
        };
        step(1);
        for &one in steps {
            if found.is_empty() {
                break;
            }
            step(found.len());
            found = found
                .into_iter()
                .flat_map(|value| self.below(one, value))
                .collect();
        }
        found
    }

    fn name(&self, from: u16, to: u16) -> &str {
        &self.text[usize::from(from)..usize::from(to)]
    }

    fn below<'a>(&self, step: Step, value: &'a Value) -> &'a [Value] {
        match (step, &value.kind) {
            (Step::Key { from, to }, Some(Kind::StructValue(inner))) => inner
                .fields
                .get(self.name(from, to))
                .map_or(&[], std::slice::from_ref),
            (Step::Each, Some(Kind::ListValue(list))) => &list.values,
            (Step::At(place), Some(Kind::ListValue(list))) => list
                .values
                .get(place as usize)
                .map_or(&[], std::slice::from_ref),
            _ => &[],
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

fn is_null(value: &Value) -> bool {
    matches!(value.kind, None | Some(Kind::NullValue(_)))
}

/// Whether it is null, or a list with null in it.
pub(crate) fn has_null(value: &Value) -> bool {
    elements(value).iter().any(is_null)
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
            path.values(&payload, |_| ())
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

    #[test]
    fn a_path_ends_where_nothing_is_left() {
        let payload = fields(json!({"a": {"b": 1}}));
        let path = Path::parse(&["a"; 500].join(".")).unwrap();
        let mut steps = 0;
        assert!(path.values(&payload, |more| steps += more).is_empty());
        assert_eq!(steps, 2, "of 500 steps");
    }

    #[test]
    fn a_path_takes_little_more_than_its_text() {
        let text = ["a"; 512].join(".");
        let path = Path::parse(&text).unwrap();
        assert_eq!(path.bytes(), text.len() as u64 + 512 * 8);
        assert_eq!(Path::parse(&"a".repeat(LONGEST_KEY + 1)), None);
    }

    #[test]
    fn payloads_are_merged_as_they_are_encoded() {
        let old = keep(fields(
            json!({"a": 1, "b": {"c": [1, null]}, "": "x", "n": 7}),
        ));
        let new = keep(fields(
            json!({"a": [2, 3], "n": null, "gone": null, "d": {}}),
        ));
        let found = open(&merged(&old, &new).unwrap()).unwrap();
        let wanted = fields(json!({"a": [2, 3], "b": {"c": [1, null]}, "": "x", "d": {}}));
        assert_eq!(found, wanted);
        let keys = ["a", "none"].map(str::to_owned).into();
        let found = open(&without(&old, &keys).unwrap()).unwrap();
        assert_eq!(
            found,
            fields(json!({"b": {"c": [1, null]}, "": "x", "n": 7}))
        );
        for bad in [&[7_u8][..], &[PAYLOAD, 9, 1], &[PAYLOAD, 2, VALUE, 7]] {
            let bad = Payload::from(bad);
            assert_eq!(merged(&bad, &new), None);
            assert_eq!(merged(&old, &bad), None);
            assert_eq!(without(&bad, &HashSet::new()), None);
        }
    }
}
