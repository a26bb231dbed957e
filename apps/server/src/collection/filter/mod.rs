//! Filters: which points satisfy conditions on their ids and payloads.
//!
//! A view is filtered block by block. First each condition says of a block's rows which satisfy it for sure and which
//! may: a condition with a payload index knows, any other does not. What is still undecided when the conditions are put
//! together is decided row by row, by the payload. So a filter takes memory for one block, whatever its conditions, and
//! what indexes decide is not looked at.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use qdrant_client::qdrant::Value;
use qdrant_client::qdrant::value::Kind;

use super::field_index::{Declared, FieldIndex};
use super::path::Path;
use super::payload::{self, Fields};
use super::point::PointId;
use super::rows::{Block, Row, View};
use crate::memory::Budget;

/// Values that clients list. Hashed with a key of this process: whoever chooses the values cannot choose which of them
/// collide.
pub(crate) type Listed<T> = HashSet<T>;

/// Ids of a condition that are looked up one by one, while no write becomes visible. More of them are compared with
/// each point's id instead.
const MOST_LOOKED_UP: usize = 10_000;

/// A condition, or several.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// Every one of these.
    All(Vec<Self>),
    /// At least one of these.
    Any(Vec<Self>),
    Not(Box<Self>),
    /// The point has one of these ids.
    HasId(Vec<PointId>),
    Field(Check),
}

/// A test of what is in one place of a payload.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) path: Path,
    pub(crate) test: Test,
}

/// What is to be so. Of a list one element is enough.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Keywords(Listed<String>),
    Integers(Listed<i64>),
    /// Anything but null that is none of these.
    OtherKeywords(Listed<String>),
    OtherIntegers(Listed<i64>),
    Bool(bool),
    Range(Range),
    /// Missing, null or an empty list.
    IsEmpty,
    /// Null, or a list with null in it.
    IsNull,
}

/// Bounds of a number; those that are not given do not bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) lt: Option<f64>,
    pub(crate) lte: Option<f64>,
    pub(crate) gt: Option<f64>,
    pub(crate) gte: Option<f64>,
}

impl Range {
    pub(crate) fn holds(&self, x: f64) -> bool {
        self.lt.is_none_or(|bound| x < bound)
            && self.lte.is_none_or(|bound| x <= bound)
            && self.gt.is_none_or(|bound| x > bound)
            && self.gte.is_none_or(|bound| x >= bound)
    }

    /// The integers that it holds for. Of those beyond 2^53 not each is a double, so they are not made doubles.
    pub(crate) fn integers(&self) -> RangeInclusive<i128> {
        // What is beyond the largest integer is as good as that.
        let (below, above) = (|x: f64| x.floor() as i128, |x: f64| x.ceil() as i128);
        let least = [
            self.gt.map(|bound| below(bound).saturating_add(1)),
            self.gte.map(above),
        ];
        let most = [
            self.lt.map(|bound| above(bound).saturating_sub(1)),
            self.lte.map(below),
        ];
        let bounds = [self.lt, self.lte, self.gt, self.gte];
        match bounds.into_iter().flatten().any(f64::is_nan) {
            // Nothing is in it.
            true => RangeInclusive::new(1, 0),
            false => {
                let from = least.into_iter().flatten().max().unwrap_or(i128::MIN);
                let to = most.into_iter().flatten().min().unwrap_or(i128::MAX);
                from..=to
            }
        }
    }
}

impl Check {
    fn holds(&self, fields: &Fields, patience: &Patience<'_>) -> bool {
        let values = self.path.values(fields, |steps| patience.step(steps));
        match &self.test {
            Test::IsEmpty => values.into_iter().all(payload::is_nothing),
            Test::IsNull => values.into_iter().any(payload::has_null),
            test => values.into_iter().flat_map(payload::elements).any(|value| {
                patience.step(1);
                test.holds(value)
            }),
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        match (self, &value.kind) {
            (Self::Keywords(any), Some(Kind::StringValue(text))) => any.contains(text),
            // As the API has it, what is of another type is none of these either; null and what is missing is nothing.
            (Self::OtherKeywords(_) | Self::OtherIntegers(_), None | Some(Kind::NullValue(_))) => {
                false
            }
            (Self::OtherKeywords(none), Some(Kind::StringValue(text))) => !none.contains(text),
            (Self::Integers(any), Some(Kind::IntegerValue(number))) => any.contains(number),
            (Self::OtherIntegers(none), Some(Kind::IntegerValue(number))) => !none.contains(number),
            (Self::OtherKeywords(_) | Self::OtherIntegers(_), _) => true,
            (Self::Bool(wanted), Some(Kind::BoolValue(flag))) => wanted == flag,
            (Self::Range(range), Some(Kind::IntegerValue(number))) => {
                range.integers().contains(&i128::from(*number))
            }
            (Self::Range(range), Some(Kind::DoubleValue(number))) => range.holds(*number),
            _ => false,
        }
    }
}

/// Rows of one block, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set(Vec<u64>);

impl Set {
    fn none(rows: usize) -> Self {
        Self(vec![0; rows.div_ceil(64)])
    }

    fn all(rows: usize) -> Self {
        let mut set = Self(vec![u64::MAX; rows.div_ceil(64)]);
        if let Some(last) = set.0.last_mut()
            && !rows.is_multiple_of(64)
        {
            *last = (1 << (rows % 64)) - 1;
        }
        set
    }

    pub(super) fn of(rows: usize, positions: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::none(rows);
        positions
            .into_iter()
            .for_each(|position| set.insert(position));
        set
    }

    fn insert(&mut self, position: u32) {
        self.0[position as usize / 64] |= 1 << (position % 64);
    }

    fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
        self
    }

    fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        self
    }

    fn without(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.0).flat_map(|(number, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| number * 64 + bit)
        })
    }
}

/// Rows that satisfy a condition for sure, and those that may; the second has all of the first.
struct Verdict {
    sure: Set,
    maybe: Set,
}

impl Verdict {
    fn known(set: Set) -> Self {
        Self {
            maybe: set.clone(),
            sure: set,
        }
    }
}

/// A condition whose ids are rows of a view.
enum Node<'a> {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    /// Ascending.
    Rows(Vec<Row>),
    Ids(HashSet<PointId>),
    /// A check, and the payload index that may know.
    Field(&'a Check, Option<i32>),
}

/// What a filter is evaluated with.
pub(crate) struct Scope<'a> {
    pub(crate) view: &'a View,
    pub(crate) declared: &'a Declared,
    pub(crate) budget: &'a Arc<Budget>,
}

/// Rows that a filter lets through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Bit `row % 64` of word `row / 64`.
    words: Vec<u64>,
    count: usize,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn into_words(self) -> Vec<u64> {
        self.words
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        (0..)
            .zip(&self.words)
            .flat_map(|(number, &word): (Row, _)| {
                (0..64)
                    .filter(move |bit| word >> bit & 1 == 1)
                    .map(move |bit| number * 64 + bit)
            })
    }

    fn insert(&mut self, row: Row) {
        self.words[row as usize / 64] |= 1 << (row % 64);
        self.count += 1;
    }
}

/// Steps between two looks at whether the filter is still wanted: some ten microseconds.
const AT_ONCE: u64 = 1_024;

/// How far a filter has got, and whether anybody still waits for it.
pub(crate) struct Patience<'a> {
    wanted: &'a dyn Fn() -> bool,
    steps: Cell<u64>,
    /// When to look again.
    next: Cell<u64>,
    over: Cell<bool>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(wanted: &'a dyn Fn() -> bool) -> Self {
        Self {
            wanted,
            steps: Cell::new(0),
            next: Cell::new(0),
            over: Cell::new(false),
        }
    }

    pub(super) fn step(&self, more: usize) {
        self.steps.set(self.steps.get() + more as u64);
    }

    /// Whether nobody waits any more.
    pub(super) fn is_over(&self) -> bool {
        let steps = self.steps.get();
        if steps >= self.next.get() {
            self.next.set(steps + AT_ONCE);
            self.over.set(self.over.get() || !(self.wanted)());
        }
        self.over.get()
    }
}

impl Condition {
    /// How many ids it names.
    fn count_ids(&self) -> usize {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().map(Self::count_ids).sum(),
            Self::Not(inner) => inner.count_ids(),
            Self::HasId(ids) => ids.len(),
            Self::Field(_) => 0,
        }
    }

    /// The ids that are to be looked up: all that it names, or none if they are too many.
    pub(crate) fn looked_up(&self) -> Vec<PointId> {
        match self.count_ids() {
            0..=MOST_LOOKED_UP => self.ids(),
            _ => Vec::new(),
        }
    }

    fn ids(&self) -> Vec<PointId> {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().flat_map(Self::ids).collect(),
            Self::Not(inner) => inner.ids(),
            Self::HasId(ids) => ids.clone(),
            Self::Field(_) => Vec::new(),
        }
    }

    /// Memory that it takes, about.
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of::<Self>();
        let more: u64 = match self {
            Self::All(all) | Self::Any(all) => all.iter().map(Self::bytes).sum(),
            Self::Not(inner) => inner.bytes(),
            Self::HasId(ids) => size_of_val(ids.as_slice()) as u64,
            // A hash table is up to an eighth full to seven eighths; each text is an allocation.
            Self::Field(check) => {
                let listed = match &check.test {
                    Test::Keywords(texts) | Test::OtherKeywords(texts) => {
                        texts.iter().map(|text| 80 + text.len() as u64).sum()
                    }
                    Test::Integers(numbers) | Test::OtherIntegers(numbers) => {
                        32 * numbers.len() as u64
                    }
                    _ => 0,
                };
                listed + check.path.bytes()
            }
        };
        own as u64 + more
    }

    /// The live rows of a view that satisfy it. `find` names the row of an id that is `looked_up`. `None` if
    /// nobody waits any more.
    pub(crate) fn rows(
        &self,
        place: &Scope<'_>,
        find: &dyn Fn(PointId) -> Option<Row>,
        patience: &Patience<'_>,
    ) -> Option<Rows> {
        let view = place.view;
        let by_row = self.count_ids() <= MOST_LOOKED_UP;
        let node = self.resolve(place.declared, by_row.then_some(find));
        let mut found = Rows {
            words: vec![0; (view.end() as usize).div_ceil(64)],
            count: 0,
        };
        for number in 0..view.blocks() {
            if patience.is_over() {
                return None;
            }
            let (block, first) = (view.block(number), view.first_row(number));
            let live = Set::of(
                block.len(),
                (0..block.len() as u32).filter(|&position| !view.dead.contains(first + position)),
            );
            let look = Look {
                block,
                first,
                budget: view.is_closed(number).then_some(place.budget),
            };
            let Verdict { sure, maybe } = node.judge(&look, patience);
            let undecided = maybe.without(&sure).and(&live);
            for position in sure.and(&live).positions() {
                found.insert(first + position);
            }
            for position in undecided.positions() {
                let payload = &block.payloads[position as usize];
                patience.step(1 + payload.len() / 64);
                // A payload that cannot be decoded satisfies nothing; an answer with it says so.
                let fields = payload::open(payload).unwrap_or_default();
                let row = Candidate {
                    row: first + position,
                    id: block.ids[position as usize],
                    fields: &fields,
                };
                if node.holds(&row, patience) {
                    found.insert(first + position);
                }
                if patience.is_over() {
                    return None;
                }
            }
        }
        // What was left out when it was over may have been let through by a `must_not`.
        (!patience.over.get()).then_some(found)
    }

    fn resolve<'a>(
        &'a self,
        declared: &Declared,
        find: Option<&dyn Fn(PointId) -> Option<Row>>,
    ) -> Node<'a> {
        let each = |all: &'a [Self]| -> Vec<Node<'a>> {
            all.iter().map(|one| one.resolve(declared, find)).collect()
        };
        match self {
            Self::All(all) => Node::All(each(all)),
            Self::Any(all) => Node::Any(each(all)),
            Self::Not(inner) => Node::Not(Box::new(inner.resolve(declared, find))),
            Self::HasId(ids) => match find {
                Some(find) => {
                    let mut rows: Vec<Row> = ids.iter().filter_map(|&id| find(id)).collect();
                    rows.sort_unstable();
                    Node::Rows(rows)
                }
                None => Node::Ids(ids.iter().copied().collect()),
            },
            Self::Field(check) => Node::Field(check, declared.get(check.path.text()).copied()),
        }
    }
}

/// A block that conditions are asked about.
struct Look<'a> {
    block: &'a Block,
    first: Row,
    /// The memory of payload indexes, if the block may have some.
    budget: Option<&'a Arc<Budget>>,
}

/// A row that no index decides.
struct Candidate<'a> {
    row: Row,
    id: PointId,
    fields: &'a Fields,
}

impl Node<'_> {
    fn judge(&self, look: &Look<'_>, patience: &Patience<'_>) -> Verdict {
        let rows = look.block.len();
        patience.step(1 + rows / 64);
        if patience.is_over() {
            return Verdict::known(Set::none(rows));
        }
        match self {
            Self::All(all) => {
                let mut verdict = Verdict::known(Set::all(rows));
                for node in all {
                    let one = node.judge(look, patience);
                    verdict.sure = verdict.sure.and(&one.sure);
                    verdict.maybe = verdict.maybe.and(&one.maybe);
                }
                verdict
            }
            Self::Any(all) => {
                let mut verdict = Verdict::known(Set::none(rows));
                for node in all {
                    let one = node.judge(look, patience);
                    verdict.sure = verdict.sure.or(&one.sure);
                    verdict.maybe = verdict.maybe.or(&one.maybe);
                }
                verdict
            }
            Self::Not(inner) => {
                let one = inner.judge(look, patience);
                Verdict {
                    sure: Set::all(rows).without(&one.maybe),
                    maybe: Set::all(rows).without(&one.sure),
                }
            }
            Self::Rows(all) => {
                let from = all.partition_point(|&row| row < look.first);
                let here = all[from..]
                    .iter()
                    .take_while(|&&row| row - look.first < rows as Row)
                    .map(|&row| row - look.first);
                Verdict::known(Set::of(rows, here))
            }
            Self::Ids(ids) => {
                patience.step(rows);
                let here = (0..).zip(&look.block.ids);
                let here = here.filter(|(_, id)| ids.contains(id));
                Verdict::known(Set::of(rows, here.map(|(position, _)| position)))
            }
            Self::Field(check, kind) => {
                let known = kind
                    .zip(look.budget)
                    .and_then(|(kind, budget)| {
                        FieldIndex::of(look.block, &check.path, kind, budget, patience)
                    })
                    .and_then(|index| index.answer(&check.test, rows, patience));
                match known {
                    Some(set) => Verdict::known(set),
                    None => Verdict {
                        sure: Set::none(rows),
                        maybe: Set::all(rows),
                    },
                }
            }
        }
    }

    fn holds(&self, row: &Candidate<'_>, patience: &Patience<'_>) -> bool {
        if patience.is_over() {
            return false;
        }
        match self {
            Self::All(all) => all.iter().all(|node| node.holds(row, patience)),
            Self::Any(all) => all.iter().any(|node| node.holds(row, patience)),
            Self::Not(inner) => !inner.holds(row, patience),
            Self::Rows(rows) => rows.binary_search(&row.row).is_ok(),
            Self::Ids(ids) => ids.contains(&row.id),
            Self::Field(check, _) => check.holds(row.fields, patience),
        }
    }
}

#[cfg(test)]
mod tests;
