//! `KeyedRows`: values of one size by key, for what a search needs beside vectors: features, payloads, whole rows.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the table: build, files, look-ups |
//! | `hash` | which slot a key has: a perfect hash |
//! | `pilots` | what is searched for to make it perfect |
//! | `live` | updates and deletions, and the change to a new version |
//! | `vectors` | values that are vectors, for [`Refined`](crate::Refined) |
//!
//! A slot holds a key and its value, so a look-up reads one byte for the slot's number, and the slot: two places, where
//! a chained hash reads three one after the other. [`KeyedRows::get_many`] has those of many keys on their way at once.
//! Slots that no key has hold another slot's key, which a look-up for it never sees.
//!
//! All of it is one `Image`, as of every table.

mod hash;
mod live;
mod pilots;
mod vectors;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::path::Path;

use chiplet_memory::{Granted, MemoryPolicy};
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::image::{Draft, FileError, Image, Section};
use crate::kernel;
use hash::{Hash, MAX_KEYS, Shape, slots_of};
pub use live::{LiveKeyedRows, UpdateError};
use pilots::{Sorted, Unplaced};
pub use vectors::KeyedVectors;

/// What a file of this kind of table is called inside.
const KIND: &str = "keyed";

/// Bytes of a key in its slot.
const KEY: usize = size_of::<u64>();

/// The longest value, in bytes.
const MAX_VALUE: usize = 1 << 20;

/// Seeds that are tried, and how many of them are the same in each build. One is enough but for tables of few keys. The
/// others are random, so that nobody can choose keys that no seed spreads.
const SEEDS: u64 = 64;
const FIXED_SEEDS: u64 = 4;

/// Keys whose slots are on their way while those before are read.
const AHEAD: usize = 32;

/// Values of one size by key: built once, then read by any number of threads.
///
/// ```
/// use chiplet_index::KeyedRows;
///
/// let keys = [7, 1 << 40, 3];
/// let values = [[1, 2], [3, 4], [5, 6]];
/// let rows = KeyedRows::build(&keys, 2, |i| &values[i])?;
/// assert_eq!(rows.get(1 << 40), Some(&[3, 4][..]));
/// assert_eq!(rows.get(8), None);
///
/// let (mut found, mut out) = ([false; 2], [0; 4]);
/// assert_eq!(rows.get_many(&[3, 4], &mut out, &mut found), 1);
/// assert_eq!((found, out), ([true, false], [5, 6, 0, 0]));
/// # Ok::<(), chiplet_index::BuildError>(())
/// ```
pub struct KeyedRows {
    image: Image,
    pilots: Section,
    starts: Section,
    slots: Section,
    meta: Meta,
}

/// What a file says of the rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    keys: usize,
    value_bytes: usize,
    shape: Shape,
}

impl Meta {
    fn stride(&self) -> usize {
        KEY + self.value_bytes
    }
}

impl KeyedRows {
    /// The values `value(0)`, `value(1)`, .. of `keys`, in this order, each of `value_bytes` bytes. They are copied.
    ///
    /// # Errors
    /// [`BuildError::KeyTwice`], [`BuildError::ValueLength`], [`BuildError::TooManyRows`] over 4,000,000,000,
    /// [`BuildError::Setting`] for values of more than 1 MiB, [`BuildError::Memory`].
    pub fn build<'a>(
        keys: &[u64],
        value_bytes: usize,
        value: impl Fn(usize) -> &'a [u8],
    ) -> Result<Self, BuildError> {
        Self::build_in(keys, value_bytes, value, MemoryPolicy::default())
    }

    /// [`KeyedRows::build`], in memory of this policy, or in pages of this kind.
    ///
    /// # Errors
    /// As [`KeyedRows::build`].
    pub fn build_in<'a>(
        keys: &[u64],
        value_bytes: usize,
        value: impl Fn(usize) -> &'a [u8],
        memory: impl Into<MemoryPolicy>,
    ) -> Result<Self, BuildError> {
        let memory = memory.into();
        if keys.len() > MAX_KEYS {
            return Err(BuildError::TooManyRows {
                rows: keys.len(),
                limit: MAX_KEYS,
            });
        }
        if value_bytes > MAX_VALUE {
            return Err(BuildError::Setting {
                setting: "value_bytes",
                value: value_bytes.to_string(),
                accepted: "at most 1048576",
            });
        }
        for attempt in 0..SEEDS {
            let seed = match attempt {
                ..FIXED_SEEDS => attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                _ => RandomState::new().hash_one(attempt),
            };
            let shape = Shape::of(keys.len(), seed);
            let meta = Meta {
                keys: keys.len(),
                value_bytes,
                shape,
            };
            let sorted = Sorted::new(shape, keys);
            match Self::filled(keys, &sorted, meta, &value, &memory) {
                Err(Failed::Unplaced(Unplaced::Seed)) => {}
                Err(Failed::Unplaced(Unplaced::Twice(one, other))) => {
                    let [first, second] = [one, other].map(|number| number as usize);
                    return Err(BuildError::KeyTwice {
                        key: keys[first],
                        first: first.min(second),
                        second: first.max(second),
                    });
                }
                Err(Failed::Build(error)) => return Err(error),
                Ok(rows) => return Ok(rows),
            }
        }
        unreachable!("no seed spreads {} keys", keys.len())
    }

    fn filled<'a>(
        keys: &[u64],
        sorted: &Sorted,
        meta: Meta,
        value: &impl Fn(usize) -> &'a [u8],
        memory: &MemoryPolicy,
    ) -> Result<Self, Failed> {
        let Meta {
            value_bytes, shape, ..
        } = meta;
        let mut starts = vec![0_u32];
        let mut last = 0;
        for part in 0..shape.parts {
            last += slots_of(sorted.part(shape, part).len()) as u32;
            starts.push(last);
        }
        let mut draft = Draft::new();
        let pilots = draft.add("pilots", shape.pilots().unwrap_or(usize::MAX));
        let starts_section = draft.add("starts", size_of_val(&starts[..]));
        let stride = meta.stride();
        let slots = draft.add("slots", (last as usize).saturating_mul(stride));
        let mut image = draft.allocate(memory.clone()).map_err(BuildError::from)?;
        image.section_mut(starts_section).copy_from_slice(&starts);
        for part in 0..shape.parts {
            let all = image.section_mut::<u8>(pilots);
            let own = &mut all[part * shape.buckets..][..shape.buckets];
            sorted.place(shape, part, own).map_err(Failed::Unplaced)?;
        }
        let found = image.section_mut::<u8>(pilots).to_vec();
        let out = image.section_mut::<u8>(slots);
        let mut used = vec![false; last as usize];
        for part in 0..shape.parts {
            let [from, to] = [part, part + 1].map(|part| starts[part] as usize);
            for &number in &sorted.keys[sorted.part(shape, part)] {
                let (number, key) = (number as usize, keys[number as usize]);
                let own = value(number);
                if own.len() != value_bytes {
                    return Err(Failed::Build(BuildError::ValueLength {
                        key,
                        bytes: own.len(),
                        wanted: value_bytes,
                    }));
                }
                let hash = shape.hash(key);
                let (part, bucket) = shape.bucket(hash);
                let slot = from + hash.slot(found[part * shape.buckets + bucket], to - from);
                used[slot] = true;
                let out = &mut out[slot * stride..][..stride];
                out[..KEY].copy_from_slice(&key.to_le_bytes());
                out[KEY..].copy_from_slice(own);
            }
        }
        if let Some(full) = used.iter().position(|&used| used) {
            let any = out[full * stride..][..stride].to_vec();
            let empty = out.chunks_exact_mut(stride).zip(&used);
            let empty = empty.filter(|(_, used)| !**used);
            empty.for_each(|(slot, _)| slot.copy_from_slice(&any));
        }
        let frozen = image.freeze(KIND, &meta);
        Ok(Self {
            image: frozen.expect("numbers and names can be written as JSON"),
            pilots,
            starts: starts_section,
            slots,
            meta,
        })
    }

    fn open(image: Image) -> Result<Self, FileError> {
        image.expect_kind(KIND)?;
        let meta: Meta = image.meta()?;
        let Shape { parts, buckets, .. } = meta.shape;
        let pilots = meta.shape.pilots().filter(|&pilots| pilots > 0);
        let (Some(pilots), true) = (pilots, meta.value_bytes <= MAX_VALUE) else {
            return Err(image.damaged(format!(
                "it claims {parts} parts of {buckets} buckets, and values of {} bytes",
                meta.value_bytes
            )));
        };
        let pilots = image.find_values::<u8>("pilots", pilots)?;
        let starts = image.find_values::<u32>("starts", parts.saturating_add(1))?;
        let bounds: &[u32] = image.section(starts);
        let slots = bounds[parts] as usize;
        let grow = bounds.is_sorted() && bounds[0] == 0;
        if !grow || meta.keys > slots {
            return Err(image.damaged(format!("its {parts} parts do not hold {} keys", meta.keys)));
        }
        let bytes = slots.saturating_mul(meta.stride());
        let slots = image.find_values::<u8>("slots", bytes)?;
        Ok(Self {
            image,
            pilots,
            starts,
            slots,
            meta,
        })
    }

    /// Writes the table to `path`, as [`FlatTable::save`](crate::FlatTable::save) does.
    ///
    /// # Errors
    /// [`FileError`]: the system refused something, or this machine is big-endian.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.image.save(path.as_ref())
    }

    /// Reads a table from `path` into memory of its own, with all checksums compared.
    ///
    /// # Errors
    /// [`FileError`]: no file of this kind, damaged, of a newer version, or too large for the memory.
    pub fn load(
        path: impl AsRef<Path>,
        memory: impl Into<MemoryPolicy>,
    ) -> Result<Self, FileError> {
        Self::open(Image::load(path.as_ref(), memory)?)
    }

    /// Maps the file at `path`: keys can be looked up at once, and the system reads what they touch. Values are not
    /// checked, see [`KeyedRows::verify`].
    ///
    /// # Safety
    /// Nobody writes to the file or cuts it off while the table lives: see [`FlatTable::map`](crate::FlatTable::map).
    ///
    /// # Errors
    /// As [`KeyedRows::load`], for what the file's header shows.
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // SAFETY: the caller's.
        let image = unsafe { Image::map(path.as_ref()) }?;
        Self::open(image)
    }

    /// Compares all checksums of a mapped table with its file: reads all of it.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn verify(&self) -> Result<(), FileError> {
        self.image.verify()
    }

    /// What the system has given the table's memory up to now.
    pub fn granted(&self) -> Granted {
        self.image.region().granted()
    }

    /// Where the memory of the next version is to lie.
    fn memory_policy(&self) -> MemoryPolicy {
        self.image.region().policy().cloned().unwrap_or_default()
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.meta.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.meta.keys == 0
    }

    /// Bytes of each value.
    pub fn value_bytes(&self) -> usize {
        self.meta.value_bytes
    }

    /// Memory of all keys and values, and of what finds them, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.image.bytes() as u64
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<&[u8]> {
        let table = self.table();
        table.value(table.slot(table.pilot(key)), key)
    }

    /// Copies the value of each of `keys` to `values` (`[keys][value_bytes]`), zeros where there is none, and says in
    /// `found` whether there is one. Returns how many there are. Many keys take a fraction of the time of as many
    /// [`KeyedRows::get`].
    ///
    /// # Panics
    /// If `values` or `found` has another length.
    pub fn get_many(&self, keys: &[u64], values: &mut [u8], found: &mut [bool]) -> usize {
        assert_eq!(
            values.len(),
            keys.len() * self.value_bytes(),
            "room for values"
        );
        assert_eq!(found.len(), keys.len(), "room for found");
        let mut count = 0;
        self.each(keys, |at, value| {
            let out = &mut values[at * self.meta.value_bytes..][..self.meta.value_bytes];
            match value {
                Some(value) => out.copy_from_slice(value),
                None => out.fill(0),
            }
            found[at] = value.is_some();
            count += usize::from(value.is_some());
        });
        count
    }

    /// Calls `visit` with the number of each of `keys` and its value, in order.
    fn each<'a>(&'a self, keys: &[u64], mut visit: impl FnMut(usize, Option<&'a [u8]>)) {
        let table = self.table();
        let mut pilots = [Pilot::default(); 2 * AHEAD];
        let mut slots = [0; AHEAD];
        // In one pass: a key's pilot is asked for, 32 keys later its slot, and 32 keys later it is read.
        for at in 0..keys.len() + 2 * AHEAD {
            if let Some(read) = at.checked_sub(2 * AHEAD) {
                visit(read, table.value(slots[read % AHEAD], keys[read]));
            }
            if let Some(next) = at.checked_sub(AHEAD).filter(|&next| next < keys.len()) {
                let slot = table.slot(pilots[next % (2 * AHEAD)]);
                slots[next % AHEAD] = slot;
                table.prefetch(slot);
            }
            if let Some(&key) = keys.get(at) {
                let pilot = table.pilot(key);
                pilots[at % (2 * AHEAD)] = pilot;
                kernel::prefetch(&table.pilots[pilot.at], 1);
            }
        }
    }

    /// All keys with their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let table = self.table();
        let slots = 0..table.slots.len() / table.stride;
        slots.filter_map(move |slot| {
            let (key, value) = table.entry(slot)?;
            (table.slot(table.pilot(key)) == slot).then_some((key, value))
        })
    }

    fn table(&self) -> Slots<'_> {
        Slots {
            shape: self.meta.shape,
            stride: self.meta.stride(),
            pilots: self.image.section(self.pilots),
            starts: self.image.section(self.starts),
            slots: self.image.section(self.slots),
        }
    }
}

enum Failed {
    Unplaced(Unplaced),
    Build(BuildError),
}

impl From<BuildError> for Failed {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

/// What a look-up reads. What lies in the sections is not believed: each place is checked.
#[derive(Clone, Copy)]
struct Slots<'a> {
    shape: Shape,
    stride: usize,
    pilots: &'a [u8],
    starts: &'a [u32],
    slots: &'a [u8],
}

/// Where a key's pilot is.
#[derive(Clone, Copy, Default)]
struct Pilot {
    hash: Hash,
    part: usize,
    at: usize,
}

impl<'a> Slots<'a> {
    #[inline]
    fn pilot(&self, key: u64) -> Pilot {
        let hash = self.shape.hash(key);
        let (part, bucket) = self.shape.bucket(hash);
        let at = part * self.shape.buckets + bucket;
        Pilot { hash, part, at }
    }

    #[inline]
    fn slot(&self, Pilot { hash, part, at }: Pilot) -> usize {
        let [from, to] = [self.starts[part], self.starts[part + 1]].map(|at| at as usize);
        from + hash.slot(self.pilots[at], to - from)
    }

    #[inline]
    fn bytes_of(&self, slot: usize) -> Range<usize> {
        slot * self.stride..(slot + 1) * self.stride
    }

    #[inline]
    fn prefetch(&self, slot: usize) {
        if let Some(first) = self.slots.get(slot * self.stride) {
            kernel::prefetch(first, self.stride);
        }
    }

    #[inline]
    fn entry(&self, slot: usize) -> Option<(u64, &'a [u8])> {
        let (key, value) = self
            .slots
            .get(self.bytes_of(slot))?
            .split_first_chunk::<KEY>()?;
        Some((u64::from_le_bytes(*key), value))
    }

    #[inline]
    fn value(&self, slot: usize, key: u64) -> Option<&'a [u8]> {
        let (own, value) = self.entry(slot)?;
        (own == key).then_some(value)
    }
}

impl fmt::Debug for KeyedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRows")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}
