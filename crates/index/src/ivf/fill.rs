//! A [`Store`] in the making: first sizes, then one list after the other.

use chiplet_memory::MemoryPolicy;

use super::full::Full;
use super::groups::Groups;
use super::linear::Linear;
use super::store::{KIND, Sections, Shape, Store, centroid_bytes, offsets};
use crate::error::BuildError;
use crate::hnsw::{Grid, Grids};
use crate::ids::{IdSection, RowIds};
use crate::image::{Draft, ImageMut};
use crate::kernel::{BLOCK, SLACK};
use crate::progress::Watch;

/// A [`Store`] that is being filled, one list after the other.
pub(super) struct Filler {
    image: ImageMut,
    shape: Shape,
    sections: Sections,
    /// Components of a row and bytes of each, as far as blocks know.
    cells: (usize, usize),
}

impl Filler {
    /// Memory for a table of `shape` with lists of `lens` rows. `centroids` are `[lists][dim]`, in the order of
    /// `groups` if there are any, `values` as the section has them.
    ///
    /// # Panics
    /// If they do not fit each other.
    pub(super) fn new(
        shape: Shape,
        lens: &[usize],
        centroids: &[f32],
        groups: Option<&Groups>,
        map: Option<Linear<'_>>,
        values: &[f32],
        memory: MemoryPolicy,
    ) -> Result<Self, BuildError> {
        let cells = shape.coding.cells(shape.dim);
        let row_bytes = cells.0 * cells.1;
        let starts = starts(lens);
        let offsets = offsets(&starts, shape.rows, row_bytes).expect("lists that hold all rows");
        assert_eq!(
            (lens.len(), centroids.len(), Some(values.len())),
            (
                shape.lists,
                shape.lists * shape.dim,
                shape.coding.values(shape.dim)
            ),
            "arrays of another shape"
        );
        let row = shape.dim * size_of::<f32>();
        let starts_of_groups = match groups {
            Some(groups) => self::starts(&groups.lens),
            None => vec![0, shape.lists as u64],
        };
        let group_offsets = self::offsets(&starts_of_groups, shape.lists, row);
        let group_offsets = group_offsets.expect("groups that hold all lists");
        let blocks = centroid_bytes(&shape, &group_offsets);
        let mut draft = Draft::new();
        let sections = Sections {
            starts: draft.add("starts", size_of_val(&starts[..])),
            ids: IdSection::add(&mut draft, "ids", shape.rows, shape.large_ids),
            codes: draft.add("codes", offsets[shape.lists] + SLACK),
            // More than there is: refused when it is allocated.
            centroids: draft.add("centroids", blocks.unwrap_or(usize::MAX)),
            groups: groups.map(|groups| {
                let starts = draft.add("groups", size_of_val(&starts_of_groups[..]));
                let bytes = size_of_val(&groups.centroids[..]) + SLACK;
                (starts, draft.add("group-centroids", bytes))
            }),
            group_starts: starts_of_groups
                .iter()
                .map(|&start| start as usize)
                .collect(),
            group_offsets,
            map: map.map(|Linear { matrix, shift, .. }| {
                let matrix = draft.add("matrix", size_of_val(matrix));
                (matrix, draft.add("shift", size_of_val(shift)))
            }),
            centroid_rows: shape
                .by_list()
                .then(|| draft.add("centroid-rows", size_of_val(centroids))),
            values: draft.add("values", size_of_val(values)),
            full: match shape.full {
                Some(full) => {
                    let bytes = full.bytes(shape.rows, shape.given_dim());
                    // More than there is: refused when it is allocated.
                    let rows = draft.add("full", bytes.unwrap_or(usize::MAX));
                    Some((
                        rows,
                        draft.add("full-low", 4 * full.values(shape.given_dim())),
                    ))
                }
                None => None,
            },
            full_ids: shape
                .full
                .is_some_and(|full| full.ids)
                .then(|| IdSection::add(&mut draft, "full-ids", shape.rows, shape.large_ids)),
            offsets,
        };
        let mut image = draft.allocate(memory)?;
        image.section_mut(sections.starts).copy_from_slice(&starts);
        image.section_mut(sections.values).copy_from_slice(values);
        if let Some(rows) = sections.centroid_rows {
            image.section_mut(rows).copy_from_slice(centroids);
        }
        let middles: &[u8] = bytemuck::cast_slice(centroids);
        let to = image.section_mut::<u8>(sections.centroids);
        for (group, edges) in sections.group_starts.windows(2).enumerate() {
            let middles = &middles[edges[0] * row..edges[1] * row];
            let to = &mut to[sections.group_offsets[group]..][..middles.len()];
            pack(middles, row, size_of::<f32>(), to);
        }
        if let (Some((starts, place)), Some(groups)) = (sections.groups, groups) {
            image.section_mut(starts).copy_from_slice(&starts_of_groups);
            let middles: &[u8] = bytemuck::cast_slice(&groups.centroids);
            let to = &mut image.section_mut::<u8>(place)[..middles.len()];
            pack(middles, row, size_of::<f32>(), to);
        }
        if let (Some((matrix, shift)), Some(map)) = (sections.map, map) {
            image.section_mut(matrix).copy_from_slice(map.matrix);
            image.section_mut(shift).copy_from_slice(map.shift);
        }
        Ok(Self {
            image,
            shape,
            sections,
            cells,
        })
    }

    /// The rows of `list`: their ids, and their codes one row after the other.
    ///
    /// # Panics
    /// If they are more or fewer than was said.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(super) fn fill(
        &mut self,
        list: usize,
        ids: &[u64],
        codes: &[u8],
        watch: &Watch<'_>,
    ) -> Result<(), BuildError> {
        let starts: &mut [u64] = self.image.section_mut(self.sections.starts);
        let range = starts[list] as usize..starts[list + 1] as usize;
        let row_bytes = self.cells.0 * self.cells.1;
        assert_eq!(
            (ids.len(), codes.len()),
            (range.len(), range.len() * row_bytes),
            "rows of list {list}"
        );
        let to = self.image.section_mut::<u8>(self.sections.codes);
        let to = &mut to[self.sections.offsets[list]..][..codes.len()];
        pack(codes, row_bytes, self.cells.1, to);
        let ids = ids.iter().copied();
        let image = &mut self.image;
        self.sections.ids.write(image, range.start, ids, watch)
    }

    /// The rows once more (`[n][dim]`, prepared for the metric), in the order of their `ids`.
    ///
    /// # Panics
    /// If they are more or fewer than was said, or the shape has no such rows, or another step than `low` goes with.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(super) fn fill_full(
        &mut self,
        rows: &[f32],
        ids: &RowIds<'_>,
        low: &[f32],
        watch: &Watch<'_>,
    ) -> Result<(), BuildError> {
        let (dim, metric) = (self.shape.given_dim(), self.shape.metric);
        let full = self.shape.full.expect("a shape that has the rows twice");
        let (place, values) = self.sections.full.expect("the shape's sections");
        assert_eq!(rows.len(), self.shape.rows * dim, "rows of another table");
        self.image.section_mut::<f32>(values).copy_from_slice(low);
        let Full { format, step, .. } = full;
        let grids = Grids::of_bytes(Grid { low, step });
        let to = self.image.section_mut::<u8>(place);
        let to = to.chunks_exact_mut(grids.stride(format, dim));
        for (at, to) in to.enumerate() {
            let row = &rows[ids.ranked(at) * dim..][..dim];
            grids.write(format, metric, row, to);
            watch.look()?;
        }
        if let Some(section) = self.sections.full_ids {
            let ascending = (0..self.shape.rows).map(|at| ids.of(ids.ranked(at)));
            section.write(&mut self.image, 0, ascending, watch)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Store {
        let image = self.image.freeze(KIND, &self.shape);
        Store {
            image: image.expect("numbers and names, which JSON can say"),
            shape: self.shape,
            sections: self.sections,
            row_bytes: self.cells.0 * self.cells.1,
        }
    }
}

/// Where parts of `lens` begin that follow each other, and where the last one ends.
fn starts(lens: &[usize]) -> Vec<u64> {
    let ends = lens.iter().scan(0, |end, &len| {
        *end += len as u64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Writes `rows`, one after the other, to blocks: the layout of `kernel::blocks`.
fn pack(rows: &[u8], row_bytes: usize, cell: usize, to: &mut [u8]) {
    let blocks = rows.chunks(BLOCK * row_bytes);
    for (rows, block) in blocks.zip(to.chunks_mut(BLOCK * row_bytes)) {
        let width = rows.len() / row_bytes;
        for (number, row) in rows.chunks_exact(row_bytes).enumerate() {
            for (component, value) in row.chunks_exact(cell).enumerate() {
                let at = (component * width + number) * cell;
                block[at..at + cell].copy_from_slice(value);
            }
        }
    }
}
