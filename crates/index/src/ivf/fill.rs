//! A [`Store`] in the making: first sizes, then one list after the other.

use chiplet_memory::{MemoryError, Pages};

use super::full::Full;
use super::store::{KIND, Places, Shape, Store, offsets};
use crate::hnsw::{Grid, Grids};
use crate::image::{Draft, ImageMut};
use crate::kernel::{BLOCK, SLACK};

/// A [`Store`] that is being filled, one list after the other.
pub(super) struct Filler {
    image: ImageMut,
    shape: Shape,
    places: Places,
    /// Components of a row and bytes of each, as far as blocks know.
    cells: (usize, usize),
}

impl Filler {
    /// Memory for a table of `shape` with lists of `lens` rows. `centroids` are `[lists][dim]`, `values` as the section has
    /// them.
    ///
    /// # Panics
    /// If they do not fit each other.
    pub(super) fn new(
        shape: Shape,
        lens: &[usize],
        centroids: &[f32],
        values: &[f32],
        pages: Pages,
    ) -> Result<Self, MemoryError> {
        let cells = shape.coding.cells(shape.dim);
        let row_bytes = cells.0 * cells.1;
        let starts: Vec<u64> = std::iter::once(0)
            .chain(lens.iter().scan(0, |rows, &len| {
                *rows += len as u64;
                Some(*rows)
            }))
            .collect();
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
        let mut draft = Draft::new();
        let id_bytes = if shape.large_ids { 8 } else { 4 };
        let places = Places {
            starts: draft.add("starts", size_of_val(&starts[..])),
            ids: draft.add("ids", shape.rows * id_bytes),
            codes: draft.add("codes", offsets[shape.lists] + SLACK),
            centroids: draft.add("centroids", size_of_val(centroids) + SLACK),
            centroid_rows: shape
                .by_list()
                .then(|| draft.add("centroid-rows", size_of_val(centroids))),
            values: draft.add("values", size_of_val(values)),
            full: match shape.full {
                Some(full) => {
                    let bytes = full.bytes(shape.rows, shape.dim);
                    // More than there is: refused when it is allocated.
                    let rows = draft.add("full", bytes.unwrap_or(usize::MAX));
                    Some((rows, draft.add("full-low", 4 * full.values(shape.dim))))
                }
                None => None,
            },
            offsets,
        };
        let mut image = draft.allocate(pages)?;
        image.section_mut(places.starts).copy_from_slice(&starts);
        image.section_mut(places.values).copy_from_slice(values);
        if let Some(rows) = places.centroid_rows {
            image.section_mut(rows).copy_from_slice(centroids);
        }
        let row = shape.dim * size_of::<f32>();
        let blocks = &mut image.section_mut::<u8>(places.centroids)[..size_of_val(centroids)];
        pack(
            bytemuck::cast_slice(centroids),
            row,
            size_of::<f32>(),
            blocks,
        );
        Ok(Self {
            image,
            shape,
            places,
            cells,
        })
    }

    /// The rows of `list`: their ids, and their codes one row after the other.
    ///
    /// # Panics
    /// If they are more or fewer than was said.
    pub(super) fn fill(&mut self, list: usize, ids: &[i64], codes: &[u8]) {
        let starts: &mut [u64] = self.image.section_mut(self.places.starts);
        let range = starts[list] as usize..starts[list + 1] as usize;
        let row_bytes = self.cells.0 * self.cells.1;
        assert_eq!(
            (ids.len(), codes.len()),
            (range.len(), range.len() * row_bytes),
            "rows of list {list}"
        );
        let to = self.image.section_mut::<u8>(self.places.codes);
        let to = &mut to[self.places.offsets[list]..][..codes.len()];
        pack(codes, row_bytes, self.cells.1, to);
        let from = ids.iter();
        if self.shape.large_ids {
            let to = self.image.section_mut::<u64>(self.places.ids)[range].iter_mut();
            to.zip(from).for_each(|(to, id)| *to = id.cast_unsigned());
        } else {
            let to = self.image.section_mut::<u32>(self.places.ids)[range].iter_mut();
            to.zip(from).for_each(|(to, &id)| *to = id as u32);
        }
    }

    /// The rows once more (`[n][dim]`, prepared for the metric), the row with id `i` in place `i`.
    ///
    /// # Panics
    /// If they are more or fewer than was said, or the shape has no such rows, or another step than `low` goes with.
    pub(super) fn fill_full(&mut self, rows: &[f32], low: &[f32]) {
        let Shape { dim, metric, .. } = self.shape;
        let full = self.shape.full.expect("a shape that has the rows twice");
        let (place, values) = self.places.full.expect("the shape's sections");
        assert_eq!(rows.len(), self.shape.rows * dim, "rows of another table");
        self.image.section_mut::<f32>(values).copy_from_slice(low);
        let Full { format, step } = full;
        let grids = Grids::of_bytes(Grid { low, step });
        let to = self.image.section_mut::<u8>(place);
        let to = to.chunks_exact_mut(format.stride(dim));
        for (to, row) in to.zip(rows.chunks_exact(dim)) {
            grids.write(format, metric, row, to);
        }
    }

    pub(super) fn finish(self) -> Store {
        let image = self.image.freeze(KIND, &self.shape);
        Store {
            image: image.expect("numbers and names, which JSON can say"),
            shape: self.shape,
            places: self.places,
            row_bytes: self.cells.0 * self.cells.1,
        }
    }
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
