//! Who has written a line, and which domains have a copy of what was written.
//!
//! Most memory is only read, or only used by one thread. So pages are looked at first: a page that one core alone has
//! touched since it was first written needs no more. Lines of other written pages have an entry each. A write that
//! others may have copies of raises the line's version, and a cached copy of an older version is stale: whoever touches
//! it fetches the line from where it is. What a core wrote before its page was first shared is not known: one transfer
//! a line may be missed.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

const PAGES: usize = 1 << 22;
const SHARDS: usize = 1 << 10;
const SHARED: u16 = u16::MAX;

/// A core's number; a page's owner is stored as that plus one.
pub type CoreId = u16;

/// Where the newest version of a line is, for a core that touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// Nobody has written the line since it is looked at: it is where the caches say.
    Unwritten,
    /// In the core's own cache.
    Here,
    /// In a cache of the same domain.
    Domain,
    /// In another domain's caches, or to be taken away from them.
    Other(u16),
}

struct Line {
    version: u16,
    owner: CoreId,
    /// The owner's domain.
    domain: u16,
    /// Domains that have a copy, as bits.
    copies: u64,
    /// Whether a core other than the owner has read the line since it was last written.
    read: bool,
}

/// All written memory.
pub struct Sharing {
    /// By page number, cut to 22 bits: pages that fall together count as shared at worst.
    pages: Box<[AtomicU16]>,
    lines: Box<[Mutex<FxHashMap<u64, Line>>]>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            pages: (0..PAGES).map(|_| AtomicU16::new(0)).collect(),
            lines: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Sharing {
    /// Whether what `core` does to `line` concerns nobody else.
    #[inline]
    pub fn is_private(&self, line: u64, core: CoreId, write: bool) -> bool {
        let page = &self.pages[(line >> 6) as usize % PAGES];
        let owner = page.load(Ordering::Relaxed);
        if owner == core + 1 {
            return true;
        }
        if owner == 0 {
            let claim = || page.compare_exchange(0, core + 1, Ordering::Relaxed, Ordering::Relaxed);
            return !write || claim().is_ok();
        }
        if owner != SHARED {
            page.store(SHARED, Ordering::Relaxed);
        }
        false
    }

    /// `core` of `domain` touches a line that is not private; `cached` is the version that it holds. Returns
    /// the version that it holds then, and where that is from.
    pub fn touch(
        &self,
        line: u64,
        core: CoreId,
        domain: u16,
        write: bool,
        cached: Option<u16>,
    ) -> (u16, Newest) {
        let mine = 1 << domain;
        let shard = &self.lines[(line as usize ^ (line >> 10) as usize) % SHARDS];
        let mut lines = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = lines.get_mut(&line) else {
            if write {
                let version = 1;
                let (owner, copies) = (core, mine);
                let fresh = Line {
                    version,
                    owner,
                    domain,
                    copies,
                    read: false,
                };
                lines.insert(line, fresh);
                return (version, Newest::Unwritten);
            }
            return (0, Newest::Unwritten);
        };
        let fresh = cached == Some(entry.version);
        let foreign = entry.copies & !mine;
        let nearest = if entry.copies & mine != 0 {
            Newest::Domain
        } else {
            Newest::Other(entry.domain)
        };
        if !write {
            if fresh {
                return (entry.version, Newest::Here);
            }
            entry.copies |= mine;
            entry.read |= entry.owner != core;
            return (entry.version, nearest);
        }
        if entry.owner == core && !entry.read && foreign == 0 {
            let from = if fresh { Newest::Here } else { Newest::Domain };
            return (entry.version, from);
        }
        let from = match foreign {
            0 => Newest::Domain,
            _ if entry.domain != domain => Newest::Other(entry.domain),
            _ => Newest::Other(foreign.trailing_zeros() as u16),
        };
        *entry = Line {
            version: entry.version.wrapping_add(1),
            owner: core,
            domain,
            copies: mine,
            read: false,
        };
        (entry.version, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 1000;

    #[test]
    fn memory_that_is_only_read_stays_private_to_everybody() {
        let sharing = Sharing::default();
        assert!(sharing.is_private(LINE, 0, false) && sharing.is_private(LINE, 1, false));
        assert!(sharing.is_private(LINE, 1, true), "the first to write it");
        assert!(sharing.is_private(LINE, 1, false));
        assert!(
            !sharing.is_private(LINE, 0, false),
            "it was written by another"
        );
        assert!(
            !sharing.is_private(LINE, 1, true),
            "and is shared from then on"
        );
    }

    #[test]
    fn a_line_that_two_domains_write_in_turn_crosses_each_time() {
        let sharing = Sharing::default();
        let (version, from) = sharing.touch(LINE, 0, 0, true, None);
        assert_eq!(from, Newest::Unwritten);
        let mut versions = [Some(version), None];
        for turn in 1..10_usize {
            let me = turn % 2;
            let (version, from) = sharing.touch(LINE, me as u16, me as u16, true, versions[me]);
            assert_eq!(from, Newest::Other(1 - me as u16), "turn {turn}");
            versions[me] = Some(version);
        }
    }

    #[test]
    fn a_reader_fetches_a_line_once_for_each_time_it_is_written() {
        let sharing = Sharing::default();
        let (mut writer, _) = sharing.touch(LINE, 0, 0, true, None);
        let mut reader = None;
        for _ in 0..3 {
            let (version, from) = sharing.touch(LINE, 9, 1, false, reader);
            assert_eq!(from, Newest::Other(0));
            assert_eq!(
                sharing.touch(LINE, 9, 1, false, Some(version)).1,
                Newest::Here
            );
            assert_eq!(
                sharing.touch(LINE, 8, 1, false, None).1,
                Newest::Domain,
                "its sibling has it"
            );
            reader = Some(version);
            let (version, from) = sharing.touch(LINE, 0, 0, true, Some(writer));
            assert_eq!(from, Newest::Other(1), "the copies are taken away");
            writer = version;
        }
    }

    #[test]
    fn a_lone_writer_keeps_its_line() {
        let sharing = Sharing::default();
        let (version, _) = sharing.touch(LINE, 3, 2, true, None);
        for _ in 0..3 {
            assert_eq!(
                sharing.touch(LINE, 3, 2, true, Some(version)),
                (version, Newest::Here)
            );
        }
        assert_eq!(
            sharing.touch(LINE, 3, 2, false, None),
            (version, Newest::Domain),
            "it has fallen out of its L2"
        );
    }
}
