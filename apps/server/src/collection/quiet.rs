//! Collections with points outside their index, too few for a build at once.
//!
//! Every search scans such points, which may take as long as the search of the index itself. They get an index when
//! nobody has written to the collection for several times as long as its last build took: so a collection that is
//! written to now and then costs a builder a fifth of its time at most.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::collection::Collection;

/// How long nobody must have written: at least, and in times of the last build.
const LEAST_PAUSE: Duration = Duration::from_secs(5);
const BUILDS: u32 = 4;

/// The collections to look at again.
#[derive(Default)]
pub(super) struct Quiet(Vec<Watched>);

struct Watched {
    collection: Weak<Collection>,
    /// Its last write when it was looked at.
    version: u64,
    next_look: Instant,
}

impl Watched {
    fn new(collection: &Arc<Collection>, now: Instant) -> Self {
        let pause = LEAST_PAUSE.max(collection.build.last_took() * BUILDS);
        Self {
            collection: Arc::downgrade(collection),
            version: collection.version(),
            next_look: now + pause,
        }
    }
}

impl Quiet {
    /// Looks at `collection` again, unless it does so already.
    pub(super) fn watch(&mut self, collection: &Arc<Collection>, now: Instant) {
        if !collection.build.watched.swap(true, Ordering::Relaxed) {
            self.0.push(Watched::new(collection, now));
        }
    }

    /// When to ask [`Quiet::due`] again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.0.iter().map(|watched| watched.next_look).min()
    }

    /// A collection that nobody has written to for long enough and that nobody builds. It is watched no more.
    pub(super) fn due(&mut self, now: Instant) -> Option<Arc<Collection>> {
        let mut found = None;
        self.0.retain_mut(|watched| {
            if found.is_some() || watched.next_look > now {
                return true;
            }
            let Some(collection) = watched.collection.upgrade() else {
                return false;
            };
            if collection.version() != watched.version {
                *watched = Watched::new(&collection, now);
                return true;
            }
            collection.build.watched.store(false, Ordering::Relaxed);
            // A build that runs is followed by a look of its own.
            if collection.has_leftovers() && !collection.build.is_taken() {
                found = Some(collection);
            }
            false
        });
        found
    }
}
