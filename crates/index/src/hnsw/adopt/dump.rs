//! Files that hnsw_rs' `file_dump` writes (0.3, formats 3 and 4): `<name>.hnsw.graph` and `<name>.hnsw.data`.
//!
//! hnsw_rs reads them too, but ends the process on some that are damaged and reads past a buffer on others. They hold,
//! in the byte order of the machine that wrote them, of which little-endian ones are read:
//!
//! | part | holds |
//! |---|---|
//! | description | `mark u32, full u8, M u8, [format 4: level scale f64,] layers u8, ef u64, points u64, dim u64`, names of the distance and the type, each after its length `u64` |
//! | layers | `layers u8`, then each: `mark u32, points u64`, the points |
//! | a point | `mark u32, id u64, layer u8, rank i32`, then for each layer: `links u64`, each `id u64, layer u8, rank i32, distance f32` |
//! | the end | the entry: `id u64, layer u8, rank i32` |
//! | the other file | `mark u32, dim u64`, then each point in the same order: `mark u32, id u64, bytes u64`, the row |

use std::path::Path;

use super::points::{Point, Points};
use super::{Descent, HnswTable};
use crate::error::{BuildError, same_metric};
use crate::foreign::Source;
use crate::hnsw::config::HnswConfig;
use crate::hnsw::walk::MAX_NODES;
use crate::metric::Metric;
use crate::progress::Watch;
use crate::rows;

const DESCRIPTION_3: u32 = 0x002a_6771;
const DESCRIPTION_4: u32 = 0x002a_6779;
const LAYER: u32 = 0x000a_676f;
const POINT: u32 = 0x000a_678f;
const DATA: u32 = 0xa67f_0000;

/// hnsw_rs gives each point lists for this many layers.
const LAYERS: u8 = 16;

/// The longest name of a type that hnsw_rs reads.
const LONGEST_NAME: u64 = 256;

/// Bytes of a link, and the fewest of a point: a head and lengths of its lists.
const LINK_BYTES: u64 = 17;
const POINT_BYTES: u64 = 17 + 8 * LAYERS as u64;

impl HnswTable {
    /// A table of a graph of `f32` that hnsw_rs dumped to `directory` under `basename`. Ids are those of the dump.
    ///
    /// | distance of the dump | metric |
    /// |---|---|
    /// | `DistL2`, `hnsw::SquaredL2` | [`Metric::L2`] |
    /// | `DistCosine`, `hnsw::Cosine` | [`Metric::Cosine`] |
    /// | `DistDot`, `hnsw::InnerProduct` | [`Metric::InnerProduct`]; `DistDot` reports `1 - product`, the table `-product` |
    ///
    /// Only links and rows are taken, so answers are those of a graph in memory, see `HnswTable::new`. The metric of
    /// `config` must be the dump's; the settings of a build do not count.
    ///
    /// ```no_run
    /// use chiplet_index::{HnswConfig, HnswTable, Metric};
    /// let table = HnswTable::from_hnsw_rs_dump("dumps", "songs", &HnswConfig::new(Metric::L2))?;
    /// # Ok::<(), chiplet_index::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::File`] for what cannot be read, is damaged or of another type or distance;
    /// [`BuildError::Graph`] if it is of another metric; [`BuildError::NotNormalized`] for `hnsw::Cosine` over rows of
    /// another length than 1. Else as [`HnswTable::from_graph`].
    pub fn from_hnsw_rs_dump(
        directory: impl AsRef<Path>,
        basename: &str,
        config: &HnswConfig,
    ) -> Result<Self, BuildError> {
        let path = |kind| directory.as_ref().join(format!("{basename}.hnsw.{kind}"));
        let mut source = Source::open(&path("graph"))?;
        let description = description(&mut source)?;
        let Description { dim, metric, .. } = description;
        same_metric(metric, config.metric)?;
        let (points, ids, entry) = points(&mut source, &description)?;
        let rows = data(&mut Source::open(&path("data"))?, dim, &ids)?;
        rows::check(&rows, dim, metric, &Watch::none())?;
        let rows = if description.as_they_are {
            for (row, &id) in rows.chunks_exact(dim).zip(&ids) {
                rows::check_unit(id as usize, row, metric)?;
            }
            rows
        } else {
            rows::prepare(rows, dim, metric)
        };
        let graph = points.into_graph(entry)?;
        Self::adopt(&rows, dim, &graph, Descent::OneLook, config, |row| ids[row])
    }
}

struct Description {
    points: usize,
    dim: usize,
    metric: Metric,
    /// Whether the distance takes rows as they are, or of any length though only their direction counts.
    as_they_are: bool,
}

fn mark(source: &mut Source, expected: u32) -> Result<(), BuildError> {
    let mark = source.u32()?;
    source.expect(mark == expected, || {
        format!("{mark:#010x} stands where {expected:#010x} was expected; it is damaged or of another machine")
    })
}

fn name(source: &mut Source) -> Result<String, BuildError> {
    let length = source.u64()?;
    source.expect(length <= LONGEST_NAME, || {
        format!("a name of {length} bytes; it is damaged")
    })?;
    let mut name = vec![0; source.expect_room(length, 1, "letters")?];
    source.fill(&mut name)?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

fn description(source: &mut Source) -> Result<Description, BuildError> {
    let format = source.u32()?;
    source.expect(matches!(format, DESCRIPTION_3 | DESCRIPTION_4), || {
        format!(
            "it begins with {format:#010x}; a dump of hnsw_rs 0.3 begins with {DESCRIPTION_4:#010x}"
        )
    })?;
    let full = source.u8()?;
    source.expect(full == 1, || {
        "it is no full dump; call hnsw_rs' file_dump".to_owned()
    })?;
    let _m = source.u8()?;
    if format == DESCRIPTION_4 {
        let _level_scale = source.u64()?;
    }
    let layers = source.u8()?;
    source.expect(layers == LAYERS, || {
        format!("it has {layers} layers, not the {LAYERS} of every dump")
    })?;
    let _ef = source.u64()?;
    let points = source.u64()?;
    let dim = source.u64()?;
    let distance = name(source)?;
    let values = name(source)?;
    source.expect(values == "f32", || {
        format!("its values are {values:?}; only those of f32 can be a table")
    })?;
    let (metric, as_they_are) = match distance.rsplit("::").next() {
        Some("DistL2" | "SquaredL2") => (Metric::L2, true),
        Some("Cosine") => (Metric::Cosine, true),
        Some("DistCosine") => (Metric::Cosine, false),
        Some("DistDot" | "InnerProduct") => (Metric::InnerProduct, true),
        _ => {
            return Err(source.damaged(format!(
                "its distance is {distance:?}; a table can be of DistL2, DistCosine, DistDot and the distances of chiplet_index::hnsw"
            )));
        }
    };
    let points = source.expect_room(points, POINT_BYTES, "points")?;
    source.expect(points <= MAX_NODES, || {
        format!("it has {points} points, a table at most {MAX_NODES}")
    })?;
    if dim == 0 {
        return Err(BuildError::ZeroDimension);
    }
    Ok(Description {
        points,
        // Not believed before the rows are read.
        dim: usize::try_from(dim).unwrap_or(usize::MAX),
        metric,
        as_they_are,
    })
}

fn points(
    source: &mut Source,
    description: &Description,
) -> Result<(Points, Vec<u64>, Point), BuildError> {
    let total = description.points;
    let mut points = Points {
        counts: Vec::new(),
        links: Vec::with_capacity(total),
    };
    let mut ids = Vec::with_capacity(total);
    let layers = source.u8()?;
    source.expect(layers <= LAYERS, || {
        format!("it has {layers} layers, at most {LAYERS} are possible")
    })?;
    for layer in 0..layers {
        mark(source, LAYER)?;
        let count = source.u64()?;
        let count = source.expect_room(count, POINT_BYTES, "points")?;
        points.counts.push(count);
        for rank in 0..count {
            mark(source, POINT)?;
            ids.push(source.u64()?);
            let found = point(source)?;
            let expected = Point {
                layer,
                rank: rank as i32,
            };
            source.expect(found == expected, || {
                format!("{found:?} stands where {expected:?} was expected")
            })?;
            points.links.push(lists(source)?);
        }
    }
    source.expect(ids.len() == total, || {
        format!("it has {} points, but says {total}", ids.len())
    })?;
    source.expect(total > 0, || "it has no points".to_owned())?;
    let _id = source.u64()?;
    let entry = point(source)?;
    source.end()?;
    Ok((points, ids, entry))
}

fn point(source: &mut Source) -> Result<Point, BuildError> {
    Ok(Point {
        layer: source.u8()?,
        rank: i32::from_le_bytes(source.array()?),
    })
}

/// The links of one point, without the empty lists of the layers above it.
fn lists(source: &mut Source) -> Result<Vec<Vec<Point>>, BuildError> {
    let mut lists = Vec::new();
    for layer in 0..usize::from(LAYERS) {
        let count = source.u64()?;
        let count = source.expect_room(count, LINK_BYTES, "links")?;
        if count == 0 {
            continue;
        }
        lists.resize(layer + 1, Vec::new());
        let list: &mut Vec<Point> = &mut lists[layer];
        list.reserve_exact(count);
        for _ in 0..count {
            let _id = source.u64()?;
            list.push(point(source)?);
            let _distance = source.u32()?;
        }
    }
    Ok(lists)
}

fn data(source: &mut Source, dim: usize, ids: &[u64]) -> Result<Vec<f32>, BuildError> {
    mark(source, DATA)?;
    let found = source.u64()?;
    source.expect(found == dim as u64, || {
        format!("its rows have {found} components, those of the graph {dim}")
    })?;
    let row_bytes = (dim as u64).saturating_mul(4);
    source.expect_room(ids.len() as u64, row_bytes.saturating_add(20), "rows")?;
    let mut rows = Vec::with_capacity(ids.len() * dim);
    let mut buffer = Vec::new();
    for &id in ids {
        mark(source, DATA)?;
        let (found, bytes) = (source.u64()?, source.u64()?);
        source.expect(found == id && bytes == row_bytes, || {
            format!("row {found} of {bytes} bytes stands where row {id} of {row_bytes} bytes was expected")
        })?;
        source.floats(dim, &mut buffer, &mut rows)?;
    }
    source.end()?;
    Ok(rows)
}
