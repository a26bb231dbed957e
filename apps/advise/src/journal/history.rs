//! The journal's entries put together by change.

use std::collections::BTreeMap;

use serde::Serialize;

use super::entry::{Entry, Event, Outcome, Planned};

/// All changes of a journal, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    records: BTreeMap<u64, Record>,
}

/// A change, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// Its number.
    pub number: u64,
    /// When it was about to be made, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The change.
    pub planned: Planned,
    /// How far it came.
    pub state: State,
    /// What it gained, by the last measurement.
    pub measured: Option<f64>,
}

/// How far a change came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// It may have been made, in part or in whole: whoever made it did not come to say.
    Begun,
    /// It was made.
    Done,
    /// The system refused it, and nothing of it is left.
    Failed(String),
    /// It was undone.
    RolledBack(Outcome),
}

impl History {
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let mut history = Self::default();
        entries.into_iter().for_each(|entry| history.add(entry));
        history
    }

    /// A later entry about a change that is not there says nothing.
    pub(super) fn add(&mut self, entry: Entry) {
        let mut set = |change: u64, state: State| {
            if let Some(record) = self.records.get_mut(&change) {
                record.state = state;
            }
        };
        match entry.event {
            Event::Change(planned) => {
                let record = Record {
                    number: entry.number,
                    unix_ms: entry.unix_ms,
                    planned,
                    state: State::Begun,
                    measured: None,
                };
                self.records.insert(entry.number, record);
            }
            Event::Done { change } => set(change, State::Done),
            Event::Failed { change, why } => set(change, State::Failed(why)),
            Event::RolledBack { changes, outcome } => {
                for change in changes {
                    set(change, State::RolledBack(outcome));
                }
            }
            Event::Measured { change, gain } => {
                if let Some(record) = self.records.get_mut(&change) {
                    record.measured = Some(gain);
                }
            }
        }
    }

    /// All changes.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// The change of this number.
    pub fn record(&self, number: u64) -> Option<&Record> {
        self.records.get(&number)
    }

    /// Those that are in force, or may be.
    pub fn open(&self) -> impl Iterator<Item = &Record> {
        let is_open = |record: &&Record| matches!(record.state, State::Begun | State::Done);
        self.records().filter(is_open)
    }
}
