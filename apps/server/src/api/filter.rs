//! Filters, from messages. What of them is not there is refused by name, never left out.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{self, FieldCondition};
use tonic::Status;

use super::message::{path, point_id};
use super::refusal::{self, invalid, quoted, unless_absent, unsupported};
use crate::collection::filter::{Check, Condition, Range, Test};
use crate::memory::InFlight;

/// Conditions of one filter: each is asked of every block of points.
const MOST_CONDITIONS: usize = 1_000;

/// A filter's condition, and what it takes of the server's memory in `memory`. A list of some hundred thousand values
/// takes milliseconds, so this is not for the network's threads.
pub(super) fn read(filter: qdrant::Filter, memory: &InFlight) -> Result<Condition, Status> {
    let mut reading = Reading {
        left: MOST_CONDITIONS,
        memory,
    };
    within(filter, &mut reading)
}

/// A filter that is being read.
struct Reading<'a> {
    /// Conditions that it may still have.
    left: usize,
    memory: &'a InFlight,
}

impl Reading<'_> {
    /// Takes what a condition takes.
    fn keep(&self, condition: Condition) -> Result<Condition, Status> {
        match self.memory.try_take(condition.bytes()) {
            true => Ok(condition),
            false => Err(refusal::no_memory(self.memory.limit())),
        }
    }
}

fn within(filter: qdrant::Filter, reading: &mut Reading<'_>) -> Result<Condition, Status> {
    unless_absent(&[(filter.min_should.is_some(), "min_should in filters")])?;
    let mut each = |conditions: Vec<qdrant::Condition>| -> Result<Vec<Condition>, Status> {
        conditions
            .into_iter()
            .map(|condition| one(condition, reading))
            .collect()
    };
    let mut all = each(filter.must)?;
    for condition in each(filter.must_not)? {
        all.push(Condition::Not(Box::new(condition)));
    }
    let should = each(filter.should)?;
    if !should.is_empty() {
        all.push(Condition::Any(should));
    }
    Ok(Condition::All(all))
}

fn one(condition: qdrant::Condition, reading: &mut Reading<'_>) -> Result<Condition, Status> {
    reading.left = reading.left.checked_sub(1).ok_or_else(|| {
        invalid(format!(
            "more than {MOST_CONDITIONS} conditions in a filter"
        ))
    })?;
    let condition = match condition.condition_one_of {
        Some(ConditionOneOf::Field(field)) => self::field(field),
        Some(ConditionOneOf::IsEmpty(empty)) => check(empty.key, Test::IsEmpty),
        Some(ConditionOneOf::IsNull(null)) => check(null.key, Test::IsNull),
        Some(ConditionOneOf::HasId(ids)) => {
            let ids = ids.has_id.into_iter().map(|id| point_id(Some(id)));
            Ok(Condition::HasId(ids.collect::<Result<_, _>>()?))
        }
        Some(ConditionOneOf::Filter(filter)) => return within(filter, reading),
        Some(ConditionOneOf::Nested(_)) => Err(unsupported("nested conditions in filters")),
        Some(ConditionOneOf::HasVector(_)) => Err(unsupported("has_vector in filters")),
        Some(ConditionOneOf::Slice(_)) => Err(unsupported("slices in filters")),
        None => Err(invalid("a condition of the filter is empty")),
    };
    reading.keep(condition?)
}

fn check(key: String, test: Test) -> Result<Condition, Status> {
    let path = path(&key)?;
    Ok(Condition::Field(Check { path, test }))
}

fn field(field: FieldCondition) -> Result<Condition, Status> {
    unless_absent(&[
        (
            field.geo_bounding_box.is_some()
                || field.geo_radius.is_some()
                || field.geo_polygon.is_some(),
            "geo conditions in filters",
        ),
        (field.values_count.is_some(), "values_count in filters"),
        (field.datetime_range.is_some(), "datetime ranges in filters"),
    ])?;
    let matched = field.r#match.map(matched).transpose()?;
    let range = field.range.map(|range| {
        Test::Range(Range {
            lt: range.lt,
            lte: range.lte,
            gt: range.gt,
            gte: range.gte,
        })
    });
    let tests = [
        matched.map(|test| (test, true)),
        range.map(|test| (test, true)),
        field.is_empty.map(|is| (Test::IsEmpty, is)),
        field.is_null.map(|is| (Test::IsNull, is)),
    ];
    let mut tests = tests.into_iter().flatten();
    let (Some((test, is)), None) = (tests.next(), tests.next()) else {
        return Err(invalid(format!(
            "the condition on {} has not exactly one of match, range, is_empty, is_null",
            quoted(&field.key)
        )));
    };
    let condition = check(field.key, test)?;
    Ok(match is {
        true => condition,
        false => Condition::Not(Box::new(condition)),
    })
}

fn matched(matched: qdrant::Match) -> Result<Test, Status> {
    match matched.match_value {
        Some(MatchValue::Keyword(text)) => Ok(Test::Keywords([text].into_iter().collect())),
        Some(MatchValue::Keywords(texts)) => {
            Ok(Test::Keywords(texts.strings.into_iter().collect()))
        }
        Some(MatchValue::ExceptKeywords(texts)) => {
            Ok(Test::OtherKeywords(texts.strings.into_iter().collect()))
        }
        Some(MatchValue::Integer(number)) => Ok(Test::Integers([number].into_iter().collect())),
        Some(MatchValue::Integers(numbers)) => {
            Ok(Test::Integers(numbers.integers.into_iter().collect()))
        }
        Some(MatchValue::ExceptIntegers(numbers)) => {
            Ok(Test::OtherIntegers(numbers.integers.into_iter().collect()))
        }
        Some(MatchValue::Boolean(flag)) => Ok(Test::Bool(flag)),
        Some(MatchValue::Text(_) | MatchValue::Phrase(_) | MatchValue::TextAny(_)) => {
            Err(unsupported("full-text matches in filters"))
        }
        Some(MatchValue::Prefix(_) | MatchValue::Substring(_)) => {
            Err(unsupported("matches of parts of a text in filters"))
        }
        None => Err(invalid("a match of the filter has no value")),
    }
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant::{Filter, IsNullCondition, MinShould, NestedCondition};
    use tonic::Code;

    use super::*;

    fn read(filter: Filter) -> Result<Condition, Status> {
        super::read(filter, &InFlight::default())
    }

    fn refused(condition: impl Into<qdrant::Condition>) -> (Code, String) {
        let status = read(Filter::must([condition.into()])).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn what_is_not_there_is_named() {
        let key = || FieldCondition {
            key: "a".into(),
            ..FieldCondition::default()
        };
        let geo = FieldCondition {
            geo_radius: Some(qdrant::GeoRadius::default()),
            ..key()
        };
        let count = FieldCondition {
            values_count: Some(qdrant::ValuesCount::default()),
            ..key()
        };
        for (condition, named) in [
            (refused(geo), "geo"),
            (refused(count), "values_count"),
            (refused(NestedCondition::default()), "nested"),
            (
                refused(qdrant::Condition::matches_text("a", "b")),
                "full-text",
            ),
        ] {
            assert_eq!(condition.0, Code::Unimplemented, "{named}");
            assert!(condition.1.contains(named), "{condition:?}");
        }
        let few = Filter {
            min_should: Some(MinShould::default()),
            ..Filter::default()
        };
        assert_eq!(read(few).unwrap_err().code(), Code::Unimplemented);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let both = FieldCondition {
            key: "a".into(),
            is_null: Some(true),
            is_empty: Some(true),
            ..FieldCondition::default()
        };
        let neither = FieldCondition::default();
        let bad_path = IsNullCondition { key: "a[".into() };
        for condition in [
            refused(both),
            refused(neither),
            refused(bad_path),
            refused(qdrant::Condition::default()),
        ] {
            assert_eq!(condition.0, Code::InvalidArgument, "{condition:?}");
        }
        let many = vec![qdrant::Condition::is_null("a"); MOST_CONDITIONS + 1];
        let status = read(Filter::should(many)).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
