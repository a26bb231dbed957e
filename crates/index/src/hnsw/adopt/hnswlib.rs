//! Files that hnswlib's `save_index` writes (0.5 to 0.8; the C++ library's `saveIndex`).
//!
//! Little-endian, as a 64-bit build writes it. `hnswalg.h` of hnswlib is the only description; this is what it does:
//!
//! | part | holds |
//! |---|---|
//! | header | `offset of the ground links u64, capacity u64, elements u64, element size u64, offset of the label u64, offset of the row u64, highest layer i32, entry u32, M u64, M ground u64, M u64, level scale f64, ef_construction u64` |
//! | elements | each: links of the ground layer, the row, `label u64` |
//! | higher layers | each element: `bytes u32`, then for each layer from the first: links |
//!
//! Links are `count u16, flags u16`, then room for M (on the ground `2 M`) element numbers, `u32`. Bit 0 of the flags
//! of the ground links marks an element as deleted.

use std::path::Path;

use super::{Descent, Graph, HnswTable};
use crate::error::BuildError;
use crate::foreign::{Source, floats};
use crate::hnsw::config::HnswConfig;
use crate::hnsw::walk::MAX_NODES;
use crate::progress::Watch;
use crate::rows;

/// hnswlib's own limit.
const MAX_M: u64 = 10_000;

impl HnswTable {
    /// A table of an index that hnswlib saved, over rows of `f32`. Ids are hnswlib's labels.
    ///
    /// The file does not say the metric. Give [`Metric::L2`](crate::Metric::L2) for hnswlib's space `l2`,
    /// [`Metric::InnerProduct`](crate::Metric::InnerProduct) for `ip` (hnswlib reports `1 - product`, the table
    /// `-product`), [`Metric::Cosine`](crate::Metric::Cosine) for `cosine`. At the same `ef` the table finds what
    /// hnswlib finds, where no two distances tie or differ by rounding alone. Of `config` everything counts but the
    /// settings of a build.
    ///
    /// ```no_run
    /// use chiplet_index::{HnswConfig, HnswTable, Metric};
    /// let table = HnswTable::from_hnswlib("songs.bin", 128, &HnswConfig::new(Metric::Cosine))?;
    /// # Ok::<(), chiplet_index::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::File`] for what cannot be read, is damaged, of another dimension or not of `f32`;
    /// [`BuildError::File`] also where elements are marked as deleted, as a table has no hidden rows;
    /// [`BuildError::NotNormalized`] for [`Metric::Cosine`](crate::Metric::Cosine) and an index of another space. Else
    /// as [`HnswTable::from_graph`].
    pub fn from_hnswlib(
        path: impl AsRef<Path>,
        dim: usize,
        config: &HnswConfig,
    ) -> Result<Self, BuildError> {
        let found = read(path.as_ref(), dim)?;
        rows::check(&found.rows, dim, config.metric, &Watch::none())?;
        for (row, id) in found.rows.chunks_exact(dim).zip(0..) {
            rows::check_unit(id, row, config.metric)?;
        }
        Self::adopt(
            &found.rows,
            dim,
            &found.graph,
            Descent::Greedy,
            config,
            |row| found.labels[row],
        )
    }
}

/// What a file holds.
struct Found {
    rows: Vec<f32>,
    labels: Vec<u64>,
    graph: Graph,
}

/// What the header says, checked against the dimension and itself.
struct Header {
    elements: usize,
    element_bytes: usize,
    m: usize,
    top: usize,
    entry: u32,
}

fn read(path: &Path, dim: usize) -> Result<Found, BuildError> {
    if dim == 0 {
        return Err(BuildError::ZeroDimension);
    }
    let mut source = Source::open(path)?;
    let header = header(&mut source, dim)?;
    let Header { elements, m, .. } = header;
    let ground_bytes = links_bytes(2 * m);
    let mut found = Found {
        rows: Vec::with_capacity(elements * dim),
        labels: Vec::with_capacity(elements),
        graph: Graph {
            entry: header.entry,
            links: Vec::with_capacity(elements),
        },
    };
    let mut element = vec![
        0;
        if elements == 0 {
            0
        } else {
            header.element_bytes
        }
    ];
    let mut deleted = 0;
    for number in 0..elements {
        source.fill(&mut element)?;
        let (ground, rest) = element.split_at(ground_bytes);
        let (row, label) = rest.split_at(dim * 4);
        deleted += usize::from(ground[2] & 1);
        found
            .graph
            .links
            .push(vec![links(&source, number, ground)?]);
        found.rows.extend(floats(row));
        found.labels.extend(
            label
                .as_chunks()
                .0
                .iter()
                .map(|&label| u64::from_le_bytes(label)),
        );
    }
    let layer_bytes = links_bytes(m);
    let mut layer = vec![0; layer_bytes];
    for number in 0..elements {
        let bytes = source.u32()? as usize;
        let layers = bytes / layer_bytes;
        source.expect(bytes.is_multiple_of(layer_bytes) && layers <= header.top, || {
            format!("element {number} has {bytes} bytes of links on higher layers, which is no number of layers up to {} of {layer_bytes} bytes each", header.top)
        })?;
        for _ in 0..layers {
            source.fill(&mut layer)?;
            let links = links(&source, number, &layer)?;
            found.graph.links[number].push(links);
        }
    }
    source.expect(deleted == 0, || {
        format!(
            "{deleted} of {elements} elements are marked as deleted, and a table has no hidden rows; build the index from \
             the others and save it again"
        )
    })?;
    source.end()?;
    Ok(found)
}

fn header(source: &mut Source, dim: usize) -> Result<Header, BuildError> {
    let offset = source.u64()?;
    let _capacity = source.u64()?;
    let elements = source.u64()?;
    let element_bytes = source.u64()?;
    let label_at = source.u64()?;
    let row_at = source.u64()?;
    let top = i32::from_le_bytes(source.array()?);
    let entry = source.u32()?;
    let [m, m_ground, m_again] = [source.u64()?, source.u64()?, source.u64()?];
    let _level_scale = source.u64()?;
    let _ef_construction = source.u64()?;
    let links_agree = (1..=MAX_M).contains(&m) && m_ground == 2 * m && m_again == m;
    source.expect(offset == 0 && links_agree, || {
        format!("it does not begin as a file of hnswlib does: links {m}, {m_ground}, {m_again} at offset {offset}")
    })?;
    let expected_row_at = links_bytes(2 * m as usize) as u64;
    let row_bytes = label_at.wrapping_sub(row_at);
    source.expect(row_at == expected_row_at && element_bytes == label_at.wrapping_add(8), || {
        format!("its elements do not add up: {element_bytes} bytes, the row at {row_at}, the label at {label_at}")
    })?;
    source.expect(dim.checked_mul(4).is_some_and(|bytes| bytes as u64 == row_bytes), || {
        format!("its rows are of {row_bytes} bytes, which is not {dim} components of 4 bytes each; give the dimension that it was built with")
    })?;
    // Each has the size of its higher layers, too.
    let elements = source.expect_room(elements, element_bytes.saturating_add(4), "elements")?;
    if elements > MAX_NODES {
        return Err(BuildError::TooManyRows {
            rows: elements,
            limit: MAX_NODES,
        });
    }
    Ok(Header {
        elements,
        element_bytes: element_bytes as usize,
        m: m as usize,
        // -1 in an empty index.
        top: top.max(0) as usize,
        entry,
    })
}

/// Bytes of a list with room for `most` links.
fn links_bytes(most: usize) -> usize {
    4 + 4 * most
}

fn links(source: &Source, number: usize, list: &[u8]) -> Result<Vec<u32>, BuildError> {
    let (head, places) = list.split_at(4);
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let places = places.as_chunks().0;
    source.expect(count <= places.len(), || {
        format!(
            "element {number} has {count} links where there is room for {}",
            places.len()
        )
    })?;
    Ok(places[..count]
        .iter()
        .map(|&link| u32::from_le_bytes(link))
        .collect())
}
