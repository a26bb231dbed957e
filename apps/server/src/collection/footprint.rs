//! What an index takes of memory: for good, and while it is built. Estimates, from how chiplet's tables are laid out.

use chiplet::index::{HnswConfig, Metric, RowFormat};

use super::schema::{IndexKind, Settings};

/// Memory of an index, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Of the finished index.
    pub(crate) finished: u64,
    /// The most while it is built, the finished index included. Not in it: the rows that it is built of.
    pub(crate) peak: u64,
}

impl Footprint {
    /// Of an index over `rows` rows.
    pub(crate) fn of(rows: usize, dim: usize, kind: &IndexKind) -> Self {
        match kind {
            IndexKind::Hnsw { m, codes, .. } => graph(rows, dim, *m, *codes),
            IndexKind::Ivf { nlist, code, .. } => inverted_lists(rows, dim, *nlist, code),
            IndexKind::Flat => Self::default(),
        }
    }
}

/// Whether so many points get an index.
pub(crate) fn has_index(rows: usize, settings: &Settings) -> bool {
    settings.index != IndexKind::Flat
        && vector_bytes(rows, settings.dim) >= settings.full_scan_bytes
        && rows >= settings.index.fewest_points()
}

/// The lists of an index over `rows` rows. Faiss trains on 39 rows a list at least; a small collection gets fewer.
pub(crate) fn lists(nlist: usize, rows: usize) -> usize {
    nlist.min((rows / 39).max(1))
}

pub(crate) fn vector_bytes(rows: usize, dim: usize) -> u64 {
    (rows * dim * size_of::<f32>()) as u64
}

/// What a build keeps for each row while it writes the finished graph: its number, its new place and its old one (4
/// bytes each), and its id (8 bytes).
const WRITING: u64 = 3 * 4 + 8;

/// How a graph is built: with vectors, or with codes whose candidates the collection compares with its vectors.
pub(crate) fn graph_config(metric: Metric, m: usize, codes: Option<RowFormat>) -> HnswConfig {
    let config = HnswConfig::new(metric).m(m);
    match codes {
        Some(codes) => config.rows(codes).inside_refined(),
        None => config,
    }
}

/// A build first links whole vectors in a copy of its own, which is padded to cache lines; it has links of 4 bytes, a
/// lock of a byte for each list of them, and each row's number. In the end, without that copy, it writes rows and links
/// to their final place: that is more, unless they are codes.
fn graph(rows: usize, dim: usize, m: usize, codes: Option<RowFormat>) -> Footprint {
    let config = graph_config(Metric::L2, m, codes);
    let finished = config.table_bytes(rows, dim);
    let own = (dim * size_of::<f32>()).next_multiple_of(64) as u64;
    // Layers above the ground have lists for no more rows than the ground has.
    let linking = rows as u64 * (own + 2 + 4);
    let writing = finished + rows as u64 * WRITING;
    Footprint {
        finished,
        peak: linking.max(writing) + 4 * config.all_links(rows),
    }
}

/// Lists hold a code and an id of 8 bytes for each point, and have a centroid each. While they are filled the codes and
/// ids may take as much again: Faiss' arrays double when they are full.
fn inverted_lists(rows: usize, dim: usize, nlist: usize, code: &str) -> Footprint {
    let parts = code.strip_prefix("PQ").and_then(|parts| {
        let parts = parts.strip_suffix("x4fs").unwrap_or(parts);
        parts.parse::<usize>().ok()
    });
    let code = match parts {
        Some(parts) => parts,
        None => match code {
            "SQ8" => dim,
            "SQ4" => dim.div_ceil(2),
            _ => dim * size_of::<f32>(),
        },
    };
    let entries = (rows * (code + size_of::<i64>())) as u64;
    let finished = entries + vector_bytes(lists(nlist, rows), dim);
    Footprint {
        finished,
        peak: finished + entries,
    }
}

#[cfg(test)]
mod tests {
    use chiplet::Table;
    use chiplet::index::HnswTable;

    use super::*;

    #[test]
    fn a_finished_graph_takes_what_was_estimated() {
        const ROWS: usize = 3_000;
        // Vectors padded to cache lines and not, few links and many.
        for (dim, m) in [
            (1, 16),
            (4, 2),
            (4, 64),
            (16, 3),
            (50, 16),
            (61, 16),
            (100, 8),
        ] {
            // No two rows are equal: one that is equal to an earlier one takes 8 bytes more, and has no links above the
            // ground.
            let rows: Vec<f32> = (0..ROWS * dim)
                .map(|i| (i * 7_919 % 1_000_003) as f32)
                .collect();
            for codes in [None, Some(RowFormat::Sq8), Some(RowFormat::Sq4)] {
                let config = graph_config(Metric::L2, m, codes).ef_construction(8);
                let table = HnswTable::build(&rows, dim, &config).unwrap();
                let kind = IndexKind::Hnsw {
                    m,
                    ef_construct: 8,
                    codes,
                };
                let estimated = Footprint::of(ROWS, dim, &kind).finished;
                let off = estimated.abs_diff(table.size_bytes());
                assert!(
                    100 * off <= table.size_bytes(),
                    "{dim} dimensions, M = {m}, {codes:?}: {estimated} bytes estimated, {} taken",
                    table.size_bytes()
                );
            }
        }
    }

    #[test]
    fn a_build_takes_the_builders_links_beside_the_finished_graph() {
        let kind = |codes| IndexKind::Hnsw {
            m: 16,
            ef_construct: 8,
            codes,
        };
        let found = Footprint::of(1_000, 50, &kind(None));
        // Vectors of 200 bytes, an id, 32 links of 3 bytes; 16 more for each 15th row.
        let upper = 1_000 * 16 / 15;
        assert_eq!(found.finished, 1_000 * (200 + 4 + 96) + 3 * upper);
        assert_eq!(found.peak - found.finished, 1_000 * (128 + 20) + 4 * upper);
        // Codes of 32 bytes in the end; before, vectors that are padded to 256, a number and two locks.
        let found = Footprint::of(1_000, 50, &kind(Some(RowFormat::Sq4)));
        assert_eq!(found.finished, 1_000 * (32 + 4 + 96) + 3 * upper);
        assert_eq!(found.peak, 1_000 * (256 + 4 + 2 + 128) + 4 * upper);
    }

    #[test]
    fn lists_take_codes_ids_and_centroids() {
        for (code, bytes) in [
            ("Flat", 256),
            ("SQ8", 64),
            ("SQ4", 32),
            ("PQ16", 16),
            ("PQ16x4fs", 16),
        ] {
            let kind = IndexKind::Ivf {
                nlist: 10,
                code: code.to_owned(),
                nprobe: 1,
            };
            let found = Footprint::of(1_000, 64, &kind);
            let (entries, centroids) = (1_000 * (bytes + 8), 10 * 256);
            assert_eq!(found.finished, entries + centroids, "{code}");
            assert_eq!(found.peak, 2 * entries + centroids, "{code}");
        }
    }
}
