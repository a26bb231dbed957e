//! A set-associative cache of line numbers that drops what was used longest ago.

/// A line and the version of it that the cache holds; see `sharing`.
const VERSION_BITS: u32 = 16;
const EMPTY: u64 = u64::MAX;

/// What a cache holds, as line numbers (address / 64, or page numbers for a TLB).
pub struct Cache {
    sets: u64,
    ways: usize,
    /// Ways of one set lie side by side, last used first.
    entries: Box<[u64]>,
}

impl Cache {
    /// # Panics
    /// If `entries` is no multiple of `ways` or gives no power of two of sets.
    #[must_use]
    pub fn new(entries: usize, ways: usize) -> Self {
        assert!(
            entries.is_multiple_of(ways) && (entries / ways).is_power_of_two(),
            "{entries} entries in {ways} ways: the sets must be a power of two"
        );
        Self {
            sets: (entries / ways) as u64,
            ways,
            entries: vec![EMPTY; entries].into_boxed_slice(),
        }
    }

    /// A cache of lines of 64 bytes.
    #[must_use]
    pub fn of_bytes(bytes: u64, ways: usize) -> Self {
        Self::new((bytes / 64) as usize, ways)
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        let at = (line & (self.sets - 1)) as usize * self.ways;
        &mut self.entries[at..at + self.ways]
    }

    /// Looks for `line`, makes it the last used one, and says which version is there.
    pub fn find(&mut self, line: u64) -> Option<u16> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry >> VERSION_BITS == line)?;
        set[..=at].rotate_right(1);
        Some(set[0] as u16)
    }

    /// Puts a line in that is not there. Returns the line that had to go.
    pub fn insert(&mut self, line: u64, version: u16) -> Option<u64> {
        let set = self.set(line);
        let last = set[set.len() - 1];
        set.rotate_right(1);
        set[0] = line << VERSION_BITS | u64::from(version);
        (last != EMPTY).then_some(last >> VERSION_BITS)
    }

    /// Sets the version of the line that [`find`](Self::find) or [`insert`](Self::insert) has just touched.
    pub fn renew(&mut self, line: u64, version: u16) {
        let set = self.set(line);
        debug_assert_eq!(set[0] >> VERSION_BITS, line);
        set[0] = line << VERSION_BITS | u64::from(version);
    }

    /// Takes a line out; tells whether it was there.
    pub fn remove(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|entry| entry >> VERSION_BITS == line) else {
            return false;
        };
        set[at..].rotate_left(1);
        set[set.len() - 1] = EMPTY;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes() {
        let mut cache = Cache::new(4, 2);
        assert_eq!(cache.insert(0, 0), None);
        assert_eq!(cache.insert(2, 0), None);
        assert_eq!(cache.find(0), Some(0));
        assert_eq!(cache.insert(4, 7), Some(2));
        assert_eq!(cache.find(2), None);
        assert_eq!(cache.find(4), Some(7));
        assert_eq!(cache.insert(1, 0), None, "another set");
    }

    #[test]
    fn a_line_that_is_taken_out_leaves_room() {
        let mut cache = Cache::new(2, 2);
        cache.insert(1, 0);
        cache.insert(2, 0);
        assert!(cache.remove(1) && !cache.remove(1));
        assert_eq!(cache.insert(3, 0), None);
        assert_eq!(cache.find(2), Some(0));
    }

    #[test]
    fn a_loop_over_one_line_more_than_there_is_room_for_never_hits() {
        let mut cache = Cache::of_bytes(64 * 8, 8);
        let mut hits = 0;
        for _ in 0..10 {
            for line in 0..9 {
                if cache.find(line).is_some() {
                    hits += 1;
                } else {
                    cache.insert(line, 0);
                }
            }
        }
        assert_eq!(hits, 0);
    }
}
