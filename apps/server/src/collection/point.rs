//! A point: an id, a vector, and a payload that the server keeps but does not look into.

use std::fmt;
use std::sync::Arc;

/// What a client calls a point: a number or a UUID. Ordered numbers first, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PointId {
    Number(u64),
    Uuid(uuid::Uuid),
}

impl PointId {
    /// The id as a key that sorts as the ids do: a tag, then the number or UUID, big-endian.
    pub(crate) fn to_key(self) -> [u8; 17] {
        let mut key = [0; 17];
        match self {
            Self::Number(number) => key[9..].copy_from_slice(&number.to_be_bytes()),
            Self::Uuid(uuid) => {
                key[0] = 1;
                key[1..].copy_from_slice(uuid.as_bytes());
            }
        }
        key
    }

    /// The id of a key, if it is one.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        let (&tag, rest) = key.split_first()?;
        let rest: [u8; 16] = rest.try_into().ok()?;
        match tag {
            0 => u64::try_from(u128::from_be_bytes(rest))
                .ok()
                .map(Self::Number),
            1 => Some(Self::Uuid(uuid::Uuid::from_bytes(rest))),
            _ => None,
        }
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

/// A payload as it came in, encoded; most payloads are never looked at again. Empty for none.
pub(crate) type Payload = Arc<[u8]>;

/// A point on its way in: its vector is already what the collection's metric compares.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) id: PointId,
    pub(crate) vector: Vec<f32>,
    pub(crate) payload: Payload,
}

impl Point {
    /// Memory that it takes once stored, without the index.
    pub(crate) fn bytes(&self) -> u64 {
        stored_bytes(self.vector.len(), self.payload.len())
    }
}

/// Memory of a stored point: vector, payload, its id in two places, its version, and the payload's own header.
pub(crate) fn stored_bytes(dim: usize, payload: usize) -> u64 {
    (dim * size_of::<f32>() + payload + 112) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_ids_and_sort_as_they_do() {
        let mut ids = [
            PointId::Uuid(uuid::Uuid::from_u128(3)),
            PointId::Number(u64::MAX),
            PointId::Number(0),
            PointId::Number(256),
            PointId::Uuid(uuid::Uuid::from_u128(u128::MAX)),
        ];
        for id in ids {
            assert_eq!(PointId::from_key(&id.to_key()), Some(id));
        }
        ids.sort_unstable();
        let mut by_key = ids;
        by_key.sort_by_key(|id| id.to_key());
        assert_eq!(ids, by_key);
    }

    #[test]
    fn what_is_no_key_is_no_id() {
        let mut too_large = [0xff; 17];
        too_large[0] = 0;
        let mut other_tag = [0; 17];
        other_tag[0] = 2;
        for key in [&too_large[..], &other_tag, &[], &[0; 16], &[0; 18]] {
            assert_eq!(PointId::from_key(key), None);
        }
    }
}
