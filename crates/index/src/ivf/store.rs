//! What a table that scans its lists itself keeps in memory and in its file: one [`Image`].
//!
//! | section | holds |
//! | --- | --- |
//! | `starts` | `u64`: the row number of each list's first row, then the number of rows |
//! | `ids` | `u32` or `u64`, by row number |
//! | `codes` | the lists, each aligned to 64 bytes, in blocks (`kernel::blocks`), and [`SLACK`] bytes |
//! | `centroids` | `f32`: the lists' centroids in blocks, those of each group together, and [`SLACK`] bytes |
//! | `groups` | `u64`: each group's first list, then the number of lists |
//! | `group-centroids` | `f32`: the groups' centroids in blocks, and [`SLACK`] bytes |
//! | `matrix`, `shift` | `f32`: how rows and queries are mapped first (`linear`) |
//! | `centroid-rows` | `f32`, `[lists][dim]`: where residuals are taken from them |
//! | `values` | `f32`: of 8-bit codes all bases, then steps; of a product quantizer `[m][dim / m][entries]` |
//! | `full` | the rows in the order of their ids, if answers are refined |
//! | `full-ids` | their ids, ascending, `u32` or `u64`; absent if they are row numbers |
//! | `full-low` | `f32`: what their 8-bit code 0 stands for, by component |
//!
//! **Nothing that is read from a file is believed.** Sizes and the starts of lists are checked when it is opened. Wrong
//! ids, codes and values give wrong answers at worst: no search reads beside its list, panics, or runs for ever.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::full::Full;
use super::linear::Linear;
use crate::hnsw::Grid;
use crate::ids::{IdSection, Ids};
use crate::image::{FileError, Image, Section};
use crate::kernel::{Bits, Cell, List, Rows, SLACK};
use crate::metric::Metric;
use crate::stored_rows::StoredRows;

/// The kind of table that files name.
pub(crate) const KIND: &str = "ivf";

/// Bytes that each list begins at a multiple of: a cache line.
const ALIGN: usize = 64;

/// What a table is, apart from its arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub(super) metric: Metric,
    /// Components of what is coded.
    pub(super) dim: usize,
    /// Components of rows and queries, where they are mapped to `dim` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mapped_from: Option<usize>,
    pub(super) rows: usize,
    pub(super) lists: usize,
    /// Groups that lists are found through, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<usize>,
    pub(super) coding: Coding,
    /// Whether codes are of rows less their list's centroid.
    pub(super) residual: bool,
    /// Whether ids take eight bytes.
    pub(super) large_ids: bool,
    /// Lists visited by a query that does not say how many.
    pub(super) nprobe: usize,
    pub(super) grain: usize,
    /// How the rows are kept once more, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) full: Option<Full>,
}

/// What codes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Coding {
    /// Components as they are.
    F32,
    F16,
    Bf16,
    /// Component `i` is `base[i] + step[i] * code`.
    Scaled,
    /// Numbers of centroids of `m` parts, of four bits each.
    Product4 {
        m: usize,
    },
    /// The same, of eight bits.
    Product8 {
        m: usize,
    },
}

impl Coding {
    /// Components of a row of `dim`, and the bytes of each, as far as blocks know.
    pub(super) fn cells(self, dim: usize) -> (usize, usize) {
        match self {
            Self::F32 => (dim, Cell::F32.bytes()),
            Self::F16 | Self::Bf16 => (dim, Cell::F16.bytes()),
            Self::Scaled => (dim, Cell::U8.bytes()),
            Self::Product4 { m } => (Bits::Four.row_bytes(m), 1),
            Self::Product8 { m } => (Bits::Eight.row_bytes(m), 1),
        }
    }

    /// Bytes of a query's tables of entries: each is there as a float and as a byte.
    pub(super) fn table_bytes(self) -> usize {
        let entry = size_of::<f32>() + size_of::<u8>();
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::Scaled => 0,
            Self::Product4 { m } => m * Bits::Four.entries() * entry,
            Self::Product8 { m } => m * Bits::Eight.entries() * entry,
        }
    }

    /// Floats in `values`, if there are not too many.
    pub(super) fn values(self, dim: usize) -> Option<usize> {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => Some(0),
            Self::Scaled => dim.checked_mul(2),
            Self::Product4 { .. } => dim.checked_mul(Bits::Four.entries()),
            Self::Product8 { .. } => dim.checked_mul(Bits::Eight.entries()),
        }
    }
}

impl Shape {
    /// Whether each list needs a query of its own: the query less its centroid.
    pub(super) fn by_list(&self) -> bool {
        self.residual && self.metric == Metric::L2
    }

    /// Components of rows and queries, as they come.
    pub(super) fn given_dim(&self) -> usize {
        self.mapped_from.unwrap_or(self.dim)
    }

    /// Bytes of a row's code; `None` if that is more than memory has.
    pub(super) fn row_bytes(&self) -> Option<usize> {
        let (cells, cell) = self.coding.cells(self.dim);
        cells.checked_mul(cell)
    }

    /// Why no table has this shape.
    fn check(&self) -> Result<(), &'static str> {
        if self.dim == 0 || self.mapped_from == Some(0) {
            return Err("its vectors have no components");
        }
        if self.lists == 0 || u32::try_from(self.lists).is_err() {
            return Err("it has no lists, or too many");
        }
        if self.nprobe == 0 || self.grain == 0 {
            return Err("its queries would visit no lists");
        }
        if self
            .groups
            .is_some_and(|groups| groups == 0 || groups > self.lists)
        {
            return Err("it has no groups of lists, or too many");
        }
        if let Some(full) = self.full {
            full.check(self.given_dim())?;
        }
        match self.coding {
            Coding::Product4 { m } | Coding::Product8 { m }
                if m == 0 || !self.dim.is_multiple_of(m) =>
            {
                Err("its codes do not fit its dimension")
            }
            _ => Ok(()),
        }
    }
}

/// The arrays of a table.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) image: Image,
    pub(super) shape: Shape,
    pub(super) sections: Sections,
    pub(super) row_bytes: usize,
}

/// Where the arrays are.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) starts: Section,
    pub(super) ids: IdSection,
    pub(super) codes: Section,
    pub(super) centroids: Section,
    /// Where groups of lists begin, and their centroids.
    pub(super) groups: Option<(Section, Section)>,
    /// The number of each group's first list, then the number of lists; without groups all lists are one.
    pub(super) group_starts: Vec<usize>,
    /// Where each group's lists begin, in bytes of `centroids`, and where the last one's end.
    pub(super) group_offsets: Vec<usize>,
    /// The matrix and the shift.
    pub(super) map: Option<(Section, Section)>,
    pub(super) centroid_rows: Option<Section>,
    pub(super) values: Section,
    /// The rows once more, and what their codes stand for.
    pub(super) full: Option<(Section, Section)>,
    /// The ids of these rows, if they are not row numbers.
    pub(super) full_ids: Option<IdSection>,
    /// Where each list's codes begin, in bytes of `codes`, and where the last one's end.
    pub(super) offsets: Vec<usize>,
}

impl Store {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes of a row's code.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The row numbers of `list`.
    ///
    /// # Panics
    /// If there is no such list.
    fn range(&self, list: usize) -> Range<usize> {
        let starts: &[u64] = self.image.section(self.sections.starts);
        starts[list] as usize..starts[list + 1] as usize
    }

    /// Rows in `list`.
    ///
    /// # Panics
    /// If there is no such list.
    pub(super) fn len(&self, list: usize) -> usize {
        self.range(list).len()
    }

    /// The codes and ids of `list`.
    ///
    /// # Panics
    /// If there is no such list.
    pub(super) fn list(&self, list: usize) -> (List<'_>, Ids<'_>) {
        let range = self.range(list);
        let rows = range.len();
        let codes: &[u8] = self.image.section(self.sections.codes);
        let codes = &codes[self.sections.offsets[list]..];
        let ids = match self.ids() {
            Ids::Narrow(ids) => Ids::Narrow(&ids[range]),
            Ids::Wide(ids) => Ids::Wide(&ids[range]),
            Ids::From(first) => Ids::From(first + range.start),
        };
        (List { codes, rows }, ids)
    }

    /// The ids of all rows, by their numbers.
    pub(super) fn ids(&self) -> Ids<'_> {
        self.sections.ids.of(&self.image)
    }

    /// The row of this number as it is kept: once more, or by its code if that stands for components.
    pub(super) fn row(&self, number: usize) -> Option<Vec<f32>> {
        let shape = &self.shape;
        if number >= shape.rows {
            return None;
        }
        if let Some(full) = self.full() {
            return full.row(full.ids.place(self.ids().at(number), shape.rows)?);
        }
        // Of residuals under products the centroids are kept in blocks alone.
        if shape.mapped_from.is_some() || shape.residual && !shape.by_list() {
            return None;
        }
        let starts: &[u64] = self.image.section(self.sections.starts);
        let list = starts.partition_point(|&start| start <= number as u64) - 1;
        let at = number - starts[list] as usize;
        let (codes, _) = self.list(list);
        let mut row: Vec<f32> = match shape.coding {
            Coding::F32 => codes.row(at, shape.dim).map(f32::from_le_bytes).collect(),
            Coding::F16 => {
                let cells = codes.row(at, shape.dim);
                cells
                    .map(|x| half::f16::from_le_bytes(x).to_f32())
                    .collect()
            }
            Coding::Bf16 => {
                let cells = codes.row(at, shape.dim);
                cells
                    .map(|x| half::bf16::from_le_bytes(x).to_f32())
                    .collect()
            }
            Coding::Scaled => {
                let (base, step) = self.values().split_at(shape.dim);
                let cells = codes.row(at, shape.dim).zip(base.iter().zip(step));
                let value =
                    |([code], (base, step)): ([u8; 1], (&f32, &f32))| base + step * f32::from(code);
                cells.map(value).collect()
            }
            Coding::Product4 { .. } | Coding::Product8 { .. } => return None,
        };
        if shape.by_list() {
            let centroid = self.centroid(list);
            row.iter_mut().zip(centroid).for_each(|(x, c)| *x += c);
        }
        Some(row)
    }

    /// The centroids of groups of lists, if there are any.
    pub(super) fn groups(&self) -> Option<List<'_>> {
        Some(List {
            codes: self.image.section(self.sections.groups?.1),
            rows: self.shape.groups?,
        })
    }

    /// The centroids of the lists of `group`, and the first one's number. Without groups group 0 has all.
    ///
    /// # Panics
    /// If there is no such group.
    pub(super) fn group(&self, group: usize) -> (List<'_>, usize) {
        let Sections {
            group_starts,
            group_offsets,
            centroids,
            ..
        } = &self.sections;
        let codes: &[u8] = self.image.section(*centroids);
        let (first, end) = (group_starts[group], group_starts[group + 1]);
        let codes = &codes[group_offsets[group]..];
        let rows = end - first;
        (List { codes, rows }, first)
    }

    /// What rows and queries are mapped by, if they are.
    pub(super) fn map(&self) -> Option<Linear<'_>> {
        let (matrix, shift) = self.sections.map?;
        Some(Linear {
            from: self.shape.mapped_from?,
            matrix: self.image.section(matrix),
            shift: self.image.section(shift),
        })
    }

    /// The centroid of `list`.
    ///
    /// # Panics
    /// If there is no such list, or the shape is not [`Shape::by_list`].
    pub(super) fn centroid(&self, list: usize) -> &[f32] {
        let rows = self.sections.centroid_rows.expect("residuals are taken");
        let rows: &[f32] = self.image.section(rows);
        &rows[list * self.shape.dim..][..self.shape.dim]
    }

    /// What codes mean: see the table above.
    pub(super) fn values(&self) -> &[f32] {
        self.image.section(self.sections.values)
    }

    /// The rows once more, if they are kept.
    pub(super) fn full(&self) -> Option<StoredRows<'_>> {
        let full = self.shape.full?;
        let Full { format, step, .. } = full;
        let (rows, low) = self.sections.full?;
        Some(StoredRows {
            dim: self.shape.given_dim(),
            format,
            metric: self.shape.metric,
            rows: Rows::new(
                self.image.section(rows),
                full.stride(self.shape.given_dim()),
            ),
            ids: match self.sections.full_ids {
                Some(ids) => ids.of(&self.image),
                None => Ids::From(0),
            },
            grid: Grid {
                low: self.image.section(low),
                step,
            },
        })
    }

    /// All of the memory.
    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The table in `image`.
    ///
    /// # Errors
    /// [`FileError::OtherKind`], [`FileError::Damaged`].
    pub(super) fn open(image: Image) -> Result<Self, FileError> {
        image.expect_kind(KIND)?;
        let shape: Shape = image.meta()?;
        shape.check().map_err(|reason| image.damaged(reason))?;
        let too_large = || image.damaged("it is larger than any memory");
        let row_bytes = shape.row_bytes().ok_or_else(too_large)?;
        let edges = shape.lists + 1;
        let starts = image.find_values::<u64>("starts", edges)?;
        let offsets = offsets(image.section(starts), shape.rows, row_bytes);
        let offsets = offsets.ok_or_else(|| image.damaged("its lists do not follow each other"))?;
        let codes = offsets[shape.lists].checked_add(SLACK);
        let codes = image.find_values::<u8>("codes", codes.ok_or_else(too_large)?)?;
        let ids = IdSection::find(&image, "ids", shape.rows, shape.large_ids)?;
        let middles = shape.lists.checked_mul(shape.dim).ok_or_else(too_large)?;
        let middle_bytes = shape.dim.checked_mul(size_of::<f32>());
        let middle_bytes = middle_bytes.ok_or_else(too_large)?;
        let groups = match shape.groups {
            Some(groups) => {
                let starts = image.find_values::<u64>("groups", groups + 1)?;
                let bytes = groups.checked_mul(middle_bytes);
                let bytes = bytes.and_then(|bytes| bytes.checked_add(SLACK));
                let bytes = bytes.ok_or_else(too_large)?;
                Some((starts, image.find_values::<u8>("group-centroids", bytes)?))
            }
            None => None,
        };
        let all = [0, shape.lists as u64];
        let starts_of_groups = match groups {
            Some((starts, _)) => image.section(starts),
            None => &all[..],
        };
        let group_offsets = self::offsets(starts_of_groups, shape.lists, middle_bytes);
        let group_offsets =
            group_offsets.ok_or_else(|| image.damaged("its groups do not follow each other"))?;
        let group_starts = starts_of_groups.iter().map(|&start| start as usize);
        let group_starts = group_starts.collect();
        let blocks = centroid_bytes(&shape, &group_offsets).ok_or_else(too_large)?;
        let centroids = image.find_values::<u8>("centroids", blocks)?;
        let map = match shape.mapped_from {
            Some(from) => {
                let values = from.checked_mul(shape.dim).ok_or_else(too_large)?;
                let matrix = image.find_values::<f32>("matrix", values)?;
                Some((matrix, image.find_values::<f32>("shift", shape.dim)?))
            }
            None => None,
        };
        let centroid_rows = match shape.by_list() {
            true => Some(image.find_values::<f32>("centroid-rows", middles)?),
            false => None,
        };
        let values = shape.coding.values(shape.dim).ok_or_else(too_large)?;
        let full = match shape.full {
            Some(full) => {
                let dim = shape.given_dim();
                let bytes = full.bytes(shape.rows, dim).ok_or_else(too_large)?;
                let rows = image.find_values::<u8>("full", bytes)?;
                let low = image.find_values::<f32>("full-low", full.values(dim))?;
                Some((rows, low))
            }
            None => None,
        };
        let full_ids = match shape.full {
            Some(full) if full.ids => {
                let (rows, wide) = (shape.rows, shape.large_ids);
                Some(IdSection::find(&image, "full-ids", rows, wide)?)
            }
            _ => None,
        };
        let sections = Sections {
            starts,
            ids,
            codes,
            centroids,
            groups,
            group_starts,
            group_offsets,
            map,
            centroid_rows,
            values: image.find_values::<f32>("values", values)?,
            full,
            full_ids,
            offsets,
        };
        Ok(Self {
            image,
            shape,
            sections,
            row_bytes,
        })
    }
}

/// Bytes of the section `centroids`, if there are not too many. Centroids that are in no groups have always been one
/// after the other, without room for a next group.
pub(super) fn centroid_bytes(shape: &Shape, group_offsets: &[usize]) -> Option<usize> {
    let bytes = match shape.groups {
        Some(_) => *group_offsets.last()?,
        None => shape
            .lists
            .checked_mul(shape.dim)?
            .checked_mul(size_of::<f32>())?,
    };
    bytes.checked_add(SLACK)
}

/// Where lists of `starts` begin in bytes, and where the last one ends; `None` if they are not in order, or do not hold
/// `rows`.
pub(super) fn offsets(starts: &[u64], rows: usize, row_bytes: usize) -> Option<Vec<usize>> {
    if starts.first() != Some(&0) || starts.last() != Some(&(rows as u64)) {
        return None;
    }
    let mut offsets = Vec::with_capacity(starts.len());
    offsets.push(0);
    let mut end = 0_usize;
    for edges in starts.windows(2) {
        let rows = usize::try_from(edges[1].checked_sub(edges[0])?).ok()?;
        let bytes = rows.checked_mul(row_bytes)?;
        end = end.checked_add(bytes.checked_next_multiple_of(ALIGN)?)?;
        offsets.push(end);
    }
    Some(offsets)
}
