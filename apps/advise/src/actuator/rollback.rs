//! Changes taken back.
//!
//! Of each group all changes that are in force, or may be, are undone together: each file gets what it held before the
//! first of them. That is right whether the last of them was made, made in part or not begun, and right again after a
//! rollback that was killed: a file that is as it was stays as it is. Then one entry closes the changes of the group.
//!
//! A group in which processes run cannot get an empty set back; it gets all cpus, which means the same (`files.rs`).
//!
//! A file that holds what neither the journal has written nor found there was set by somebody else, and is left alone.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::apply::Actuator;
use super::error::ApplyError;
use super::files::{Files, differ, same, view};
use crate::group::GroupPath;
use crate::journal::{CpusetFile, Event, History, Journal, Outcome, Record};

/// Which changes are taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of one group.
    Group(GroupPath),
}

/// What became of one group.
#[derive(Debug)]
#[non_exhaustive]
pub struct Restoration {
    /// The group.
    pub group: GroupPath,
    /// The changes, by their numbers.
    pub changes: Vec<u64>,
    /// What became of them; `Err` if they are still in force.
    pub result: Result<Restored, ApplyError>,
}

/// What was done to undo a group's changes, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restored {
    /// These files were written.
    Files(Vec<CpusetFile>),
    /// The group is gone.
    Gone,
    /// Another group has its name now.
    Replaced,
    /// Somebody else has set this file since, so nothing was changed. The changes stay open; with
    /// [`Actuator::rollback_over`] they are undone all the same.
    SetByOthers {
        /// The file.
        file: CpusetFile,
        /// What it holds.
        holds: String,
    },
}

impl Actuator {
    /// Takes changes back, the latest group first. A dry one tells what it would do. One group that fails keeps no
    /// other from being restored.
    ///
    /// # Errors
    /// [`ApplyError::NotNoted`] if the journal cannot be written: groups are restored all the same, and the next
    /// rollback finds them so.
    pub fn rollback(
        &self,
        journal: &mut Journal,
        which: &Which,
        at: SystemTime,
    ) -> Result<Vec<Restoration>, ApplyError> {
        self.take_back(journal, which, at, false)
    }

    /// The same, also where somebody else has set a file since.
    ///
    /// # Errors
    /// As [`Actuator::rollback`].
    pub fn rollback_over(
        &self,
        journal: &mut Journal,
        which: &Which,
        at: SystemTime,
    ) -> Result<Vec<Restoration>, ApplyError> {
        self.take_back(journal, which, at, true)
    }

    fn take_back(
        &self,
        journal: &mut Journal,
        which: &Which,
        at: SystemTime,
        over_others: bool,
    ) -> Result<Vec<Restoration>, ApplyError> {
        let (mut restorations, mut failed) = (Vec::new(), None);
        let here = view(&self.tree);
        let is_here = |record: &Record| over_others || !differ(&record.planned.view, &here);
        for (group, records) in open_by_group(journal.history(), which) {
            // What was made where the name means another group stays open, and keeps nothing of here from being undone.
            let (ours, theirs): (Vec<_>, Vec<_>) = records.into_iter().partition(is_here);
            let records = if ours.is_empty() { &theirs } else { &ours };
            let changes: Vec<u64> = records.iter().map(|record| record.number).collect();
            let result = match ours.is_empty() {
                true => Err(ApplyError::OtherView {
                    group: group.clone(),
                }),
                false => self.restore(&group, &ours, over_others),
            };
            let outcome = match &result {
                Ok(Restored::Files(_)) => Some(Outcome::Restored),
                Ok(Restored::Gone) => Some(Outcome::Gone),
                Ok(Restored::Replaced) => Some(Outcome::Replaced),
                Ok(Restored::SetByOthers { .. }) | Err(_) => None,
            };
            if let Some(outcome) = outcome.filter(|_| !self.is_dry) {
                let changes = changes.clone();
                // A disk that is full keeps no group from being restored.
                if let Err(error) = journal.append(Event::RolledBack { changes, outcome }, at) {
                    failed.get_or_insert(error);
                }
            }
            restorations.push(Restoration {
                group,
                changes,
                result,
            });
        }
        match failed {
            None => Ok(restorations),
            Some(source) => Err(ApplyError::NotNoted { source }),
        }
    }

    /// Restores one group's files.
    fn restore(
        &self,
        group: &GroupPath,
        records: &[Record],
        over_others: bool,
    ) -> Result<Restored, ApplyError> {
        self.may_change(group)?;
        let Some(files) = Files::of(&self.tree, group) else {
            return Ok(Restored::Gone);
        };
        let birth = files.birth();
        // A group that was made anew has only what came after.
        let ours: Vec<&Record> = (records.iter())
            .filter(|record| record.planned.birth == birth)
            .collect();
        if ours.is_empty() {
            return Ok(Restored::Replaced);
        }
        let mut known: BTreeMap<CpusetFile, Vec<&str>> = BTreeMap::new();
        for write in ours.iter().flat_map(|record| &record.planned.writes) {
            let texts = known.entry(write.file).or_default();
            texts.extend([write.was.as_str(), write.text.as_str()]);
        }
        let mut due = Vec::new();
        for (&file, texts) in &known {
            let (holds, was) = (files.read(file)?, texts[0]);
            if files.is_back(file, was, &holds) {
                continue;
            }
            let is_torn = holds.is_empty();
            if !over_others && !is_torn && !texts.iter().any(|text| same(text, &holds)) {
                return Ok(Restored::SetByOthers { file, holds });
            }
            files.may_write(file)?;
            due.push((file, was));
        }
        for (file, was) in due.iter().rev().filter(|_| !self.is_dry) {
            files.write(*file, was).map_err(|source| ApplyError::Io {
                path: files.path(*file),
                source,
            })?;
        }
        Ok(Restored::Files(due.iter().map(|(file, _)| *file).collect()))
    }
}

/// The open changes of each group, in the order in which they were made; the group that was changed last comes first.
fn open_by_group(history: &History, which: &Which) -> Vec<(GroupPath, Vec<Record>)> {
    let mut groups: BTreeMap<GroupPath, Vec<Record>> = BTreeMap::new();
    for record in history.open() {
        groups
            .entry(record.planned.group.clone())
            .or_default()
            .push(record.clone());
    }
    let is_meant = |group: &GroupPath| match which {
        Which::All => true,
        Which::Group(meant) => group == meant,
    };
    groups.retain(|group, _| is_meant(group));
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, records)| std::cmp::Reverse(records.last().map(|last| last.number)));
    groups
}
