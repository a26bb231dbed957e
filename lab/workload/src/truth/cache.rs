//! Exact neighbours kept on disk, one file a search.
//!
//! A file is named by a hash of all that decides its content: vectors, queries, `k`, metric, [`ROUNDING`]
//! and [`VERSION`]. So a name never needs to be invalidated, and a file can be deleted at any time.
//!
//! Layout, little-endian:
//!
//! | bytes | |
//! | --- | --- |
//! | 16 | [`MAGIC`] |
//! | 16 | the hash that names the file |
//! | 8 + 8 | `k`; number of queries |
//! | | for each query: how many neighbours (4), then each one's row (4) and distance (`f64`, 8) |
//! | 16 | hash of everything before |
//!
//! A file is believed only if all of it is as it must be, down to the hash at its end; otherwise it counts
//! as absent. The hash is [XXH3](https://xxhash.com) with 128 bits: it finds damage, not forgery, and
//! whoever can forge a file in the user's cache folder can do worse.
//!
//! Writing goes to a temporary file that is then renamed, so that two processes never see each other's
//! half. The data is not synced to disk first: after a power cut a file may be short, which the hash tells.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::{Metric, Neighbor, ROUNDING, Truth, TruthError, check};
use crate::dataset::VectorSet;

/// To be raised when the layout changes, or what [`Truth::exact`] finds.
const VERSION: u32 = 2;
const MAGIC: [u8; 16] = *b"chiplet truth\r\n\0";
const HEADER: usize = MAGIC.len() + size_of::<u128>() + 2 * size_of::<u64>();
const CHECKSUM: usize = size_of::<u128>();
/// Bytes of a neighbour.
const NEIGHBOR: usize = 12;

/// A folder that keeps [`Truth`]s. It grows by about 12 bytes a neighbour and is never cleared; delete it,
/// or files in it, at will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruthCache {
    folder: PathBuf,
}

/// A truth, and how it was come by.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cached {
    /// The exact neighbours, the same whether or not they were found on disk.
    pub truth: Truth,
    /// Whether they were, and so nothing was computed.
    pub found: bool,
    /// What went wrong with the cache. None of it makes the truth any less exact.
    pub warnings: Vec<CacheWarning>,
}

/// Why the cache was of no use, this time or for the next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheWarning {
    /// There is a file, but it cannot be read.
    #[error("cannot read {}, so its content was computed again: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a file, but it is not what was written.
    #[error("{} is damaged ({reason}), so its content was computed again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        reason: &'static str,
    },
    /// The result could not be kept.
    #[error("cannot write {}, so the next run must compute the same again: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl TruthCache {
    /// Keeps files in `folder`, which is created when there is something to write.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The user's own: `$XDG_CACHE_HOME/chiplet/truth`, or `~/.cache/chiplet/truth`. `None` where there is
    /// no home folder either.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let folder = user_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir())?;
        Some(Self::new(folder))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Truth {
    /// [`Truth::exact`], unless the same was asked before and `cache` still holds the answer. To tell costs
    /// a pass over the vectors. `progress` is called as by [`Truth::exact_with_progress`], or not at all
    /// where the answer was found.
    ///
    /// ```
    /// use chiplet_workload::dataset::{Clusters, VectorSet};
    /// use chiplet_workload::truth::{Metric, Truth, TruthCache};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let vectors = VectorSet::clusters(&Clusters { rows: 500, dim: 8, ..Clusters::default() });
    /// let queries = vectors.select(&[1, 20, 300]);
    /// let cache = TruthCache::new(folder.path().join("truth"));
    /// let search = || Truth::exact_cached(&vectors, &queries, 10, Metric::L2, &cache, |_, _| ());
    /// assert!(!search()?.found);
    /// let again = search()?;
    /// assert!(again.found && again.warnings.is_empty());
    /// assert_eq!(again.truth, Truth::exact(&vectors, &queries, 10, Metric::L2)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Truth::exact`]. A cache that cannot be read or written is no error but a [`CacheWarning`].
    pub fn exact_cached(
        vectors: &VectorSet,
        queries: &VectorSet,
        k: usize,
        metric: Metric,
        cache: &TruthCache,
        progress: impl FnMut(usize, usize),
    ) -> Result<Cached, TruthError> {
        check(vectors, queries, k)?;
        let k = k.min(vectors.len());
        let search = Search {
            key: key(vectors, queries, k, metric),
            k,
            rows: vectors.len(),
            queries: queries.len(),
        };
        let path = cache.folder.join(format!("{:032x}.truth", search.key));
        let mut warnings = Vec::new();
        match search.read(&path) {
            Ok(Some(truth)) => {
                return Ok(Cached {
                    truth,
                    found: true,
                    warnings,
                });
            }
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
        let truth = Self::exact_with_progress(vectors, queries, k, metric, progress)?;
        if let Err(source) = write(&cache.folder, &path, &search.encode(&truth)) {
            warnings.push(CacheWarning::Unwritable { path, source });
        }
        Ok(Cached {
            truth,
            found: false,
            warnings,
        })
    }
}

/// What a file must match.
struct Search {
    key: u128,
    /// At most `rows`.
    k: usize,
    rows: usize,
    queries: usize,
}

impl Search {
    /// The truth in the file; `None` if there is no file.
    fn read(&self, path: &Path) -> Result<Option<Truth>, CacheWarning> {
        let damaged = |reason| CacheWarning::Damaged {
            path: path.to_owned(),
            reason,
        };
        let bytes = match self.bytes(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(damaged("not a file of the right length")),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(CacheWarning::Unreadable {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        self.decode(&bytes).map(Some).map_err(damaged)
    }

    /// The file's bytes; `None` if their number cannot be right, and then they are not read.
    fn bytes(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let facts = fs::metadata(path)?;
        // Every query has `k` neighbours; if everything ties, as many as there are rows.
        let bytes = |neighbors: usize| {
            let query = (neighbors as u64).checked_mul(NEIGHBOR as u64)? + 4;
            (HEADER as u64 + CHECKSUM as u64).checked_add(query.checked_mul(self.queries as u64)?)
        };
        let (least, most) = (bytes(self.k), bytes(self.rows).unwrap_or(u64::MAX));
        if !facts.is_file() || least.is_none_or(|least| facts.len() < least) || facts.len() > most {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(facts.len() as usize);
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn encode(&self, truth: &Truth) -> Vec<u8> {
        let neighbors: usize = truth.nearest.iter().map(Vec::len).sum();
        let length = HEADER + 4 * truth.len() + NEIGHBOR * neighbors + CHECKSUM;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        bytes.extend(self.key.to_le_bytes());
        bytes.extend((self.k as u64).to_le_bytes());
        bytes.extend((truth.len() as u64).to_le_bytes());
        for near in &truth.nearest {
            // There are no more neighbours than ids.
            bytes.extend((near.len() as u32).to_le_bytes());
            for neighbor in near {
                bytes.extend(neighbor.id.to_le_bytes());
                bytes.extend(neighbor.distance.to_le_bytes());
            }
        }
        bytes.extend(xxh3_128(&bytes).to_le_bytes());
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Result<Truth, &'static str> {
        let short = "it ends too early";
        let (content, sum) = bytes.split_last_chunk().ok_or(short)?;
        if xxh3_128(content) != u128::from_le_bytes(*sum) {
            return Err("its checksum is wrong");
        }
        let mut rest = Rest(content);
        let ours = rest.take() == Some(MAGIC)
            && rest.take().map(u128::from_le_bytes) == Some(self.key)
            && rest.take().map(u64::from_le_bytes) == Some(self.k as u64)
            && rest.take().map(u64::from_le_bytes) == Some(self.queries as u64);
        if !ours {
            return Err("it belongs to another search");
        }
        let nearest =
            (0..self.queries).map(|_| self.near(&mut rest).ok_or("its neighbours are none"));
        let nearest = nearest.collect::<Result<_, _>>()?;
        if !rest.0.is_empty() {
            return Err("it goes on after the last query");
        }
        Ok(Truth { k: self.k, nearest })
    }

    /// One query's neighbours, if they can be that: enough of them, rows that exist, nearest first.
    fn near(&self, rest: &mut Rest) -> Option<Vec<Neighbor>> {
        let count = u32::from_le_bytes(rest.take()?) as usize;
        if count < self.k || count > rest.0.len() / NEIGHBOR {
            return None;
        }
        let near = (0..count).map(|_| {
            Some(Neighbor {
                id: u32::from_le_bytes(rest.take()?),
                distance: f64::from_le_bytes(rest.take()?),
            })
        });
        let near = near.collect::<Option<Vec<_>>>()?;
        let exist = near.iter().all(|n| (n.id as usize) < self.rows);
        let sorted = near.is_sorted_by(|a, b| a.order(b).is_lt());
        (exist && sorted).then_some(near)
    }
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

/// The hash of all that decides the answer.
fn key(vectors: &VectorSet, queries: &VectorSet, k: usize, metric: Metric) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&MAGIC);
    hash.update(&VERSION.to_le_bytes());
    hash.update(&ROUNDING.to_le_bytes());
    hash.update(&[match metric {
        Metric::L2 => 0,
        Metric::Cosine => 1,
        Metric::InnerProduct => 2,
    }]);
    hash.update(&(k as u64).to_le_bytes());
    for set in [vectors, queries] {
        // The sizes come first, so that no value of one set can stand for one of the other.
        hash.update(&(set.len() as u64).to_le_bytes());
        hash.update(&(set.dim() as u64).to_le_bytes());
        let mut buffer = Vec::new();
        // Large enough to amortise a call, small enough for the first-level cache.
        for values in set.as_slice().chunks(4 << 10) {
            buffer.clear();
            buffer.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            hash.update(&buffer);
        }
    }
    hash.digest128()
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Removed again unless it gets its name.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// By the [XDG rules](https://specifications.freedesktop.org/basedir-spec/latest/), which say to ignore
/// a relative path.
fn user_folder(xdg_cache_home: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let given = xdg_cache_home
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let caches = given.or_else(|| Some(home.filter(|path| path.is_absolute())?.join(".cache")))?;
    Some(caches.join("chiplet/truth"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_folder_follows_the_xdg_rules() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            let found = user_folder(xdg.map(Into::into), home.map(Into::into))?;
            Some(found.to_str().unwrap().to_owned())
        };
        let by_home = Some("/home/me/.cache/chiplet/truth".to_owned());
        assert_eq!(folder(None, Some("/home/me")), by_home);
        assert_eq!(folder(Some(""), Some("/home/me")), by_home);
        assert_eq!(folder(Some("relative"), Some("/home/me")), by_home);
        let given = folder(Some("/caches"), Some("/home/me"));
        assert_eq!(given.as_deref(), Some("/caches/chiplet/truth"));
        assert_eq!(folder(None, Some("")), None);
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn a_file_with_a_right_checksum_over_wrong_neighbours_is_not_believed() {
        let search = Search {
            key: 7,
            k: 2,
            rows: 3,
            queries: 1,
        };
        let decoded = |ids: &[u32]| {
            let near = |&id| Neighbor { id, distance: 0.5 };
            let nearest = vec![ids.iter().map(near).collect()];
            search.decode(&search.encode(&Truth { k: 2, nearest }))
        };
        assert_eq!(decoded(&[0, 2]).unwrap().neighbors(0).len(), 2);
        for wrong in [&[0][..], &[2, 0], &[1, 1], &[0, 3]] {
            assert!(decoded(wrong).is_err(), "{wrong:?}");
        }
    }
}
