//! From an index to a table.

use half::{bf16, f16};

use super::header::Header;
use super::index::{Body, Index, Lists, Rows};
use super::names;
use super::options::Options;
use crate::any::AnyTable;
use crate::error::BuildError;
use crate::flat::{FlatConfig, FlatTable};
use crate::foreign::Source;
use crate::hnsw::{HnswConfig, HnswTable, RowFormat};
use crate::ivf::{CodeKind, Codes, Extras, FullRows, IvfTable, Settings};
use crate::metric::Metric;
use crate::options::BuildOptions;
use crate::progress::Watch;
use crate::rows;

pub(super) fn table(
    source: &Source<'_>,
    Index { header, body }: Index,
    options: &Options,
) -> Result<AnyTable, BuildError> {
    let metric = match header.metric {
        Metric::InnerProduct if options.cosine => Metric::Cosine,
        _ if options.cosine => {
            return Err(BuildError::Setting {
                setting: "cosine",
                value: "true".to_owned(),
                accepted: "false for an index of METRIC_L2",
            });
        }
        metric => metric,
    };
    let memory = options.memory.clone();
    Ok(match body {
        Body::Flat(Rows { values, ids }) => {
            check_rows(&values, header.dim, metric)?;
            let config = FlatConfig::new(metric).memory(memory);
            let options = match &ids {
                Some(ids) => BuildOptions::new().ids(ids),
                None => BuildOptions::new(),
            };
            AnyTable::Flat(FlatTable::build_with(&values, header.dim, config, options)?)
        }
        Body::Graph(Rows { values, ids }, links) => {
            check_rows(&values, header.dim, metric)?;
            let config = HnswConfig::new(metric).ef(links.ef).memory(memory);
            let graph = &links.graph;
            AnyTable::Hnsw(match ids {
                Some(ids) => {
                    HnswTable::from_graph_with_ids(&values, header.dim, &ids, graph, &config)?
                }
                None => HnswTable::from_graph(&values, header.dim, graph, &config)?,
            })
        }
        Body::Lists(lists) => {
            let table = of_lists(&header, *lists, metric, options)?;
            AnyTable::Ivf(table.ok_or_else(|| {
                source.damaged(format!(
                    "its codes do not fit rows of {} components; it is damaged",
                    header.dim
                ))
            })?)
        }
    })
}

/// Checks rows that are taken as they are.
fn check_rows(values: &[f32], dim: usize, metric: Metric) -> Result<(), BuildError> {
    rows::check(values, dim, metric, &Watch::none())?;
    let mut rows = values.chunks_exact(dim).enumerate();
    rows.try_for_each(|(row, values)| rows::check_unit(row, values, metric))
}

/// `None` if codes do not fit rows.
fn of_lists(
    header: &Header,
    lists: Lists,
    metric: Metric,
    options: &Options,
) -> Result<Option<IvfTable>, BuildError> {
    let Lists {
        parts,
        codes,
        held,
        nprobe,
        transform,
        full,
    } = lists;
    // Rows and queries of length 1, ranked by their product.
    let metric = match transform.normalizes {
        true if header.metric == Metric::InnerProduct => Metric::Cosine,
        true => {
            return Err(names::unsupported(
                "IndexPreTransform with NormalizationTransform over an index of METRIC_L2",
                "rows of length 1 are compared by their product; build it for METRIC_INNER_PRODUCT",
            ));
        }
        false => metric,
    };
    if let Some(full) = &full {
        check_rows(full, header.dim, metric)?;
    }
    // Of rows that were mapped the length says nothing.
    let as_they_were = transform.map.is_none() && !codes.by_residual;
    let unit = match as_they_were {
        true => metric,
        false => metric.of_faiss(),
    };
    check_coded(&codes, parts.dim, &parts.ids, &held, unit)?;
    let settings = Settings {
        metric,
        nprobe,
        grain: None,
        memory: options.memory.clone(),
    };
    let extras = Extras {
        map: transform.map.as_ref().map(|map| map.linear()),
        full: full.as_deref().map(|rows| FullRows {
            format: RowFormat::F32,
            rows,
        }),
        ids: None,
    };
    IvfTable::of_parts(parts, &codes, &held, &settings, extras)
}

/// Checks rows that are there as numbers of 16 bits or more.
fn check_coded(
    codes: &Codes,
    dim: usize,
    ids: &[Vec<i64>],
    held: &[Vec<u8>],
    metric: Metric,
) -> Result<(), BuildError> {
    let (cell, value): (usize, fn(&[u8]) -> f32) = match codes.kind {
        CodeKind::F32 => (4, |x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])),
        CodeKind::F16 => (2, |x| f16::from_le_bytes([x[0], x[1]]).to_f32()),
        CodeKind::Bf16 => (2, |x| bf16::from_le_bytes([x[0], x[1]]).to_f32()),
        CodeKind::Ranges { .. } | CodeKind::Product { .. } => return Ok(()),
    };
    // Other sizes are refused with the table.
    if dim.checked_mul(cell) != Some(codes.bytes) {
        return Ok(());
    }
    let mut row = Vec::with_capacity(dim);
    for (ids, codes) in ids.iter().zip(held) {
        for (&id, code) in ids.iter().zip(codes.chunks_exact(dim * cell)) {
            row.clear();
            row.extend(code.chunks_exact(cell).map(value));
            rows::check_row(id as usize, &row, metric)?;
            // Of bf16 rounding alone changes a length by more than is taken for 1.
            if cell == 4 {
                rows::check_unit(id as usize, &row, metric)?;
            }
        }
    }
    Ok(())
}
