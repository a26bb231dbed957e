//! Writes: queued per collection, stored in groups, then made visible, then acknowledged, in that order.
//!
//! A commit waits for the disk, so all writes that came meanwhile share the next one. At most one thread per collection
//! writes: the first write to an idle queue starts it, and it ends when the queue is empty. The queue is bounded by the
//! bytes it holds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::alter::Alter;
use super::builder::Builder;
use super::collection::Collection;
use super::point::PointId;
use super::store::{Change, StoreError};

/// Bytes stored in one transaction, so that one giant group does not keep those behind it waiting.
const GROUP_BYTES: u64 = 16 << 20;

/// Why a write did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{waiting} bytes of writes wait already, {limit} may; retry when they are stored")]
    QueueFull { waiting: u64, limit: u64 },
    #[error(
        "points and indexes would take more than the memory limit of {limit} bytes; delete points, or raise limits.memory_bytes"
    )]
    Memory { limit: u64 },
    #[error("point {id} has {got} components, the collection's have {want}")]
    Dimension {
        id: PointId,
        got: usize,
        want: usize,
    },
    #[error("there is no point {id} in the collection; nothing was changed")]
    NoPoint { id: PointId },
    #[error(
        "the filter selects {points} points, and payloads of at most {most} may be changed at once (limits.upsert_points); narrow it"
    )]
    TooMany { points: usize, most: usize },
    #[error("the payload of point {id} cannot be decoded; nothing was changed")]
    BadPayload { id: PointId },
    #[error(
        "the write's filter was not worked out within {seconds} seconds (limits.query_seconds); nothing was changed; narrow it, or index its fields"
    )]
    TooLong { seconds: u64 },
    #[error("the collection was deleted")]
    Deleted,
    #[error(
        "an earlier write of this collection panicked, the server's log says where; restart the server to write again"
    )]
    Broken,
    #[error("{0}")]
    Store(Arc<StoreError>),
}

/// The number of the write, once it is on disk and visible.
pub(crate) type Written = oneshot::Receiver<Result<u64, WriteError>>;

#[derive(Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    groups: Vec<Group>,
    /// Those that are being stored.
    in_hand: Vec<(Done, usize)>,
    bytes: u64,
    /// Whether a thread is at it.
    served: bool,
    /// Whether a write has panicked: what is in memory may not be what is on disk.
    broken: bool,
}

/// What a write asks for.
#[derive(Debug)]
pub(crate) enum Work {
    Changes(Vec<Change>),
    /// What depends on what is there.
    Alter(Alter),
}

impl From<Vec<Change>> for Work {
    fn from(changes: Vec<Change>) -> Self {
        Self::Changes(changes)
    }
}

impl Work {
    fn bytes(&self) -> u64 {
        match self {
            Self::Changes(changes) => changes.iter().map(bytes).sum(),
            Self::Alter(alter) => alter.bytes(),
        }
    }

    /// Points that it puts or deletes, as far as that is known yet.
    fn points(&self) -> usize {
        let is_point = |change: &&Change| matches!(change, Change::Put(_) | Change::Delete(_));
        match self {
            Self::Changes(changes) => changes.iter().filter(is_point).count(),
            Self::Alter(_) => 0,
        }
    }

    /// Memory of the points that it brings along, or of what it waits with.
    fn kept(&self) -> u64 {
        match self {
            Self::Changes(changes) => put_bytes(changes),
            Self::Alter(alter) => alter.bytes(),
        }
    }
}

struct Group {
    work: Work,
    bytes: u64,
    /// What it has taken of the memory's budget.
    kept: u64,
    /// Whether somebody wants to hear how it ends.
    watched: bool,
    done: Done,
}

/// Where a write's end is told to whoever waits for it.
#[derive(Clone)]
struct Done(Arc<Mutex<Option<Sender>>>);

type Sender = oneshot::Sender<Result<u64, WriteError>>;

impl Done {
    fn new() -> (Self, Written) {
        let (sender, written) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), written)
    }

    fn send(&self, result: Result<u64, WriteError>) -> Result<(), Result<u64, WriteError>> {
        match self.0.lock().take() {
            Some(sender) => sender.send(result),
            None => Err(result),
        }
    }

    /// Whether the client has been answered, though the write has not ended.
    fn is_acknowledged(&self) -> bool {
        self.0.lock().as_ref().is_some_and(Sender::is_closed)
    }
}

/// Writes that clients take for stored, and that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unstored {
    pub(crate) writes: u64,
    /// Points that they put or delete, as far as that is known before.
    pub(crate) points: u64,
}

impl Queue {
    /// Writes that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().groups.len()
    }

    /// What was acknowledged and is not stored yet.
    pub(crate) fn unstored(&self) -> Unstored {
        let waiting = self.0.lock();
        let queued = waiting.groups.iter();
        let queued = queued.map(|group| (&group.done, group.work.points()));
        let in_hand = waiting.in_hand.iter().map(|(done, points)| (done, *points));
        let mut unstored = Unstored::default();
        for (_, points) in queued
            .chain(in_hand)
            .filter(|(done, _)| done.is_acknowledged())
        {
            unstored.writes += 1;
            unstored.points += points as u64;
        }
        unstored
    }

    /// Whether everything that was queued is stored, or has failed.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.0.lock();
        waiting.groups.is_empty() && !waiting.served
    }
}

/// Memory that a change takes while it waits and, if it is a point, afterwards.
fn bytes(change: &Change) -> u64 {
    match change {
        Change::Put(point) => point.bytes(),
        Change::Delete(_) => 32,
        Change::Field(name, _) | Change::ForgetField(name) => 64 + name.len() as u64,
        Change::Thresholds { .. } => 32,
    }
}

impl Collection {
    /// Queues a write, on a thread of `runtime` if none is at it. All of it happens or nothing. If it fails and nobody
    /// is told (`watched` is false), that is logged and counted.
    ///
    /// # Errors
    /// Over a bound, or a point of another dimension: nothing is queued then.
    pub(crate) fn write(
        self: &Arc<Self>,
        work: impl Into<Work>,
        watched: bool,
        queue_bytes: u64,
        builder: &Arc<Builder>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Written, WriteError> {
        if self.deleted.load(Ordering::Relaxed) {
            return Err(WriteError::Deleted);
        }
        let work = work.into();
        if let Work::Changes(changes) = &work {
            check_dimensions(changes, self.with_settings(|settings| settings.dim))?;
        }
        let (weight, kept) = (work.bytes(), work.kept());
        if !self.budget().try_take(kept) {
            // A build forgets what is overwritten or deleted.
            let view = self.view();
            if view.dead.len() > 0 && self.build.may_try(view.live, view.dead.len()) {
                builder.request(self);
            }
            let limit = self.budget().limit();
            return Err(WriteError::Memory { limit });
        }
        let (done, written) = Done::new();
        let mut waiting = self.writes.0.lock();
        if waiting.broken {
            self.budget().give_back(kept);
            return Err(WriteError::Broken);
        }
        // One write that is larger than the bound by itself may pass alone.
        if waiting.bytes > 0 && waiting.bytes + weight > queue_bytes {
            self.budget().give_back(kept);
            return Err(WriteError::QueueFull {
                waiting: waiting.bytes,
                limit: queue_bytes,
            });
        }
        waiting.bytes += weight;
        waiting.groups.push(Group {
            work,
            bytes: weight,
            kept,
            watched,
            done,
        });
        if !std::mem::replace(&mut waiting.served, true) {
            let (collection, builder) = (Arc::clone(self), Arc::clone(builder));
            runtime.spawn_blocking(move || collection.serve_writes(builder));
        }
        Ok(written)
    }

    /// Stores one round of groups and leaves the next to a later turn, so that busy collections do not keep others from
    /// the threads.
    fn serve_writes(self: Arc<Self>, builder: Arc<Builder>) {
        let Some(groups) = self.next_groups() else {
            return;
        };
        let (taken, kept) = (groups.len(), kept_bytes(&groups));
        let store = AssertUnwindSafe(|| self.store_groups(groups));
        if catch_unwind(store).is_err() {
            tracing::error!(
                collection = &*self.name,
                "a write panicked; no more are taken"
            );
            let mut waiting = self.writes.0.lock();
            waiting.broken = true;
            waiting.served = false;
            // Whoever waits for one of these is told by the sender's end.
            let given_up = std::mem::take(&mut waiting.groups);
            waiting.in_hand = Vec::new();
            waiting.bytes = 0;
            self.budget().give_back(kept + kept_bytes(&given_up));
            self.count_failed(taken + given_up.len());
            return;
        }
        self.consider_build(&builder);
        tokio::runtime::Handle::current().spawn_blocking(move || self.serve_writes(builder));
    }

    fn next_groups(&self) -> Option<Vec<Group>> {
        let mut waiting = self.writes.0.lock();
        let mut taken = 0;
        let mut count = 0;
        for group in &waiting.groups {
            // What depends on the writes before it is alone in its round.
            let alone = matches!(group.work, Work::Alter(_));
            if count > 0 && (alone || taken + group.bytes > GROUP_BYTES) {
                break;
            }
            taken += group.bytes;
            count += 1;
            if alone {
                break;
            }
        }
        if count == 0 {
            waiting.in_hand = Vec::new();
            waiting.served = false;
            return None;
        }
        waiting.bytes -= taken;
        let groups: Vec<Group> = waiting.groups.drain(..count).collect();
        let in_hand = groups.iter();
        waiting.in_hand = in_hand
            .map(|group| (group.done.clone(), group.work.points()))
            .collect();
        Some(groups)
    }

    fn store_groups(&self, groups: Vec<Group>) {
        let mut changes = Vec::new();
        let mut waiters = Vec::new();
        // What a change of what is there waited with is gone when it is worked out.
        let alters = groups
            .iter()
            .filter(|group| matches!(group.work, Work::Alter(_)));
        let waited = alters.map(|group| group.kept).sum();
        for group in groups {
            let version = self.next_version();
            let work = match group.work {
                Work::Changes(changes) => changes,
                Work::Alter(alter) => match alter.work_out(self) {
                    Ok(changes) => changes,
                    Err(error) => {
                        if !group.watched && !matches!(error, WriteError::Deleted) {
                            tracing::error!(
                                collection = &*self.name,
                                %error,
                                "a write that nobody waits for failed"
                            );
                            self.count_failed(1);
                        }
                        // Whoever did not want to wait is gone.
                        let _ = group.done.send(Err(error));
                        continue;
                    }
                },
            };
            changes.extend(work.into_iter().map(|change| (change, version)));
            waiters.push((version, group.done));
        }
        if waiters.is_empty() {
            self.budget().give_back(waited);
            return;
        }
        let stored = self.store_changes(&changes);
        match &stored {
            Ok(()) => self.apply(changes),
            Err(error) => {
                self.budget()
                    .give_back(changes.iter().map(|(change, _)| put_bytes([change])).sum());
                if !matches!(error, WriteError::Deleted) {
                    tracing::error!(collection = &*self.name, %error, "a write failed");
                    self.count_failed(waiters.len());
                }
            }
        }
        self.budget().give_back(waited);
        for (version, done) in waiters {
            // Whoever did not want to wait is gone.
            let _ = done.send(stored.clone().map(|()| version));
        }
    }

    fn count_failed(&self, writes: usize) {
        self.failed_writes
            .fetch_add(writes as u64, Ordering::Relaxed);
    }

    fn store_changes(&self, changes: &[(Change, u64)]) -> Result<(), WriteError> {
        if self.deleted.load(Ordering::Relaxed) {
            return Err(WriteError::Deleted);
        }
        let mut settings = None;
        for (change, _) in changes {
            match change {
                Change::Field(name, kind) => {
                    let settings = settings.get_or_insert_with(|| self.settings());
                    settings.fields.insert(name.clone(), *kind);
                }
                Change::ForgetField(name) => {
                    let settings = settings.get_or_insert_with(|| self.settings());
                    settings.fields.remove(name);
                }
                Change::Thresholds { full_scan, rebuild } => {
                    let settings = settings.get_or_insert_with(|| self.settings());
                    (settings.full_scan_bytes, settings.rebuild_bytes) = (*full_scan, *rebuild);
                }
                Change::Put(_) | Change::Delete(_) => {}
            }
        }
        let changes = changes.iter().map(|(change, version)| (change, *version));
        let written = self.store.write(changes, settings.as_ref());
        self.cached.set(self.store.cached_bytes());
        written.map_err(|error| WriteError::Store(Arc::new(error)))
    }
}

/// Callers check what clients send; a point of another dimension that came this far would shift the vectors of all
/// points after it.
fn check_dimensions(changes: &[Change], want: usize) -> Result<(), WriteError> {
    for change in changes {
        if let Change::Put(point) = change
            && point.vector.len() != want
        {
            return Err(WriteError::Dimension {
                id: point.id,
                got: point.vector.len(),
                want,
            });
        }
    }
    Ok(())
}

fn kept_bytes(groups: &[Group]) -> u64 {
    groups.iter().map(|group| group.kept).sum()
}

pub(super) fn put_bytes<'a>(changes: impl IntoIterator<Item = &'a Change>) -> u64 {
    changes
        .into_iter()
        .map(|change| match change {
            Change::Put(point) => point.bytes(),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests;
