//! Ids of rows: those that a build is given, and those that a table keeps.

use chiplet_table::Filter;

use crate::error::BuildError;
use crate::image::{Draft, FileError, Image, ImageMut, Section};
use crate::kernel;
use crate::progress::Watch;
use crate::reserve;

/// Rows that a filter is tried on to learn how many it allows.
const SAMPLE: usize = 128;

/// The ids of a build's rows: row numbers, unless others were given.
pub(crate) struct RowIds<'a> {
    given: Option<&'a [u64]>,
    /// The rows in the order of their ids; `None` if they come so.
    order: Option<Vec<usize>>,
}

impl<'a> RowIds<'a> {
    /// Row numbers.
    pub(crate) const NUMBERS: Self = Self {
        given: None,
        order: None,
    };

    /// `given`, if that is one id for each of `rows` rows and none twice.
    ///
    /// # Errors
    /// [`BuildError::IdCount`], [`BuildError::IdTwice`], [`BuildError::Stopped`], [`BuildError::Memory`].
    pub(crate) fn new(
        given: Option<&'a [u64]>,
        rows: usize,
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let Some(ids) = given else {
            return Ok(Self::NUMBERS);
        };
        check_count(ids, rows)?;
        let mut ascending = true;
        for pair in ids.windows(2) {
            ascending &= pair[0] < pair[1];
            watch.glance()?;
        }
        if ascending {
            return Ok(Self { given, order: None });
        }
        let order = sorted(ids, watch)?;
        for pair in order.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            if ids[first] == ids[second] {
                let id = ids[first];
                return Err(BuildError::IdTwice { id, first, second });
            }
            watch.glance()?;
        }
        let order = Some(order);
        Ok(Self { given, order })
    }

    /// Those that are not row numbers, by row.
    pub(crate) fn given(&self) -> Option<&'a [u64]> {
        self.given
    }

    /// Whether those need eight bytes; `None` for row numbers.
    pub(crate) fn wide(&self) -> Option<bool> {
        let given = self.given?;
        Some(given.iter().copied().any(is_wide))
    }

    /// The id of `row`.
    pub(crate) fn of(&self, row: usize) -> u64 {
        self.given.map_or(row as u64, |ids| ids[row])
    }

    /// The `at`-th of all rows in the order of their ids.
    pub(crate) fn ranked(&self, at: usize) -> usize {
        self.order.as_ref().map_or(at, |order| order[at])
    }
}

/// Checks that there is one id for each of `rows` rows.
///
/// # Errors
/// [`BuildError::IdCount`].
pub(crate) fn check_count(ids: &[u64], rows: usize) -> Result<(), BuildError> {
    if ids.len() == rows {
        return Ok(());
    }
    let ids = ids.len();
    Err(BuildError::IdCount { ids, rows })
}

/// Rows that are sorted in one go: some milliseconds.
const RUN: usize = 1 << 16;

/// The numbers of `ids` in the order of these, equal ones in their own order. Runs are sorted and then merged, with a
/// look at `watch` all along.
fn sorted(ids: &[u64], watch: &Watch<'_>) -> Result<Vec<usize>, BuildError> {
    let mut order: Vec<usize> = reserve::room(ids.len())?;
    for start in (0..ids.len()).step_by(RUN) {
        let run = start..(start + RUN).min(ids.len());
        order.extend(run.clone());
        order[run].sort_unstable_by_key(|&row| (ids[row], row));
        watch.look()?;
    }
    let mut merged = reserve::room(if ids.len() > RUN { ids.len() } else { 0 })?;
    let mut width = RUN;
    while width < ids.len() {
        merged.clear();
        for pair in order.chunks(2 * width) {
            let (mut a, mut b) = pair.split_at(width.min(pair.len()));
            while let (Some(&first), Some(&second)) = (a.first(), b.first()) {
                if ids[first] <= ids[second] {
                    merged.push(first);
                    a = &a[1..];
                } else {
                    merged.push(second);
                    b = &b[1..];
                }
                watch.glance()?;
            }
            merged.extend_from_slice(a);
            merged.extend_from_slice(b);
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

/// The ids that a table keeps, in as few bytes as they need: the place of an id is the place of its row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ids<'a> {
    /// The numbers from this one on.
    From(usize),
    Narrow(&'a [u32]),
    Wide(&'a [u64]),
}

impl Ids<'_> {
    /// The id at `place`.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> u64 {
        match self {
            Self::From(first) => (first + place) as u64,
            Self::Narrow(ids) => u64::from(ids[place]),
            Self::Wide(ids) => ids[place],
        }
    }

    /// Those of `count` places.
    pub(crate) fn all(&self, count: usize) -> Vec<u64> {
        (0..count).map(|place| self.at(place)).collect()
    }

    /// The place of `id`, of `count` places with ascending ids.
    pub(crate) fn place(&self, id: u64, count: usize) -> Option<usize> {
        let narrow = || u32::try_from(id).ok();
        match self {
            Self::From(first) => {
                let place = id.checked_sub(*first as u64)?;
                usize::try_from(place).ok().filter(|&place| place < count)
            }
            Self::Narrow(ids) => ids.binary_search(&narrow()?).ok(),
            Self::Wide(ids) => ids.binary_search(&id).ok(),
        }
    }

    /// About which share of the first `count` rows `filter` allows.
    pub(crate) fn allowed(&self, filter: &Filter, count: usize) -> f64 {
        let tried = || {
            let tried = (0..count).step_by(count.div_ceil(SAMPLE).max(1));
            let allowed = tried.clone().filter(|&place| filter.allows(self.at(place)));
            // One is added, as a sample of which none is allowed does not show that none is.
            (allowed.count() + 1) as f64 / (tried.count() + 1) as f64
        };
        match filter.count() {
            Some(allowed) if allowed as usize <= count / SAMPLE => allowed as f64 / count as f64,
            // A set may be of several tables' ids, so no more than this of them are this table's.
            Some(allowed) => tried().min(allowed as f64 / count as f64),
            None => tried(),
        }
    }

    /// Hints that the id at `place` will be read.
    pub(crate) fn prefetch(&self, place: usize) {
        match self {
            Self::From(_) => {}
            Self::Narrow(ids) => kernel::prefetch(&ids[place], size_of::<u32>()),
            Self::Wide(ids) => kernel::prefetch(&ids[place], size_of::<u64>()),
        }
    }
}

/// Whether `id` needs eight bytes.
pub(crate) fn is_wide(id: u64) -> bool {
    u32::try_from(id).is_err()
}

/// Where an image has ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdSection {
    section: Section,
    wide: bool,
}

impl IdSection {
    /// Adds a section for `count` ids.
    pub(crate) fn add(draft: &mut Draft, name: &'static str, count: usize, wide: bool) -> Self {
        let bytes = count.saturating_mul(bytes_of(wide));
        let section = draft.add(name, bytes);
        Self { section, wide }
    }

    /// Writes `ids` from `start` on.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(crate) fn write(
        self,
        image: &mut ImageMut,
        start: usize,
        ids: impl Iterator<Item = u64>,
        watch: &Watch<'_>,
    ) -> Result<(), BuildError> {
        if self.wide {
            let places = image.section_mut::<u64>(self.section)[start..].iter_mut();
            for (place, id) in places.zip(ids) {
                *place = id;
                watch.glance()?;
            }
        } else {
            let places = image.section_mut::<u32>(self.section)[start..].iter_mut();
            for (place, id) in places.zip(ids) {
                *place = id as u32;
                watch.glance()?;
            }
        }
        Ok(())
    }

    /// The section `name` of `count` ids.
    ///
    /// # Errors
    /// [`FileError::Damaged`] if there is none of that size.
    pub(crate) fn find(
        image: &Image,
        name: &str,
        count: usize,
        wide: bool,
    ) -> Result<Self, FileError> {
        let section = match wide {
            true => image.find_values::<u64>(name, count),
            false => image.find_values::<u32>(name, count),
        };
        let section = section?;
        Ok(Self { section, wide })
    }

    /// The ids.
    #[inline]
    pub(crate) fn of(self, image: &Image) -> Ids<'_> {
        match self.wide {
            true => Ids::Wide(image.section(self.section)),
            false => Ids::Narrow(image.section(self.section)),
        }
    }
}

fn bytes_of(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ids: &[u64]) -> Result<RowIds<'_>, BuildError> {
        RowIds::new(Some(ids), ids.len(), &Watch::none())
    }

    #[test]
    fn an_id_given_twice_is_named_with_its_rows() {
        let twice = of(&[9, 4, 9, 1]).err();
        let (id, first, second) = (9, 0, 2);
        assert_eq!(twice, Some(BuildError::IdTwice { id, first, second }));
        let twice = of(&[1, 4, 4]).err();
        let (id, first, second) = (4, 1, 2);
        assert_eq!(twice, Some(BuildError::IdTwice { id, first, second }));
    }

    #[test]
    fn more_ids_than_one_run_are_merged() {
        // A number that has no inverse modulo the next power of two would repeat.
        let count = 3 * RUN as u64 + 17;
        let ids: Vec<u64> = (0..count)
            .map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let rows = of(&ids).unwrap();
        let ranked: Vec<u64> = (0..ids.len()).map(|at| rows.of(rows.ranked(at))).collect();
        assert!(ranked.is_sorted_by(|a, b| a < b));
    }

    proptest! {
        #[test]
        fn ids_are_found_where_they_are(ids in prop::collection::btree_set(any::<u64>(), 0..50), other: u64) {
            let ids: Vec<u64> = ids.into_iter().collect();
            let narrow: Vec<u32> = (0..ids.len() as u32).map(|at| 3 * at).collect();
            for (place, &id) in ids.iter().enumerate() {
                prop_assert_eq!(Ids::Wide(&ids).place(id, ids.len()), Some(place));
                prop_assert_eq!(Ids::Narrow(&narrow).place(3 * place as u64, ids.len()), Some(place));
                prop_assert_eq!(Ids::Narrow(&narrow).place((1 << 32) + 3 * place as u64, ids.len()), None);
                prop_assert_eq!(Ids::From(7).place(7 + place as u64, ids.len()), Some(place));
            }
            prop_assert_eq!(Ids::Wide(&ids).place(other, ids.len()).is_some(), ids.contains(&other));
            prop_assert_eq!(Ids::From(7).place(7 + ids.len() as u64, ids.len()), None);
            prop_assert_eq!(Ids::From(7).place(6, ids.len()), None);
        }
    }
}
