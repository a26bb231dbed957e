//! Payload indexes: for a declared field, which rows of a block have which values.
//!
//! A block that takes no more rows never changes, so its index is made once, when the field is declared, the block is
//! closed or the first filter asks, and goes with the block. Its memory counts; where there is none the filter looks
//! into the payloads.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::RwLock;
use qdrant_client::qdrant::FieldType;
use qdrant_client::qdrant::value::Kind;

use super::filter::{Patience, Range, Set, Test};
use super::path::Path;
use super::payload;
use super::rows::{Block, View};
use crate::memory::{Budget, Kept};

/// Bytes that an index takes for a row, about, and mostly more.
const LEAST: u64 = 16;

/// The declared fields, with the API's number of their type.
pub(crate) type Declared = BTreeMap<String, i32>;

/// The indexes that a block has. A copy of a block, which is made to grow, has none.
#[derive(Default)]
pub(crate) struct Indexes(RwLock<Vec<Entry>>);

struct Entry {
    key: String,
    kind: i32,
    index: Arc<FieldIndex>,
}

impl Clone for Indexes {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Which kinds of field an index can be made of.
pub(crate) fn can_index(kind: FieldType) -> bool {
    matches!(
        kind,
        FieldType::Keyword | FieldType::Integer | FieldType::Float | FieldType::Bool
    )
}

/// Positions of a block's rows by their values in one field.
#[derive(Default)]
pub(super) struct FieldIndex {
    kind: i32,
    /// Clients choose the keys, so their hashes have a key of this process.
    keywords: HashMap<Box<str>, Vec<u32>>,
    /// Ascending.
    integers: Vec<(i64, u32)>,
    /// Other numbers, ascending.
    doubles: Vec<(f64, u32)>,
    flags: [Vec<u32>; 2],
    empty: Vec<u32>,
    null: Vec<u32>,
    kept: Option<Kept>,
}

impl FieldIndex {
    /// The index of a block that takes no more rows, made now if it has none; `None` if there is no memory for it, or
    /// nobody waits any more.
    pub(super) fn of(
        block: &Block,
        path: &Path,
        kind: i32,
        budget: &Arc<Budget>,
        patience: &Patience<'_>,
    ) -> Option<Arc<Self>> {
        let key = path.text();
        let find = |entries: &[Entry]| {
            let found = entries
                .iter()
                .find(|entry| entry.key == key && entry.kind == kind);
            found.map(|entry| Arc::clone(&entry.index))
        };
        if let Some(index) = find(&block.indexes.0.read()) {
            return Some(index);
        }
        // Where there is not even this, it need not be made to be thrown away.
        let least = LEAST * block.len() as u64;
        let kept = Kept::new(budget);
        if !kept.try_take(least) {
            return None;
        }
        let mut index = Self::build(block, path, kind, patience)?;
        let bytes = index.bytes() + key.len() as u64;
        if !kept.try_take(bytes.saturating_sub(least)) {
            return None;
        }
        index.kept = Some(kept);
        let index = Arc::new(index);
        let mut entries = block.indexes.0.write();
        // Somebody may have been faster.
        if let Some(index) = find(&entries) {
            return Some(index);
        }
        entries.retain(|entry| entry.key != key);
        entries.push(Entry {
            key: key.to_owned(),
            kind,
            index: Arc::clone(&index),
        });
        Some(index)
    }

    fn build(block: &Block, path: &Path, kind: i32, patience: &Patience<'_>) -> Option<Self> {
        let mut index = Self {
            kind,
            ..Self::default()
        };
        let wants = |wanted: FieldType| kind == wanted as i32;
        let numbers = wants(FieldType::Integer) || wants(FieldType::Float);
        for (position, kept) in (0..).zip(&block.payloads) {
            patience.step(1 + kept.len() / 64);
            if patience.is_over() {
                return None;
            }
            let fields = payload::open(kept).unwrap_or_default();
            let values = path.values(&fields, |steps| patience.step(steps));
            if values.iter().all(|value| payload::is_nothing(value)) {
                index.empty.push(position);
            }
            if values.iter().any(|value| payload::has_null(value)) {
                index.null.push(position);
            }
            for value in values.into_iter().flat_map(payload::elements) {
                match &value.kind {
                    Some(Kind::StringValue(text)) if wants(FieldType::Keyword) => {
                        let rows = match index.keywords.get_mut(text.as_str()) {
                            Some(rows) => rows,
                            None => index.keywords.entry(text.as_str().into()).or_default(),
                        };
                        rows.push(position);
                    }
                    Some(Kind::IntegerValue(number)) if numbers => {
                        index.integers.push((*number, position));
                    }
                    // NaN is in no range.
                    Some(Kind::DoubleValue(number)) if numbers && !number.is_nan() => {
                        index.doubles.push((*number, position));
                    }
                    Some(Kind::BoolValue(flag)) if wants(FieldType::Bool) => {
                        index.flags[usize::from(*flag)].push(position);
                    }
                    _ => {}
                }
            }
        }
        index.integers.sort_unstable();
        index.doubles.sort_by(|a, b| a.0.total_cmp(&b.0));
        index.keywords.shrink_to_fit();
        Some(index)
    }

    fn bytes(&self) -> u64 {
        let lists = [&self.empty, &self.null, &self.flags[0], &self.flags[1]];
        let positions: usize = lists.iter().map(|list| list.capacity()).sum();
        let keywords: usize = self
            .keywords
            .iter()
            .map(|(text, rows)| text.len() + 4 * rows.capacity() + 96)
            .sum();
        let numbers = 16 * (self.integers.capacity() + self.doubles.capacity());
        (size_of::<Self>() + 4 * positions + keywords + numbers) as u64
    }

    /// The rows that satisfy `test`, if the index knows them; some of them once nobody waits any more.
    pub(super) fn answer(&self, test: &Test, rows: usize, patience: &Patience<'_>) -> Option<Set> {
        let is = |kind: FieldType| self.kind == kind as i32;
        let goes_on = || {
            patience.step(1);
            !patience.is_over()
        };
        let found = match test {
            Test::Keywords(any) if is(FieldType::Keyword) => {
                let lists = any
                    .iter()
                    .take_while(|_| goes_on())
                    .filter_map(|text| self.keywords.get(text.as_str()));
                Set::of(rows, lists.flatten().copied())
            }
            Test::Integers(any) if is(FieldType::Integer) => {
                let lists = any
                    .iter()
                    .take_while(|_| goes_on())
                    .map(|&number| self.integers_within(number.into()..=number.into()));
                Set::of(rows, lists.flatten().map(|&(_, position)| position))
            }
            Test::Bool(flag) if is(FieldType::Bool) => {
                Set::of(rows, self.flags[usize::from(*flag)].iter().copied())
            }
            Test::Range(range) if is(FieldType::Integer) || is(FieldType::Float) => {
                let integers = self.integers_within(range.integers()).iter();
                let doubles = self.doubles_within(range).iter();
                let integers = integers.map(|&(_, position)| position);
                let doubles = doubles.map(|&(_, position)| position);
                Set::of(rows, integers.chain(doubles))
            }
            Test::IsEmpty => Set::of(rows, self.empty.iter().copied()),
            Test::IsNull => Set::of(rows, self.null.iter().copied()),
            _ => return None,
        };
        Some(found)
    }

    fn integers_within(&self, range: RangeInclusive<i128>) -> &[(i64, u32)] {
        let below = |&(x, _): &(i64, u32)| i128::from(x) < *range.start();
        let inside = &self.integers[self.integers.partition_point(below)..];
        &inside[..inside.partition_point(|&(x, _)| i128::from(x) <= *range.end())]
    }

    fn doubles_within(&self, range: &Range) -> &[(f64, u32)] {
        let below = |x: f64| {
            range.gt.is_some_and(|bound| x <= bound) || range.gte.is_some_and(|bound| x < bound)
        };
        let from = self.doubles.partition_point(|&(x, _)| below(x));
        let inside = &self.doubles[from..];
        &inside[..inside.partition_point(|&(x, _)| range.holds(x))]
    }
}

/// Makes the indexes of a declared field for all blocks that take no more rows; false if there is no memory for one, or
/// nobody waits any more.
pub(crate) fn warm(
    view: &View,
    key: &str,
    kind: i32,
    budget: &Arc<Budget>,
    patience: &Patience<'_>,
) -> bool {
    // What was declared has been checked; an older file may hold others.
    let Some(path) = Path::parse(key) else {
        return true;
    };
    if !FieldType::try_from(kind).is_ok_and(can_index) {
        return true;
    }
    (0..view.blocks())
        .filter(|&number| view.is_closed(number))
        .all(|number| FieldIndex::of(view.block(number), &path, kind, budget, patience).is_some())
}

/// Drops the indexes of a field.
pub(crate) fn forget(view: &View, key: &str) {
    for number in 0..view.blocks() {
        let mut entries = view.block(number).indexes.0.write();
        entries.retain(|entry| entry.key != key);
    }
}
