//! Which row formats find enough of the nearest rows, by a sample of queries.
//!
//! For each query of the sample all rows are compared exactly. Then the [`COMPARED`] nearest are encoded, compared as a
//! walk compares them, and the nearest of these once more as re-ranking does. The share of the nearest rows that is
//! left is what a walk over such rows can find, whatever its `ef`. All of the nearest rows are there, so rows that
//! crowd together count as they do in the table: a sample of rows would lie farther apart than the rows themselves.

use chiplet_table::Neighbor;

use crate::error::BuildError;
use crate::kernel::{Element, Rows, Span};
use crate::metric::Metric;
use crate::nearest::Nearest;
use crate::progress::{Stage, Watch};
use crate::rows;

use super::config::{self, HnswConfig};
use super::fit::Fit;
use super::format::{Chosen, Prepared, RowDistances, RowFormat};

/// Queries of a sample. The recall of 10 neighbours each, 0.95, is right to about 0.01.
const QUERIES: usize = 200;

/// Rows that are compared for a query, the nearest of all.
const COMPARED: usize = 1024;

/// Rows that are compared with all queries while they are in a cache.
const BLOCK: usize = 256;

/// Bytes of an L3 of an EPYC. Walks over 2 and 1 bits compare more rows for the same recall, so they are for tables
/// whose 4-bit rows and links do not fit.
const CACHE: u64 = 32 << 20;

/// `config` with the formats that it asks for, or that fit `rows` (`[n][dim]`, prepared for the metric).
///
/// # Errors
/// [`BuildError::Fit`], and what is wrong with the settings.
pub(super) fn fitted(
    config: &HnswConfig,
    rows: &[f32],
    dim: usize,
    wide_ids: bool,
    watch: &Watch<'_>,
) -> Result<HnswConfig, BuildError> {
    let Some(fit) = &config.fit else {
        return Ok(config.clone());
    };
    fit.check(dim, config.metric)?;
    if rows.is_empty() {
        return Ok(config.clone());
    }
    let mut sample = None;
    let mut tried = Vec::new();
    let count = rows.len() / dim;
    watch.begin(Stage::Choosing, count)?;
    for config in candidates(config, rows, dim, watch)? {
        let (walk, full) = config.formats();
        let name = match full {
            Some(full) => format!("{walk} re-ranked by {full}"),
            None => walk.to_string(),
        };
        let more = if wide_ids { count as u64 * 4 } else { 0 };
        let bytes = config.table_bytes(count, dim) + more;
        if fit.memory.is_some_and(|most| bytes > most) {
            tried.push(format!("{name} takes {bytes} bytes"));
            continue;
        }
        let sample = match &sample {
            Some(sample) => sample,
            None => sample.insert(Sample::of(rows, dim, config.metric, fit, watch)?),
        };
        let found = sample.recall((walk, full), watch)?;
        if found >= fit.recall {
            watch.end()?;
            return Ok(config);
        }
        tried.push(format!("{name} finds {found:.3}"));
    }
    let within = fit.memory.map(|most| format!(" in {most} bytes"));
    Err(BuildError::Fit {
        recall: fit.recall,
        top: fit.top,
        within: within.unwrap_or_default(),
        tried: tried.join(", "),
    })
}

/// `config` with each of the formats to try, those first of which a query reads the fewest bytes.
fn candidates(
    config: &HnswConfig,
    rows: &[f32],
    dim: usize,
    watch: &Watch<'_>,
) -> Result<Vec<HnswConfig>, BuildError> {
    let holds = |config: &HnswConfig| match config::check(rows, dim, config, watch) {
        Err(BuildError::Stopped) => Err(BuildError::Stopped),
        checked => Ok(checked.is_ok()),
    };
    use RowFormat::{Bf16, F16, F32, Sq1, Sq2, Sq4, Sq8};
    let asked = |(walk, full): (RowFormat, Option<RowFormat>)| HnswConfig {
        rows: Some(walk),
        rerank: full.map(|full| config.rerank.unwrap_or(full)),
        ..config.clone()
    };
    if config.rows.is_some() {
        return Ok(vec![config.clone()]);
    }
    let half = if holds(&asked((F16, None)))? {
        F16
    } else {
        Bf16
    };
    let fewer = {
        let walked = asked((Sq4, None)).table_bytes(rows.len() / dim, dim);
        move |least: usize| dim >= least && walked > CACHE
    };
    let all = [
        (Sq1, Some(half)),
        (Sq2, Some(half)),
        (Sq4, Some(half)),
        (Sq4, Some(Sq8)),
        (Sq4, Some(F32)),
        (Sq8, Some(half)),
        (Sq8, None),
        (Sq8, Some(F32)),
        (half, None),
        (F32, None),
    ]
    .map(asked);
    let mut held = Vec::new();
    for config in all {
        let enough = match config.formats().0 {
            Sq1 => fewer(384),
            Sq2 => fewer(129),
            _ => true,
        };
        if enough && holds(&config)? {
            held.push(config);
        }
    }
    held.dedup();
    Ok(held)
}

/// Queries and the rows that they are compared with.
struct Sample<'a> {
    rows: &'a [f32],
    dim: usize,
    metric: Metric,
    /// Neighbours that count.
    top: usize,
    queries: Vec<SampleQuery>,
}

struct SampleQuery {
    /// Prepared for the metric.
    vector: Vec<f32>,
    /// Its nearest rows, nearest first, with exact distances.
    nearest: Vec<Neighbor>,
}

impl<'a> Sample<'a> {
    /// Of at least one row.
    fn of(
        rows: &'a [f32],
        dim: usize,
        metric: Metric,
        fit: &Fit,
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let count = rows.len() / dim;
        let given = rows::prepare(fit.queries.clone(), dim, metric);
        // Queries of the table itself, which do not count as their own neighbours.
        let own = fit.queries.is_empty().then_some(count);
        let source = if own.is_some() { rows } else { &given };
        let all = source.len() / dim;
        let chosen: Vec<usize> = (0..all).step_by(all.div_ceil(QUERIES)).collect();
        let vectors = chosen.iter().map(|&at| &source[at * dim..][..dim]);
        let vectors: Vec<&[f32]> = vectors.collect();
        let mut nearest: Vec<Nearest> = vectors.iter().map(|_| Nearest::new(COMPARED)).collect();
        let stored = Rows::new(bytemuck::cast_slice(rows), size_of::<f32>() * dim);
        let mut distances = [0.0; BLOCK];
        for start in (0..count).step_by(BLOCK) {
            let end = (start + BLOCK).min(count);
            let distances = &mut distances[..end - start];
            for ((vector, nearest), &at) in vectors.iter().zip(&mut nearest).zip(&chosen) {
                let to = RowDistances::floats(vector, Element::F32, metric, stored);
                to.compute(Span { start, end }, distances);
                for (row, &distance) in (start..end).zip(&*distances) {
                    if own.is_none() || row != at {
                        nearest.offer(Neighbor {
                            id: row as u64,
                            distance,
                        });
                    }
                }
                watch.look()?;
            }
            watch.done(end)?;
        }
        let queries = vectors
            .iter()
            .zip(nearest)
            .map(|(vector, nearest)| SampleQuery {
                vector: vector.to_vec(),
                nearest: nearest.into_sorted(),
            });
        Ok(Self {
            rows,
            dim,
            metric,
            top: fit.top,
            queries: queries.collect(),
        })
    }

    /// The share of the nearest rows that rows in these formats leave to be found.
    fn recall(
        &self,
        formats: (RowFormat, Option<RowFormat>),
        watch: &Watch<'_>,
    ) -> Result<f64, BuildError> {
        let chosen = Chosen::of(self.rows, self.dim, self.metric, formats, watch)?;
        let (walk, full) = formats;
        let (mut found, mut wanted) = (0, 0);
        for query in &self.queries {
            watch.look()?;
            let top = self.top.min(query.nearest.len());
            let Some(kth) = top.checked_sub(1).map(|last| query.nearest[last].distance) else {
                continue;
            };
            let all: Vec<usize> = (0..query.nearest.len()).collect();
            let mut order = self.ordered(query, &chosen, walk, &all);
            if let Some(full) = full {
                order.truncate(walk.reranked(self.top));
                order = self.ordered(query, &chosen, full, &order);
            }
            let near = |&&at: &&usize| query.nearest[at].distance <= kth;
            found += order.iter().take(top).filter(near).count();
            wanted += top;
        }
        if wanted == 0 {
            return Ok(1.0);
        }
        Ok(found as f64 / wanted as f64)
    }

    /// Those `among` a query's nearest rows, by their distances in `format`.
    fn ordered(
        &self,
        query: &SampleQuery,
        chosen: &Chosen,
        format: RowFormat,
        among: &[usize],
    ) -> Vec<usize> {
        let grids = chosen.grids();
        let stride = grids.stride(format, self.dim);
        let mut stored = vec![0; stride * among.len()];
        for (out, &at) in stored.chunks_exact_mut(stride).zip(among) {
            let row = query.nearest[at].id as usize * self.dim;
            grids.write(format, self.metric, &self.rows[row..][..self.dim], out);
        }
        let mut prepared = Prepared::default();
        prepared.set(&query.vector, format, self.metric, grids);
        let mut distances = vec![0.0; among.len()];
        let to = prepared.to(format, self.metric, Rows::new(&stored, stride));
        let span = Span {
            start: 0,
            end: among.len(),
        };
        to.compute(span, &mut distances);
        let mut order: Vec<(f32, usize)> =
            distances.into_iter().zip(among.iter().copied()).collect();
        // Rows with equal codes by their numbers, as these know nothing of which is nearer.
        let row = |at: usize| query.nearest[at].id;
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(row(a.1).cmp(&row(b.1))));
        order.into_iter().map(|(_, at)| at).collect()
    }
}
