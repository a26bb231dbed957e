//! Writes that depend on what is there: points chosen by a filter, payloads that are changed.
//!
//! They are worked out by the collection's writing thread when all writes before them are visible, into points as they
//! shall be, and stored as any other write. So they happen in their order, and what is read back at start needs no more
//! than points.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::collection::Collection;
use super::filter::Condition;
use super::path::Paths;
use super::payload;
use super::point::{Payload, Point, PointId, stored_bytes};
use super::rows::{Row, Stored, View};
use super::store::Change;
use super::writer::WriteError;

/// Which points.
#[derive(Debug)]
pub(crate) enum Selection {
    Ids(Vec<PointId>),
    Matching(Condition),
}

/// What happens to them.
#[derive(Debug)]
pub(crate) enum Action {
    Delete,
    /// These fields take the place of those of the same names; null takes one away.
    Set(Payload),
    /// These fields take the place of all.
    Overwrite(Payload),
    Remove(Paths),
    Clear,
}

#[derive(Debug)]
pub(crate) struct Alter {
    pub(crate) points: Selection,
    pub(crate) action: Action,
    /// How long a filter may take; nothing is changed by one that takes longer.
    pub(crate) patience: Duration,
    /// Payloads that may be changed at once.
    pub(crate) most: usize,
}

impl Alter {
    /// Memory that it takes while it waits.
    pub(super) fn bytes(&self) -> u64 {
        let points = match &self.points {
            Selection::Ids(ids) => size_of_val(ids.as_slice()) as u64,
            Selection::Matching(condition) => condition.bytes(),
        };
        let action = match &self.action {
            Action::Set(payload) | Action::Overwrite(payload) => payload.len() as u64,
            Action::Remove(paths) => paths.bytes(),
            Action::Delete | Action::Clear => 0,
        };
        points + action + size_of::<Self>() as u64
    }

    /// What it comes to; memory has been taken for the points in it. Nothing else may write meanwhile.
    pub(super) fn work_out(self, collection: &Collection) -> Result<Vec<Change>, WriteError> {
        let (view, rows) = match &self.points {
            Selection::Matching(condition) => {
                let end = Instant::now() + self.patience;
                let deleted = || collection.deleted.load(Ordering::Relaxed);
                let wanted = || !deleted() && Instant::now() < end;
                let (view, rows) = collection.filter(condition, &wanted);
                let Some(rows) = rows else {
                    return Err(match deleted() {
                        true => WriteError::Deleted,
                        false => WriteError::TooLong {
                            seconds: self.patience.as_secs(),
                        },
                    });
                };
                (view, rows.iter().collect::<Vec<Row>>())
            }
            Selection::Ids(ids) => {
                let (view, rows) = collection.with_rows(|view, all| {
                    let rows: Vec<_> = ids.iter().map(|id| all.get(id).copied()).collect();
                    (view, rows)
                });
                let changes = !matches!(self.action, Action::Delete);
                if changes && let Some(missing) = rows.iter().position(Option::is_none) {
                    return Err(WriteError::NoPoint { id: ids[missing] });
                }
                let mut seen = HashSet::new();
                let rows = rows.into_iter().flatten();
                (view, rows.filter(|&row| seen.insert(row)).collect())
            }
        };
        if let Action::Delete = self.action {
            let ids = rows.into_iter().map(|row| view.stored(row).id);
            return Ok(ids.map(Change::Delete).collect());
        }
        if rows.len() > self.most {
            return Err(WriteError::TooMany {
                points: rows.len(),
                most: self.most,
            });
        }
        self.changed(collection, &view, &rows)
    }

    fn changed(
        &self,
        collection: &Collection,
        view: &View,
        rows: &[Row],
    ) -> Result<Vec<Change>, WriteError> {
        let most = |row: &Row| {
            let (old, new) = (view.stored(*row).payload.len(), self.added());
            stored_bytes(view.dim, old + new)
        };
        let kept: u64 = rows.iter().map(most).sum();
        let budget = collection.budget();
        if !budget.try_take(kept) {
            let limit = budget.limit();
            return Err(WriteError::Memory { limit });
        }
        let changes: Result<Vec<Change>, WriteError> = rows
            .iter()
            .map(|&row| {
                let stored = view.stored(row);
                Ok(Change::Put(Point {
                    id: stored.id,
                    vector: stored.vector.to_vec(),
                    payload: self.payload(&stored)?,
                }))
            })
            .collect();
        // It was an estimate, and never too small.
        let used = changes.as_deref().map_or(0, super::writer::put_bytes);
        budget.give_back(kept.saturating_sub(used));
        changes
    }

    /// By how much a payload may grow.
    fn added(&self) -> usize {
        match &self.action {
            Action::Set(payload) | Action::Overwrite(payload) => payload.len(),
            Action::Delete | Action::Remove(_) | Action::Clear => 0,
        }
    }

    fn payload(&self, stored: &Stored<'_>) -> Result<Payload, WriteError> {
        let old = stored.payload;
        match &self.action {
            Action::Delete | Action::Clear => Some(Payload::default()),
            Action::Overwrite(new) => Some(Payload::clone(new)),
            Action::Set(new) => payload::merged(old, new),
            Action::Remove(paths) => payload::without(old, paths),
        }
        .ok_or(WriteError::BadPayload { id: stored.id })
    }
}
