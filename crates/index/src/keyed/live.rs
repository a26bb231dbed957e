//! Updates and deletions of keyed rows, until the next version.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::KeyedRows;
use crate::error::BuildError;

/// Keyed rows that change: a constant version, and a small overlay of what was written since.
///
/// Reads and writes go on while [`LiveKeyedRows::rebuild`] makes the next version, or [`LiveKeyedRows::replace`] takes
/// one from a file. A version that a caller holds ([`LiveKeyedRows::version`]) stays as it is.
///
/// ```
/// use chiplet_index::{KeyedRows, LiveKeyedRows};
///
/// let rows = LiveKeyedRows::new(KeyedRows::build(&[1, 2], 1, |i| [b"a", b"b"][i])?, 1000);
/// rows.insert(3, b"c")?;
/// rows.remove(1)?;
/// rows.rebuild()?;
/// assert_eq!((rows.version().get(1), rows.version().get(3)), (None, Some(&b"c"[..])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LiveKeyedRows {
    state: RwLock<State>,
    /// Held by whoever makes the next version.
    building: Mutex<()>,
    /// Keys that may be written between two versions.
    limit: usize,
    value_bytes: usize,
}

/// Keys that were written; those without a value were removed.
type Overlay = HashMap<u64, Option<Box<[u8]>>>;

#[derive(Debug)]
struct State {
    version: Arc<KeyedRows>,
    /// What the next version is being built of, beside this one.
    building: Arc<Overlay>,
    /// What was written since that began.
    overlay: Overlay,
}

impl State {
    /// What was written for `key`, last.
    fn written(&self, key: u64) -> Option<&Option<Box<[u8]>>> {
        let overlay = self.overlay.get(&key);
        overlay.or_else(|| self.building.get(&key))
    }

    fn len(&self) -> usize {
        self.overlay.len() + self.building.len()
    }
}

/// Why a key was not written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A value of another length than all others.
    #[error("the value of key {key} has {bytes} bytes; all values have {wanted}")]
    ValueLength {
        /// The key.
        key: u64,
        /// Bytes of its value.
        bytes: usize,
        /// Bytes of each value.
        wanted: usize,
    },
    /// No room for another key until the next version.
    #[error("{limit} keys were written since this version was built; rebuild, or allow more")]
    Full {
        /// Keys that may be written.
        limit: usize,
    },
}

impl LiveKeyedRows {
    /// Begins with `version`. At most `limit` keys may be written between two versions. Keys that go into the next
    /// version count until it is built.
    pub fn new(version: KeyedRows, limit: usize) -> Self {
        let value_bytes = version.value_bytes();
        Self {
            state: RwLock::new(State {
                version: Arc::new(version),
                building: Arc::default(),
                overlay: Overlay::new(),
            }),
            building: Mutex::new(()),
            limit,
            value_bytes,
        }
    }

    /// Gives `key` a value, whether it has one or not.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing has changed then.
    pub fn insert(&self, key: u64, value: &[u8]) -> Result<(), UpdateError> {
        self.write_many([(key, Some(value))])
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// [`UpdateError::Full`].
    pub fn remove(&self, key: u64) -> Result<(), UpdateError> {
        self.write_many([(key, None)])
    }

    /// Gives keys values, and removes those without one, all at once: no look-up sees a part of them. Of a key given
    /// twice the last counts.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing has changed then.
    pub fn write_many<'a>(
        &self,
        entries: impl IntoIterator<Item = (u64, Option<&'a [u8]>)>,
    ) -> Result<(), UpdateError> {
        let entries = entries.into_iter().map(|(key, value)| {
            if let Some(value) = value.filter(|value| value.len() != self.value_bytes) {
                return Err(UpdateError::ValueLength {
                    key,
                    bytes: value.len(),
                    wanted: self.value_bytes,
                });
            }
            Ok((key, value.map(Box::from)))
        });
        // Copied before the lock is taken.
        let entries: Overlay = entries.collect::<Result<_, _>>()?;
        let mut state = self.state.write();
        let new = |key: &&u64| !state.overlay.contains_key(*key);
        let limit = self.limit;
        if state.len() + entries.keys().filter(new).count() > limit {
            return Err(UpdateError::Full { limit });
        }
        state.overlay.extend(entries);
        Ok(())
    }

    /// [`KeyedRows::get_many`], with all that was written: each call sees one state of it.
    ///
    /// # Panics
    /// As there.
    pub fn get_many(&self, keys: &[u64], values: &mut [u8], found: &mut [bool]) -> usize {
        let state = self.state.read();
        let mut count = state.version.get_many(keys, values, found);
        if state.len() == 0 {
            return count;
        }
        for (at, key) in keys.iter().enumerate() {
            let Some(value) = state.written(*key) else {
                continue;
            };
            let out = &mut values[at * self.value_bytes..][..self.value_bytes];
            match value {
                Some(value) => out.copy_from_slice(value),
                None => out.fill(0),
            }
            count -= usize::from(found[at]);
            found[at] = value.is_some();
            count += usize::from(found[at]);
        }
        count
    }

    /// Bytes of each value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Keys written since the version was built, those that the next one is being built of included; one that was
    /// written again meanwhile counts twice.
    pub fn written(&self) -> usize {
        self.state.read().len()
    }

    /// The version that is read now, without what was written since.
    pub fn version(&self) -> Arc<KeyedRows> {
        Arc::clone(&self.state.read().version)
    }

    /// Builds the next version of this one and of what was written, in memory of the same policy, and takes it. Readers
    /// and writers do not wait; what is written meanwhile is kept for the version after it. A second call waits for the
    /// first.
    ///
    /// # Errors
    /// [`BuildError::Memory`], [`BuildError::TooManyRows`]; all that was written is still read then.
    pub fn rebuild(&self) -> Result<(), BuildError> {
        let _building = self.building.lock();
        let (version, written) = {
            let mut state = self.state.write();
            let overlay = std::mem::take(&mut state.overlay);
            if state.building.is_empty() {
                state.building = Arc::new(overlay);
            } else {
                // A build before has failed.
                Arc::make_mut(&mut state.building).extend(overlay);
            }
            (Arc::clone(&state.version), Arc::clone(&state.building))
        };
        let old = version.iter().filter(|(key, _)| !written.contains_key(key));
        let new = written
            .iter()
            .filter_map(|(&key, value)| Some((key, value.as_deref()?)));
        let (keys, values): (Vec<u64>, Vec<&[u8]>) = old.chain(new).unzip();
        let memory = version.memory_policy();
        let next = KeyedRows::build_in(&keys, self.value_bytes, |at| values[at], memory)?;
        let mut state = self.state.write();
        state.version = Arc::new(next);
        // The last to refer to them is this call, which drops them when the lock is free.
        state.building = Arc::default();
        Ok(())
    }

    /// Takes `version`, as one from a file, for all that was built and written. Returns the version before.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if its values have another length; nothing has changed then.
    pub fn replace(&self, version: KeyedRows) -> Result<Arc<KeyedRows>, BuildError> {
        if version.value_bytes() != self.value_bytes {
            return Err(BuildError::Setting {
                setting: "value_bytes",
                value: version.value_bytes().to_string(),
                accepted: "as many as the values have that are served",
            });
        }
        let _building = self.building.lock();
        let mut state = self.state.write();
        let written = std::mem::take(&mut state.overlay);
        let building = std::mem::take(&mut state.building);
        let before = std::mem::replace(&mut state.version, Arc::new(version));
        drop(state);
        drop((written, building));
        Ok(before)
    }
}
