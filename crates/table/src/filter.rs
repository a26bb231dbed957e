//! Which rows a query may return: a set of ids, or a predicate.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Rows that a query may return, by id. Cheap to clone; shared by the queries that it is given to.
///
/// A set says how many ids it holds, from which a table chooses how to search. Prefer one where it exists: a predicate
/// is called for every row that a search looks at, on the searching core.
///
/// ```
/// use chiplet_table::{Filter, Query};
///
/// let in_stock = Filter::ids([3, 17, 40_000]);
/// assert!(in_stock.allows(17) && !in_stock.allows(18));
/// let query = Query::new([0.5, 0.5]).filter(in_stock);
///
/// let even = Filter::matching(|id| id % 2 == 0);
/// assert!(even.allows(4) && even.count().is_none());
/// # let _ = query;
/// ```
#[derive(Clone)]
pub struct Filter(Arc<Kind>);

enum Kind {
    /// Bit `id % 64` of word `id / 64`.
    Bitmap { words: Vec<u64>, count: u64 },
    /// Ids too far apart for a bitmap.
    Sparse(FxHashSet<u64>),
    Predicate {
        allows: Box<dyn Fn(u64) -> bool + Send + Sync>,
        about: Option<u64>,
    },
}

/// Bytes of a bitmap for each id in it, at most: several times what an entry of a hash set takes, as a bitmap answers
/// several times as fast, and a scan asks it for every row.
const BITMAP_BYTES_PER_ID: u64 = 128;

/// Words that a bitmap may always take, however few the ids.
const SMALL_BITMAP_WORDS: u64 = 512;

impl Filter {
    /// The rows with these ids. Ids that a table does not hold are ignored.
    pub fn ids(ids: impl IntoIterator<Item = u64>) -> Self {
        let ids: Vec<u64> = ids.into_iter().collect();
        let words = ids.iter().max().map_or(0, |&last| last / 64 + 1);
        let affordable = (ids.len() as u64 * BITMAP_BYTES_PER_ID / 8).max(SMALL_BITMAP_WORDS);
        if words > affordable {
            return Self(Arc::new(Kind::Sparse(ids.into_iter().collect())));
        }
        let mut bitmap = vec![0; words as usize];
        for id in ids {
            bitmap[(id / 64) as usize] |= 1 << (id % 64);
        }
        Self::bitmap(bitmap)
    }

    /// The rows whose bit is set: bit `id % 64` of word `id / 64`. Ids past the last word are left out.
    pub fn bitmap(words: impl Into<Vec<u64>>) -> Self {
        let words = words.into();
        let count = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Self(Arc::new(Kind::Bitmap { words, count }))
    }

    /// The rows for whose id `allows` returns `true`. While a query runs, it must always return the same for one id. It
    /// runs on the searching core, for each row that the search looks at.
    pub fn matching(allows: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        let allows = Box::new(allows);
        Self(Arc::new(Kind::Predicate {
            allows,
            about: None,
        }))
    }

    /// As [`Filter::matching`], if you know about how many of the table's rows `allows` lets through, for example from
    /// a compressed bitmap of your own. The table chooses by `count` whether to walk or to scan, so time and recall
    /// depend on it: a scan finds all, a walk what its graph leads it to. A `count` that is far too low costs a scan of
    /// all rows; one that is too high counts for little, as the table tries some rows itself.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use std::sync::Arc;
    /// use chiplet_table::Filter;
    ///
    /// let in_stock = Arc::new(BTreeSet::from([3, 17, 40_000]));
    /// let held = Arc::clone(&in_stock);
    /// let filter = Filter::matching_about(held.len() as u64, move |id| held.contains(&id));
    /// assert_eq!(filter.count(), Some(3));
    /// ```
    pub fn matching_about(
        count: u64,
        allows: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> Self {
        let allows = Box::new(allows);
        Self(Arc::new(Kind::Predicate {
            allows,
            about: Some(count),
        }))
    }

    /// Whether the row `id` may be returned.
    #[inline]
    pub fn allows(&self, id: u64) -> bool {
        match &*self.0 {
            Kind::Bitmap { words, .. } => usize::try_from(id / 64)
                .ok()
                .and_then(|word| words.get(word))
                .is_some_and(|word| word >> (id % 64) & 1 == 1),
            Kind::Sparse(ids) => ids.contains(&id),
            Kind::Predicate { allows, .. } => allows(id),
        }
    }

    /// Ids in the set, some of which a table may not hold. Of a predicate what [`Filter::matching_about`] was told,
    /// `None` if nothing.
    pub fn count(&self) -> Option<u64> {
        match &*self.0 {
            Kind::Bitmap { count, .. } => Some(*count),
            Kind::Sparse(ids) => Some(ids.len() as u64),
            Kind::Predicate { about, .. } => *about,
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count(), &*self.0) {
            (Some(count), Kind::Predicate { .. }) => {
                write!(f, "Filter(predicate, about {count} ids)")
            }
            (Some(count), _) => write!(f, "Filter({count} ids)"),
            (None, _) => f.write_str("Filter(predicate)"),
        }
    }
}

impl PartialEq for Filter {
    /// Whether both are clones of one filter.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_allows_its_ids_and_no_others(
            ids in proptest::collection::hash_set(0u64..20_000, 0..200),
            far in proptest::collection::hash_set(any::<u64>(), 0..5),
            asked in 0u64..25_000,
        ) {
            let all: FxHashSet<u64> = ids.union(&far).copied().collect();
            let filter = Filter::ids(all.iter().copied());
            prop_assert_eq!(filter.count(), Some(all.len() as u64));
            prop_assert_eq!(filter.allows(asked), all.contains(&asked));
            for &id in &all {
                prop_assert!(filter.allows(id));
            }
        }
    }

    #[test]
    fn far_ids_take_no_bitmap() {
        let filter = Filter::ids([0, u64::MAX]);
        assert!(filter.allows(u64::MAX) && !filter.allows(1));
        assert!(matches!(*filter.0, Kind::Sparse(_)));
        assert!(matches!(*Filter::ids(0..10).0, Kind::Bitmap { .. }));
    }

    #[test]
    fn a_predicate_counts_what_it_was_told() {
        assert_eq!(Filter::matching(|_| true).count(), None);
        let about = Filter::matching_about(7, |id| id < 9);
        assert_eq!(about.count(), Some(7));
        assert!(about.allows(8) && !about.allows(9));
        assert_eq!(format!("{about:?}"), "Filter(predicate, about 7 ids)");
    }

    #[test]
    fn a_filter_equals_its_clones_only() {
        let filter = Filter::ids([1]);
        assert_eq!(filter, filter.clone());
        assert_ne!(filter, Filter::ids([1]));
    }
}
