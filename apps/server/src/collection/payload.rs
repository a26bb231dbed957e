//! Payloads: kept encoded, opened where a filter or an answer needs what is in them.

use std::borrow::Cow;
use std::collections::HashMap;

use prost::Message;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{PointStruct, Value};

use super::path::{Paths, What};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded<'a> {
    pub(crate) key: &'a str,
    /// Key and value: an entry of the map that every message has for a payload.
    pub(crate) entry: Cow<'a, [u8]>,
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
    Some(Encoded {
        key,
        entry: entry.into(),
        value,
    })
}

/// A payload of some fields of others.
fn of_fields<'a>(fields: impl Iterator<Item = Encoded<'a>>) -> Payload {
    let mut kept = Vec::new();
    for field in fields {
        append(&mut kept, PAYLOAD, &field.entry);
    }
    kept.into()
}

/// Appends a field of a message that has a length.
pub(crate) fn append(message: &mut Vec<u8>, tag: u8, content: &[u8]) {
    message.push(tag);
    prost::encode_length_delimiter(content.len(), message).expect("vectors grow");
    message.extend_from_slice(content);
}

/// The fields of `old` with those of `new` in the place of what has their names. As in the API, a null takes a field
/// away. `None` if one of them makes no sense.
pub(crate) fn merged(old: &Payload, new: &Payload) -> Option<Payload> {
    let new: HashMap<&str, Encoded<'_>> = encoded(new)
        .map(|field| field.map(|field| (field.key, field)))
        .collect::<Option<_>>()?;
    let old: Vec<Encoded<'_>> = encoded(old).collect::<Option<_>>()?;
    let mut stay = old;
    stay.retain(|field| !new.contains_key(field.key));
    let come = new.into_values().filter(|field| !field.is_null());
    Some(of_fields(stay.into_iter().chain(come)))
}

/// What some paths leave of a payload. Fields that they have nothing to do with, or that stay whole, are not decoded.
/// `None` if it makes no sense.
pub(crate) fn selected<'a>(kept: &'a [u8], paths: &Paths, what: What) -> Option<Vec<Encoded<'a>>> {
    let mut fields = Vec::new();
    for field in encoded(kept) {
        let mut field = field?;
        let within = paths.within(field.key);
        match within.stays(what) {
            Some(true) => fields.push(field),
            Some(false) => {}
            None => {
                let mut value = Value::decode(field.value).ok()?;
                within.apply(what, &mut value);
                let (mut entry, value) = (Vec::new(), value.encode_to_vec());
                // As it was encoded: what is left of a payload never takes more than all of it.
                let parts = [(KEY, field.key.as_bytes()), (VALUE, &value)];
                for (tag, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
                    append(&mut entry, tag, part);
                }
                field.entry = entry.into();
                fields.push(field);
            }
        }
    }
    Some(fields)
}

/// A payload without what some paths lead to; `None` if it makes no sense.
pub(crate) fn without(old: &Payload, paths: &Paths) -> Option<Payload> {
    selected(old, paths, What::Delete).map(|fields| of_fields(fields.into_iter()))
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

    use super::super::path::Path;
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
        let paths = ["a", "none", "b.c[]", "n.m"].map(|path| Path::parse(path).unwrap());
        let paths = Paths::new(paths);
        let found = open(&without(&old, &paths).unwrap()).unwrap();
        assert_eq!(found, fields(json!({"b": {"c": []}, "": "x", "n": 7})));
        let nothing = Paths::new([Path::parse("\"\".x[]").unwrap()]);
        let same = without(&old, &nothing).unwrap();
        assert_eq!((open(&same), same.len()), (open(&old), old.len()));
        for bad in [&[7_u8][..], &[PAYLOAD, 9, 1], &[PAYLOAD, 2, VALUE, 7]] {
            let bad = Payload::from(bad);
            assert_eq!(merged(&bad, &new), None);
            assert_eq!(merged(&old, &bad), None);
            assert_eq!(without(&bad, &paths), None);
        }
    }
}
