//! The part of a `[[tables]]` entry that says who asks, and on which terms.

use std::ops::Range;

use chiplet_table::Class;
use serde::Deserialize;

use super::error::RecipeError;
use super::{Arrivals, Ask, Stall, Stalled, Tenant};

/// Clients and bursts of one entry, at most: each query under way takes memory.
const MOST_OUTSTANDING: u32 = 1_000_000;

/// What is said of an entry besides its tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms {
    pub(super) name: Option<String>,
    pub(super) weight: Option<f32>,
    pub(super) queue_limit: Option<usize>,
    pub(super) home: Option<usize>,
    pub(super) class: Option<Urgency>,
    pub(super) deadline_ms: Option<f64>,
    pub(super) stalls: Vec<StallEntry>,
    pub(super) asks: Vec<AskEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Urgency {
    Interactive,
    Bulk,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StallEntry {
    ms: f64,
    at: Option<f64>,
    tasks: Option<u32>,
    chance: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskEntry {
    rate: Option<f64>,
    outstanding: Option<u32>,
    burst: Option<u32>,
    every: Option<f64>,
    class: Option<Urgency>,
    deadline_ms: Option<f64>,
    #[serde(default)]
    from: f64,
    until: Option<f64>,
    work: Option<f64>,
}

fn wrong(
    what: &'static str,
    value: impl ToString,
    accepted: &'static str,
) -> Result<(), RecipeError> {
    Err(RecipeError::Value {
        what,
        value: value.to_string(),
        accepted,
    })
}

/// A time that is given in seconds or milliseconds, from 0 or from more than 0.
fn time(what: &'static str, value: Option<f64>, positive: bool) -> Result<(), RecipeError> {
    match value {
        Some(value) if positive && !(value > 0.0 && value <= 1e7) => {
            wrong(what, value, "a number above 0, up to 10000000")
        }
        Some(value) if !(0.0..=1e7).contains(&value) => {
            wrong(what, value, "a number from 0 to 10000000")
        }
        _ => Ok(()),
    }
}

impl Terms {
    /// Whether it says nothing that a run has to know.
    pub(super) fn is_plain(&self) -> bool {
        let named = Self {
            name: self.name.clone(),
            ..Self::default()
        };
        *self == named
    }

    pub(super) fn check(&self, of_tasks: bool) -> Result<(), RecipeError> {
        if let Some(weight) = self.weight
            && !(0.01..=100.0).contains(&weight)
        {
            return wrong("weight", weight, "a number from 0.01 to 100");
        }
        if self.queue_limit == Some(0) {
            return wrong("queue_limit", 0, "at least 1");
        }
        time("deadline_ms", self.deadline_ms, true)?;
        self.stalls.iter().try_for_each(StallEntry::check)?;
        let mut asks = self.asks.iter();
        asks.try_for_each(|ask| ask.check(of_tasks))
    }

    /// The tenant of these tables, which is number `at` of the workload's.
    pub(super) fn tenant(&self, at: usize, tables: Range<usize>) -> Tenant {
        let ask = |arrivals, entry: Option<&AskEntry>| Ask {
            arrivals,
            class: match entry.and_then(|entry| entry.class).or(self.class) {
                Some(Urgency::Bulk) => Class::Bulk,
                Some(Urgency::Interactive) | None => Class::Interactive,
            },
            deadline_ms: entry
                .and_then(|entry| entry.deadline_ms)
                .or(self.deadline_ms),
            from: entry.map_or(0.0, |entry| entry.from),
            until: entry.and_then(|entry| entry.until),
            work: entry.and_then(|entry| entry.work).unwrap_or(1.0),
        };
        let asks = match &*self.asks {
            [] => vec![ask(Arrivals::Shared, None)],
            asks => {
                let asks = asks.iter();
                asks.map(|entry| ask(entry.arrivals(), Some(entry)))
                    .collect()
            }
        };
        let name = self.name.clone();
        Tenant {
            name: name.unwrap_or_else(|| format!("tables {}", at + 1)),
            tables,
            weight: self.weight.unwrap_or(1.0),
            queue_limit: self.queue_limit,
            home: self.home,
            stalls: self.stalls.iter().map(StallEntry::stall).collect(),
            asks,
        }
    }
}

impl StallEntry {
    fn check(&self) -> Result<(), RecipeError> {
        time("ms of a stall", Some(self.ms), true)?;
        time("at of a stall", self.at, false)?;
        match (self.at, self.chance) {
            (Some(_), None) if self.tasks != Some(0) => Ok(()),
            (None, Some(chance)) if self.tasks.is_none() && (0.0..=1.0).contains(&chance) => Ok(()),
            _ => wrong(
                "a stall",
                format!("{self:?}"),
                "either `at` (seconds; `tasks` says how many tasks it meets) or `chance` (from 0 to 1)",
            ),
        }
    }

    fn stall(&self) -> Stall {
        Stall {
            ms: self.ms,
            of: match self.chance {
                Some(chance) => Stalled::Chance(chance),
                None => Stalled::At {
                    seconds: self.at.unwrap_or_default(),
                    tasks: self.tasks.unwrap_or(1),
                },
            },
        }
    }
}

impl AskEntry {
    fn check(&self, of_tasks: bool) -> Result<(), RecipeError> {
        time("deadline_ms", self.deadline_ms, true)?;
        time("from", Some(self.from), false)?;
        time("until", self.until, false)?;
        time("every", self.every, true)?;
        if let Some(rate) = self.rate
            && !(rate > 0.0 && rate <= 1e9)
        {
            return wrong("rate", rate, "queries a second, above 0");
        }
        for (what, count) in [("outstanding", self.outstanding), ("burst", self.burst)] {
            if let Some(count) = count
                && !(1..=MOST_OUTSTANDING).contains(&count)
            {
                return wrong(what, count, "1 to 1000000");
            }
        }
        if let Some(work) = self.work
            && !(of_tasks && work > 0.0 && work <= 1e6)
        {
            return wrong(
                "work",
                work,
                "a factor above 0, to tables of the kind task alone",
            );
        }
        let ways = [
            self.rate.is_some(),
            self.outstanding.is_some(),
            self.burst.is_some(),
        ];
        if ways.into_iter().filter(|&given| given).count() != 1 {
            return wrong(
                "an entry of asks",
                format!("{self:?}"),
                "one of `rate`, `outstanding` and `burst`",
            );
        }
        if self.every.is_some() && self.burst.is_none() {
            return wrong("every", "without a burst", "it beside `burst` alone");
        }
        Ok(())
    }

    fn arrivals(&self) -> Arrivals {
        match (self.rate, self.outstanding, self.burst) {
            (Some(rate), ..) => Arrivals::Rate(rate),
            (_, Some(queries), _) => Arrivals::Outstanding(queries),
            (.., burst) => Arrivals::Burst {
                queries: burst.unwrap_or_default(),
                every: self.every,
            },
        }
    }
}
