//! What stands before an image's payload, as bytes. Nothing in it is believed before it is checked.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::{Entry, Section, draft};

/// How a file begins. The last byte ends a text file on old systems, and none of ours is one.
pub(super) const MAGIC: [u8; 8] = *b"chiplet\x1a";

/// To be raised when the layout changes.
pub(super) const VERSION: u32 = 1;

/// Bytes before the header.
pub(super) const PREFIX: usize = 24;

/// The payload begins at a multiple of this: the page of most machines.
const PAYLOAD_ALIGNMENT: usize = 4096;

/// A header has some hundred bytes. A file that claims more than this is not read on.
pub(super) const MAX_HEADER: usize = 1 << 20;

/// The header's content.
pub(super) struct Header {
    pub(super) kind: Box<str>,
    pub(super) meta: Value,
    /// Laid out as a [`Draft`](super::Draft) does it, each with its sum.
    pub(super) entries: Vec<Entry>,
}

/// What is wrong with the beginning of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Foreign,
    Newer(u32),
    /// It must have at least as many bytes.
    Short(usize),
    Damaged(String),
}

/// Where the payload begins after a header of `bytes` bytes.
pub(super) fn payload_start(bytes: usize) -> usize {
    (PREFIX + bytes).next_multiple_of(PAYLOAD_ALIGNMENT)
}

/// The bytes of a file up to its payload; `sums` are those of the sections. Fails with the reason.
pub(super) fn encode(
    kind: &str,
    meta: &Value,
    entries: &[Entry],
    sums: &[u64],
) -> Result<Vec<u8>, String> {
    let sections = entries.iter().zip(sums).map(|(entry, &sum)| Line {
        name: entry.name.clone(),
        offset: entry.section.start as u64,
        bytes: entry.section.bytes as u64,
        xxh3: Sum(sum),
    });
    let json = Json {
        kind: kind.into(),
        meta: meta.clone(),
        sections: sections.collect(),
    };
    let json = serde_json::to_vec(&json).map_err(|error| error.to_string())?;
    if json.len() > MAX_HEADER {
        return Err(format!(
            "they fill {} bytes, {MAX_HEADER} is the limit",
            json.len()
        ));
    }
    let mut bytes = Vec::with_capacity(payload_start(json.len()));
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(sum_of(&bytes, &json).to_le_bytes());
    bytes.extend(&json);
    bytes.resize(payload_start(json.len()), 0);
    Ok(bytes)
}

/// The header's size, by a file's first bytes: [`PREFIX`] of them, or as many as there are.
pub(super) fn length(prefix: &[u8]) -> Result<usize, Wrong> {
    let there = prefix.len().min(MAGIC.len());
    if prefix[..there] != MAGIC[..there] || there == 0 {
        return Err(Wrong::Foreign);
    }
    let Some(prefix) = prefix.first_chunk::<PREFIX>() else {
        return Err(Wrong::Short(PREFIX));
    };
    // Before anything else: all the rest may be different in a newer file.
    let version = number(&prefix[8..12]);
    if version > VERSION {
        return Err(Wrong::Newer(version));
    }
    if version == 0 {
        return Err(Wrong::Damaged("there is no format version 0".to_owned()));
    }
    let length = number(&prefix[12..16]) as usize;
    if length > MAX_HEADER {
        let reason = format!("its header would have {length} bytes, {MAX_HEADER} is the limit");
        return Err(Wrong::Damaged(reason));
    }
    Ok(length)
}

/// The header, by a file's bytes up to its payload.
pub(super) fn decode(bytes: &[u8]) -> Result<Header, Wrong> {
    let length = length(bytes)?;
    if bytes.len() != payload_start(length) {
        return Err(Wrong::Short(payload_start(length)));
    }
    let (prefix, rest) = bytes.split_at(PREFIX);
    let (json, padding) = rest.split_at(length);
    let damaged = |reason: String| Err(Wrong::Damaged(reason));
    if prefix[16..] != sum_of(&prefix[..16], json).to_le_bytes() {
        return damaged("the checksum of its header is wrong".to_owned());
    }
    if padding.iter().any(|&byte| byte != 0) {
        return damaged("there is something between its header and its content".to_owned());
    }
    let json: Json = match serde_json::from_slice(json) {
        Ok(json) => json,
        Err(error) => return damaged(format!("its header: {error}")),
    };
    let mut entries: Vec<Entry> = Vec::with_capacity(json.sections.len());
    for line in json.sections {
        let start = draft::start_after(entries.last().map(|entry| entry.section));
        let as_laid_out = start.filter(|&start| start as u64 == line.offset);
        let bytes = usize::try_from(line.bytes).ok();
        let (Some(start), Some(bytes)) = (as_laid_out, bytes) else {
            return damaged(format!("section {:?} is not where it must be", line.name));
        };
        if start.checked_add(bytes).is_none() {
            return damaged(format!("section {:?} would have {bytes} bytes", line.name));
        }
        entries.push(Entry {
            name: line.name,
            section: Section { start, bytes },
            sum: Some(line.xxh3.0),
        });
    }
    let mut names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return damaged(format!("it has two sections {:?}", twice[0]));
    }
    Ok(Header {
        kind: json.kind,
        meta: json.meta,
        entries,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    kind: Box<str>,
    meta: Value,
    sections: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: Box<str>,
    offset: u64,
    bytes: u64,
    xxh3: Sum,
}

/// 16 hexadecimal digits: many readers of JSON keep only 53 bits of a number.
struct Sum(u64);

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        match u64::from_str_radix(&digits, 16) {
            Ok(sum) if digits.len() == 16 && !digits.starts_with('+') => Ok(Self(sum)),
            _ => Err(serde::de::Error::custom(format_args!(
                "{digits:?} is no sum of 16 hexadecimal digits"
            ))),
        }
    }
}

fn sum_of(prefix: &[u8], json: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(prefix);
    hash.update(json);
    hash.digest()
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}
