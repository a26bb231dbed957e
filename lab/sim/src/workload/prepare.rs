//! A workload with what its queries read, ready to be run.

use std::collections::BTreeMap;

use chiplet_index::RowFormat;

use chiplet_recipes::{
    Asking, Rerank, Scoring, Table, Workload, in_lines, list_bytes, listed, mix, stride, touched,
};

use crate::trace::{ListShape, Lists, Recording, Scale, Walk, Walks};

/// Numbers of candidates that walks are recorded with; a table takes the next larger one.
const EFS: [usize; 7] = [16, 32, 64, 150, 300, 750, 1_500];

/// Rows of the graphs that walks are recorded of; a table takes the largest that it is not smaller than.
const ROWS: [usize; 4] = [1_024, 4_096, 16_384, 65_536];

/// How closely reading is modelled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The part of a graph's nodes that is modelled, in caches of that part of their size.
    pub sample: f64,
    /// Different recorded queries.
    pub queries: usize,
    /// The largest graph that is built to record walks.
    pub rows: usize,
    /// Same seed, same vectors.
    pub seed: u64,
}

impl Default for Sampling {
    /// A sample of 1/16: 2,000 to 6,000 rows in an L3 of 32 MiB, 64 to 200 in an L2.
    fn default() -> Self {
        Self {
            sample: 1.0 / 16.0,
            queries: 400,
            rows: 65_536,
            seed: 1,
        }
    }
}

/// A workload and what its queries read.
#[derive(Debug)]
pub struct Prepared {
    /// The workload.
    pub workload: Workload,
    pub(crate) plans: Vec<Plan>,
    scales: Vec<Scale>,
    lists: Option<Lists>,
    pub(crate) sampling: Sampling,
}

/// How a table is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Graph {
        /// Which recorded walks.
        scale: usize,
        /// Tiles of the recorded graph that make up the table.
        factor: u32,
        row_bytes: u32,
        /// Bytes of the cache lines that a row lies in.
        touched: u32,
        /// Bytes of a list of links, and of the cache lines that it lies in.
        link_bytes: u32,
        links_touched: u32,
        dim: u32,
        rerank: Option<Full>,
    },
    Lists {
        shape: ListShape,
        rows_as: RowFormat,
        /// Bytes of all centroids.
        centroid_bytes: u64,
    },
    /// Tasks that read nothing.
    Task {
        nanos: f64,
        /// Exponential times, else all alike.
        random: bool,
    },
}

/// What re-ranking or scoring reads, and what it computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// Rows at most.
    pub(crate) rows: u32,
    /// Bytes of the cache lines that each lies in.
    pub(crate) touched: u32,
    /// Nanoseconds of computing for each; `None`: what comparing a row takes.
    pub(crate) nanos: Option<f64>,
}

impl Full {
    fn of(rerank: Option<Rerank>, scoring: Option<Scoring>, dim: u32) -> Option<Self> {
        let rerank = rerank.map(|rerank| Self {
            rows: rerank.candidates as u32,
            touched: touched(rerank.rows_as, dim),
            nanos: None,
        });
        let scored = |scoring: Scoring| Self {
            rows: scoring.candidates as u32,
            touched: in_lines(scoring.feature_bytes),
            nanos: Some(1e3 * scoring.micros / scoring.candidates as f64),
        };
        rerank.or(scoring.map(scored))
    }
}

/// A random number of a query, which says what it reads.
fn drawn(table: u32, query: u32) -> u64 {
    mix(u64::from(query) ^ (u64::from(table) << 32))
}

/// What a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    /// As this recorded query does.
    pub(crate) query: usize,
    /// In this tile of its table, of which there are fewer.
    pub(crate) tile: u64,
}

/// The tile of a query of that number.
fn tile(drawn: u64) -> u64 {
    drawn >> 32
}

impl Prepared {
    /// Tables of tasks that read nothing.
    pub(crate) fn tasks(tables: usize, nanos: f64, random: bool) -> Self {
        let task = Table::Task {
            micros: nanos / 1e3,
            random,
        };
        Self {
            workload: Workload {
                name: "tasks".to_owned(),
                tables: vec![task; tables],
                table_skew: 0.0,
                query_skew: 0.0,
                queries: 1 << 20,
                topics: None,
                hot_share: 0.0,
                copies: 1,
                asking: Asking::default(),
            },
            plans: vec![Plan::Task { nanos, random }; tables],
            scales: Vec::new(),
            lists: None,
            sampling: Sampling::default(),
        }
    }

    /// Builds what has to be built and records it. `report` is told what happens.
    pub fn new(workload: Workload, sampling: Sampling, mut report: impl FnMut(&str)) -> Self {
        // Which numbers of candidates are needed of each graph.
        let mut needed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let choose = |rows: u64, ef: usize| {
            let fits = |&&size: &&usize| size as u64 <= rows && size <= sampling.rows;
            let size = ROWS.iter().rev().find(fits).unwrap_or(&ROWS[0]);
            let ef = EFS.iter().find(|&&known| known >= ef);
            (*size, *ef.unwrap_or(&EFS[EFS.len() - 1]))
        };
        for table in &workload.tables {
            if let Table::Graph { rows, ef, .. } = *table {
                let (size, ef) = choose(rows, ef);
                let efs = needed.entry(size).or_default();
                if !efs.contains(&ef) {
                    efs.push(ef);
                }
            }
        }
        let mut scales = Vec::new();
        let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (size, efs) in needed {
            report(&format!("recording searches of a graph of {size} rows"));
            let recording = Recording {
                rows: size,
                dim: 48,
                m: 32,
                queries: sampling.queries,
                topics: workload.topics,
                seed: sampling.seed,
            };
            for walks in recording.walks(&efs) {
                known.insert((size, walks.ef), scales.len());
                scales.push(Scale::new(&walks, sampling.sample));
            }
        }
        let has_lists = |table: &Table| matches!(table, Table::Lists { .. });
        let lists = workload.tables.iter().any(has_lists).then(|| {
            report("recording which lists queries visit");
            Lists::record(sampling.queries, workload.topics, sampling.seed)
        });
        let plans = workload.tables.iter().map(|table| match *table {
            Table::Graph {
                rows,
                dim,
                k: _,
                m,
                ef,
                rows_as,
                rerank,
                scoring,
            } => {
                let key = choose(rows, ef);
                Plan::Graph {
                    scale: known[&key],
                    factor: (rows as f64 / key.0 as f64).round().max(1.0) as u32,
                    row_bytes: stride(rows_as, dim),
                    touched: touched(rows_as, dim),
                    link_bytes: list_bytes(rows, m),
                    links_touched: in_lines(list_bytes(rows, m)),
                    dim,
                    rerank: Full::of(rerank, scoring, dim),
                }
            }
            Table::Lists {
                rows,
                dim,
                k: _,
                lists,
                probes,
                rows_as,
            } => Plan::Lists {
                shape: ListShape {
                    rows,
                    row_bytes: listed(rows_as, dim),
                    lists,
                    probes,
                },
                rows_as,
                centroid_bytes: (lists as u64) * listed(RowFormat::F32, dim),
            },
            Table::Task { micros, random } => Plan::Task {
                nanos: 1e3 * micros,
                random,
            },
        });
        Self {
            plans: plans.collect(),
            workload,
            scales,
            lists,
            sampling,
        }
    }

    /// Tables whose own searches were recorded, one [`Walks`] for each: nothing is scaled and nothing left out. Where
    /// the workload has no more queries for a table than were recorded, each query makes the walk of its number.
    ///
    /// # Panics
    /// If the workload has topics, or there are not as many `walks` as tables, or a table is no graph, or one re-ranks
    /// whose recorded searches did not.
    pub fn recorded(workload: Workload, walks: &[Walks]) -> Self {
        assert_eq!(workload.tables.len(), walks.len(), "one recording a table");
        assert!(
            workload.topics.is_none(),
            "recorded searches have their own topics"
        );
        let plans = workload.tables.iter().enumerate();
        let plans = plans.map(|(scale, table)| match *table {
            Table::Graph {
                rows,
                dim,
                m,
                rows_as,
                rerank,
                scoring,
                ..
            } => {
                let known = |walk: &Walk| !walk.nearest.is_empty();
                assert!(
                    (rerank.is_none() && scoring.is_none()) || walks[scale].walks.iter().all(known),
                    "record searches of a table that re-ranks"
                );
                Plan::Graph {
                    scale,
                    factor: 1,
                    row_bytes: stride(rows_as, dim),
                    touched: touched(rows_as, dim),
                    link_bytes: list_bytes(rows, m),
                    links_touched: in_lines(list_bytes(rows, m)),
                    dim,
                    rerank: Full::of(rerank, scoring, dim),
                }
            }
            Table::Lists { .. } | Table::Task { .. } => {
                panic!("searches of graphs alone are recorded")
            }
        });
        Self {
            plans: plans.collect(),
            scales: walks.iter().map(|walks| Scale::new(walks, 1.0)).collect(),
            lists: None,
            sampling: Sampling {
                sample: 1.0,
                ..Sampling::default()
            },
            workload,
        }
    }

    /// The part of a walk's rows that another walk of its topic compares, too: of the recorded walks with the fewest in
    /// common, and of those with the most. `None` without graphs or topics.
    pub fn rows_in_common(&self) -> Option<[f64; 2]> {
        let all = || self.scales.iter().filter_map(|scale| scale.in_common);
        Some([all().reduce(f64::min)?, all().reduce(f64::max)?])
    }

    /// What `query` of a table reads.
    pub(crate) fn aim(&self, table: u32, query: u32) -> Aim {
        let number = drawn(table, query);
        let anywhere = match self.plans[table as usize] {
            Plan::Graph { scale, .. } => self.scales[scale].anywhere,
            Plan::Lists { .. } => self.lists().anywhere,
            Plan::Task { .. } => 1,
        };
        if let Some(topics) = self.workload.topics {
            let turn = mix(number);
            if (turn as f64) < topics.share * u64::MAX as f64 {
                let turn = mix(turn);
                let (topic, of_topic) = (turn as u32 % topics.count, (turn >> 32) as usize);
                return Aim {
                    query: anywhere
                        + topic as usize * topics.of_each()
                        + of_topic % topics.of_each(),
                    // All of a topic's queries end in one tile, which no query's number gives.
                    tile: tile(mix(drawn(table, u32::MAX - topic))),
                };
            }
        }
        Aim {
            query: match self.workload.queries <= anywhere {
                true => query as usize,
                false => number as usize % anywhere,
            },
            tile: tile(number),
        }
    }

    pub(crate) fn scale(&self, scale: usize) -> &Scale {
        &self.scales[scale]
    }

    pub(crate) fn lists(&self) -> &Lists {
        self.lists.as_ref().expect("recorded for tables of lists")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chiplet_recipes::Recipe;

    use super::*;

    #[test]
    fn so_many_queries_are_about_a_topic_and_end_in_its_tile() {
        let recipe: Recipe = "name = 'two'\nqueries = 100_000\n\
            topics = { share = 0.75, count = 4, spread = 0.2 }\n\
            [[tables]]\nkind = 'hnsw'\ncount = 2\nrows = [100_000, 100_000]\ndims = [64]\n"
            .parse()
            .unwrap();
        let sampling = Sampling {
            queries: 20,
            rows: 1_024,
            ..Sampling::default()
        };
        let topics = recipe.workload(1).topics.unwrap();
        let prepared = Prepared::new(recipe.workload(1), sampling, |_| {});
        let aims: Vec<_> = (0..10_000).map(|query| prepared.aim(1, query)).collect();
        let about: Vec<_> = aims.iter().filter(|aim| aim.query >= 20).collect();
        assert!((7_300..7_700).contains(&about.len()), "{}", about.len());
        let ends: BTreeSet<_> = about
            .iter()
            .map(|aim| ((aim.query - 20) / topics.of_each(), aim.tile))
            .collect();
        assert_eq!(ends.len(), 4, "{ends:?}");
        let of_topics: BTreeSet<usize> = about.iter().map(|aim| aim.query).collect();
        assert!(of_topics.len() > 3_000, "{}", of_topics.len());
        // Another table's topics end elsewhere.
        let other = (0..10_000).map(|query| prepared.aim(0, query));
        let other: BTreeSet<_> = other
            .filter(|aim| aim.query >= 20)
            .map(|aim| aim.tile)
            .collect();
        assert!(ends.iter().all(|(_, tile)| !other.contains(tile)));
    }
}
