//! Workloads as they are written down: a small TOML file, from which tables are drawn by a seed.

mod changed;

use chiplet_index::RowFormat;
use serde::Deserialize;

use super::error::RecipeError;
use super::terms::{AskEntry, StallEntry, Terms, Urgency};
use super::{Asking, Rerank, Scoring, Table, Topics, Workload, examples, paper};
use crate::mix;

/// A workload as a file describes it.
///
/// ```
/// use chiplet_recipes::Recipe;
///
/// let recipe: Recipe = r#"
///     name = "songs"
///     table_skew = 1.0            # Zipf over tables; 0: all alike
///     query_skew = 0.5            # Zipf over a table's queries
///     topics = { share = 0.8, count = 16, spread = 0.3 } # different queries, most of them near 16 centres; none by default
///     [[tables]]
///     kind = "hnsw"
///     count = 16
///     rows = [100_000, 1_000_000] # evenly in the logarithm
///     dims = [64, 128]            # one of these
///     k = [10, 100]               # one of these; ef is 1.5 k unless `ef` is given
///     rows_as = "sq8"             # or "sq4", "sq2", "sq1", "f16", "bf16", "f32" (the default)
///     rerank = "f32"              # compare the best candidates once more; or "f16", "bf16", "sq8"; sq4, sq2 and sq1 need one
/// "#.parse()?;
/// assert_eq!(recipe.workload(1).tables.len(), 16);
///
/// // Tables that are asked by clients of their own, on terms of their own: a flood beside queries with deadlines.
/// let recipe: Recipe = r#"
///     name = "flood"
///     seconds = 8                 # virtual seconds that a run goes on for
///     [[tables]]
///     kind = "task"               # reads nothing
///     micros = 2_000              # and takes so many microseconds
///     count = 1
///     class = "bulk"
///     [[tables.asks]]
///     outstanding = 600           # clients, each of which asks again when it has been told how its query ended
///     [[tables]]
///     kind = "task"
///     micros = 500
///     count = 20
///     deadline_ms = 20
///     [[tables.asks]]
///     rate = 80                   # queries a second for each table, at random
/// "#.parse()?;
/// assert!(recipe.workload(1).is_timed());
/// # Ok::<(), chiplet_recipes::RecipeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    name: String,
    #[serde(default)]
    table_skew: f64,
    #[serde(default)]
    query_skew: f64,
    /// Different queries of each table.
    #[serde(default = "queries")]
    queries: usize,
    topics: Option<Topics>,
    #[serde(default)]
    hot_share: f64,
    /// Virtual seconds before anything is counted, and those that are, where tables are asked by clients of their own.
    #[serde(default)]
    warm: f64,
    #[serde(default = "seconds")]
    seconds: f64,
    tables: Vec<Tables>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    kind: Kind,
    count: usize,
    #[serde(default)]
    rows: [u64; 2],
    #[serde(default)]
    dims: Vec<u32>,
    #[serde(default = "k")]
    k: Vec<usize>,
    ef: Option<usize>,
    #[serde(default = "m")]
    m: u32,
    lists: Option<usize>,
    probes: Option<usize>,
    #[serde(default)]
    rows_as: RowFormat,
    rerank: Option<RowFormat>,
    scoring: Option<Scoring>,
    /// Of tasks: microseconds that each takes.
    micros: Option<f64>,
    #[serde(default)]
    times: Times,
    name: Option<String>,
    weight: Option<f32>,
    queue_limit: Option<usize>,
    home: Option<usize>,
    class: Option<Urgency>,
    deadline_ms: Option<f64>,
    #[serde(default)]
    stalls: Vec<StallEntry>,
    #[serde(default)]
    asks: Vec<AskEntry>,
}

impl Tables {
    /// Who asks them, and on which terms.
    fn terms(&self) -> Terms {
        Terms {
            name: self.name.clone(),
            weight: self.weight,
            queue_limit: self.queue_limit,
            home: self.home,
            class: self.class,
            deadline_ms: self.deadline_ms,
            stalls: self.stalls.clone(),
            asks: self.asks.clone(),
        }
    }
}

/// How long tasks take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Times {
    /// All alike.
    #[default]
    Equal,
    Exponential,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Hnsw,
    Ivf,
    Task,
}

fn queries() -> usize {
    1 << 20
}

fn seconds() -> f64 {
    Asking::default().seconds
}

fn k() -> Vec<usize> {
    vec![10]
}

fn m() -> u32 {
    16
}

impl std::str::FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text).map_err(Box::new)?;
        recipe.check()?;
        Ok(recipe)
    }
}

/// Inverted lists that are to re-rank.
fn of_lists(format: RowFormat) -> RecipeError {
    RecipeError::Value {
        what: "rerank of inverted lists",
        value: format.to_string(),
        accepted: "it to tables of the kind hnsw alone; lists have no second copy of their rows",
    }
}

impl Recipe {
    /// `paper-hnsw`, `paper-ivf`, or one of the examples `flood`, `bulk`, `stall`.
    pub fn built_in(name: &str) -> Option<Self> {
        let text = match name {
            "paper-hnsw" => paper::HNSW,
            "paper-ivf" => paper::IVF,
            "flood" => examples::FLOOD,
            "bulk" => examples::BULK,
            "stall" => examples::STALL,
            _ => return None,
        };
        Some(text.parse().expect("the built-in workloads are right"))
    }

    /// The built-in workload of this name, or the one that the file of this name describes.
    ///
    /// # Errors
    /// [`RecipeError::File`] if it is neither; what is wrong with the file's text.
    pub fn open(name: &str) -> Result<Self, RecipeError> {
        if let Some(recipe) = Self::built_in(name) {
            return Ok(recipe);
        }
        let text = std::fs::read_to_string(name).map_err(|source| RecipeError::File {
            name: name.to_owned(),
            source,
        })?;
        text.parse()
    }

    /// A workload's text without its comments, and its keys in order: for reports that go to others. None if it is no
    /// TOML.
    pub fn plain(text: &str) -> Option<String> {
        let table: toml::Table = toml::from_str(text).ok()?;
        toml::to_string(&table).ok()
    }

    fn check(&self) -> Result<(), RecipeError> {
        let wrong = |what, value: String, accepted| {
            Err(RecipeError::Value {
                what,
                value,
                accepted,
            })
        };
        for (what, skew) in [
            ("table_skew", self.table_skew),
            ("query_skew", self.query_skew),
        ] {
            if !(0.0..=10.0).contains(&skew) {
                return wrong(what, skew.to_string(), "a Zipf exponent from 0 to 10");
            }
        }
        if let Some(topics) = self.topics {
            topics.check()?;
        }
        if !(0.0..=1.0).contains(&self.hot_share) {
            return wrong(
                "hot_share",
                self.hot_share.to_string(),
                "a part from 0 to 1",
            );
        }
        if self.queries == 0 {
            return wrong("queries", "0".to_owned(), "at least 1");
        }
        let count: usize = self.tables.iter().map(|tables| tables.count).sum();
        if !(1..=100_000).contains(&count) {
            return wrong("the number of tables", count.to_string(), "1 to 100000");
        }
        let within = |seconds: f64| (0.0..=1e6).contains(&seconds);
        if !within(self.warm) || !within(self.seconds) || self.seconds == 0.0 {
            return wrong(
                "warm or seconds",
                format!("{}, {}", self.warm, self.seconds),
                "virtual seconds, up to 1000000, `seconds` above 0",
            );
        }
        for tables in &self.tables {
            let of_tasks = tables.kind == Kind::Task;
            tables.terms().check(of_tasks)?;
            let micros = tables.micros.unwrap_or_default();
            if of_tasks != tables.micros.is_some() || (of_tasks && !(0.001..=1e9).contains(&micros))
            {
                return wrong(
                    "micros",
                    format!("{:?}", tables.micros),
                    "microseconds, above 0, to tables of the kind task, and to no others",
                );
            }
            if of_tasks {
                continue;
            }
            let [least, most] = tables.rows;
            if least == 0 || least > most || most > 1 << 32 {
                return wrong(
                    "rows",
                    format!("{:?}", tables.rows),
                    "[least, most] up to 4 G",
                );
            }
            let dims = tables.dims.iter().all(|&dim| (1..=65_536).contains(&dim));
            if tables.dims.is_empty() || !dims {
                return wrong(
                    "dims",
                    format!("{:?}", tables.dims),
                    "values from 1 to 65536",
                );
            }
            if tables.k.is_empty() || tables.k.contains(&0) {
                return wrong("k", format!("{:?}", tables.k), "values of at least 1");
            }
            match (tables.kind, tables.rows_as, tables.rerank) {
                (Kind::Ivf, _, Some(format)) => return Err(of_lists(format)),
                (Kind::Ivf, format, None) if format.check_rerank(None).is_err() => {
                    let accepted = "f32, f16, bf16 or sq8";
                    return wrong("rows_as of inverted lists", format.to_string(), accepted);
                }
                (Kind::Hnsw, format, rerank) => {
                    if let Err((value, accepted)) = format.check_rerank(rerank) {
                        return wrong("rerank", value, accepted);
                    }
                }
                _ => {}
            }
            if let Some(scoring) = tables.scoring {
                let sound = tables.kind == Kind::Hnsw
                    && tables.rerank.is_none()
                    && (1..=100_000).contains(&scoring.candidates)
                    && (0.0..=1e9).contains(&scoring.micros);
                if !sound {
                    let accepted = "candidates of at least 1 and micros, to graphs without rerank";
                    return wrong("scoring", format!("{scoring:?}"), accepted);
                }
            }
            if tables.lists == Some(0) || tables.probes == Some(0) || tables.m == 0 {
                return wrong("lists, probes or m", "0".to_owned(), "at least 1");
            }
        }
        Ok(())
    }

    /// Draws the tables. Their order, which is that of their popularity, has nothing to do with their sizes.
    pub fn workload(&self, seed: u64) -> Workload {
        let mut all = Vec::new();
        let mut tenants = Vec::new();
        // Those that the common stream asks come first.
        let (own, shared): (Vec<_>, Vec<_>) = self
            .tables
            .iter()
            .enumerate()
            .partition(|(_, tables)| !tables.asks.is_empty());
        for (group, tables) in shared.into_iter().chain(own) {
            let first = all.len();
            tenants.push(tables.terms().tenant(group, first..first + tables.count));
            if tables.kind == Kind::Task {
                let task = Table::Task {
                    micros: tables.micros.unwrap_or_default(),
                    random: tables.times == Times::Exponential,
                };
                all.resize(first + tables.count, task);
                continue;
            }
            for number in 0..tables.count {
                let mut state = mix(seed ^ mix(((group as u64) << 32) | number as u64));
                let mut next = || {
                    state = mix(state);
                    state
                };
                let [least, most] = tables.rows.map(|rows| rows as f64);
                let part = next() as f64 / u64::MAX as f64;
                let rows = (least * (most / least).powf(part)) as u64;
                let dim = tables.dims[next() as usize % tables.dims.len()];
                let k = tables.k[next() as usize % tables.k.len()];
                all.push(match tables.kind {
                    Kind::Hnsw => {
                        let ef = tables.ef.unwrap_or(k + k / 2).max(1);
                        let candidates = tables
                            .rows_as
                            .reranked(k)
                            .min(RowFormat::kept(k, ef.max(k)));
                        Table::Graph {
                            rows,
                            dim,
                            m: tables.m,
                            k,
                            ef,
                            rows_as: tables.rows_as,
                            rerank: tables.rerank.map(|rows_as| Rerank {
                                rows_as,
                                candidates,
                            }),
                            scoring: tables.scoring,
                        }
                    }
                    Kind::Ivf => {
                        // As Faiss advises, 4 roots of the rows, as a power of two.
                        let advised = (4.0 * (rows as f64).sqrt()) as usize;
                        let lists = tables.lists.unwrap_or(advised.next_power_of_two());
                        let lists = lists.clamp(128, 8_192);
                        Table::Lists {
                            rows,
                            dim,
                            k,
                            lists,
                            probes: tables.probes.unwrap_or((lists / 64).max(8)),
                            rows_as: tables.rows_as,
                        }
                    }
                    Kind::Task => continue,
                });
            }
        }
        Workload {
            name: self.name.clone(),
            tables: all,
            table_skew: self.table_skew,
            query_skew: self.query_skew,
            queries: self.queries,
            topics: self.topics,
            hot_share: self.hot_share,
            copies: 1,
            asking: Asking {
                tenants: match self.tables.iter().all(|tables| tables.terms().is_plain()) {
                    true => Vec::new(),
                    false => tenants,
                },
                warm: self.warm,
                seconds: self.seconds,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tables_are_within_what_it_tells() {
        let workload = Recipe::built_in("paper-hnsw").unwrap().workload(1);
        assert_eq!(workload.tables.len(), 60);
        for table in &workload.tables {
            let Table::Graph {
                rows, dim, m, ef, ..
            } = *table
            else {
                panic!("{table:?}")
            };
            assert!((1_000_000..=10_000_000).contains(&rows), "{rows}");
            assert!((64..=256).contains(&dim) && m == 32 && (150..=750).contains(&ef));
        }
        let workload = Recipe::built_in("paper-ivf").unwrap().workload(1);
        assert_eq!(workload.tables.len(), 15);
        assert_eq!(workload, Recipe::built_in("paper-ivf").unwrap().workload(1));
        assert_ne!(workload, Recipe::built_in("paper-ivf").unwrap().workload(2));
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        let text = "name = 'a'\n[[tables]]\nkind = 'hnsw'\ncount = 1\nrows = [5, 4]\ndims = [8]";
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(
            error.contains("rows") && error.contains("[5, 4]"),
            "{error}"
        );
        assert!("name = 'a'\ntable = 1".parse::<Recipe>().is_err());
    }

    #[test]
    fn terms_that_cannot_be_are_named() {
        let tables = |terms: &str| {
            let text = format!("name='a'\n[[tables]]\nkind='task'\ncount=1\nmicros=5\n{terms}");
            text.parse::<Recipe>().map(|recipe| recipe.workload(1))
        };
        for (terms, named) in [
            ("weight=0.0", "weight is 0"),
            ("deadline_ms=0", "deadline_ms is 0"),
            ("queue_limit=0", "queue_limit"),
            ("class='slow'", "interactive"),
            ("work=2.0", "unknown field `work`"),
            ("[[tables.asks]]", "one of `rate`"),
            ("[[tables.asks]]\nrate=1.0\nburst=2", "one of `rate`"),
            ("[[tables.asks]]\nrate=0.0", "rate is 0"),
            ("[[tables.asks]]\nrate=1.0\nevery=1.0", "every"),
            ("[[tables.asks]]\noutstanding=0", "outstanding is 0"),
            (
                "[[tables.asks]]\nrate=1.0\nspeed=1",
                "unknown field `speed`",
            ),
            ("[[tables.stalls]]\nms=1.0", "either `at`"),
            (
                "[[tables.stalls]]\nms=1.0\nat=1.0\nchance=0.5",
                "either `at`",
            ),
            ("[[tables.stalls]]\nms=0.0\nat=1.0", "ms of a stall"),
            ("[[tables.stalls]]\nms=1.0\nchance=1.5", "either `at`"),
        ] {
            let error = tables(terms).unwrap_err().to_string();
            assert!(error.contains(named), "{terms}: {error}");
        }
        assert!(tables("").unwrap().asking.is_plain());
        let graph = "name='a'\n[[tables]]\nkind='hnsw'\ncount=1\nrows=[5,5]\ndims=[8]\n";
        for terms in ["micros=5", "[[tables.asks]]\nrate=1.0\nwork=2.0"] {
            let error = format!("{graph}{terms}").parse::<Recipe>().unwrap_err();
            assert!(error.to_string().contains("task"), "{error}");
        }
        for name in ["flood", "bulk", "stall"] {
            let workload = Recipe::built_in(name).unwrap().workload(1);
            assert!(workload.is_timed() && workload.shared_tables() == 0);
        }
    }

    #[test]
    fn a_format_that_a_table_cannot_have_is_named() {
        for (kind, format, named) in [
            ("hnsw", "rows_as = 'f8'", ["f8", "bf16"]),
            (
                "hnsw",
                "rerank = 'sq4'",
                ["rerank is sq4", "f32, f16, bf16 or sq8"],
            ),
            (
                "hnsw",
                "rows_as = 'sq4'",
                ["rerank is none", "sq8 beside rows of sq4, sq2 and sq1"],
            ),
            (
                "hnsw",
                "rows_as = 'sq2'",
                ["rerank is none", "sq8 beside rows of sq4, sq2 and sq1"],
            ),
            ("ivf", "rows_as = 'sq4'", ["lists is sq4", "or sq8"]),
            ("ivf", "rows_as = 'sq1'", ["lists is sq1", "or sq8"]),
            ("ivf", "rerank = 'f32'", ["inverted lists is f32", "hnsw"]),
        ] {
            let tables = format!("kind = '{kind}'\ncount = 1\nrows = [5, 5]\ndims = [8]\n{format}");
            let text = format!("name = 'a'\n[[tables]]\n{tables}");
            let error = text.parse::<Recipe>().unwrap_err().to_string();
            assert!(named.iter().all(|named| error.contains(named)), "{error}");
        }
        let lists = Recipe::built_in("paper-ivf").unwrap();
        assert!(lists.clone().kept(None, Some(RowFormat::F32)).is_err());
        let graphs = Recipe::built_in("paper-hnsw").unwrap();
        assert!(graphs.kept(None, Some(RowFormat::Sq4)).is_err());
        let coded = lists.kept(Some(RowFormat::Sq8), None).unwrap();
        let tables = coded.workload(1).tables;
        assert!(tables.iter().all(|table| table.rows_as() == RowFormat::Sq8));
    }
}
