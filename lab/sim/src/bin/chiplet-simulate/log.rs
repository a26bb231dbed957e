//! Locality of a service's own queries, from a log of them: how unevenly tables are asked, and how often a query comes
//! again.
//!
//! A line is `table,query`: the table's name, and anything that is the same for the same query (a number, a hash). From
//! it two Zipf exponents follow, which the model's stream then has:
//!
//! * of tables, by maximum likelihood: under the exponent the mean logarithm of the rank is that of the log;
//! * of queries, by repetition: drawn under the exponent, as many lines would hold as many different queries as the log
//!   does. The number of different queries that there are is the workload's: a log holds those alone that were asked.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Serialize;

/// Exponents are sought up to this one: at 10 all queries but one in a thousand are the same.
const STEEPEST: f64 = 10.0;

/// Fewer lines tell nothing.
const FEWEST: u64 = 100;

/// How often each query of each table was asked.
#[derive(Debug, Default)]
pub(super) struct Log {
    tables: HashMap<String, HashMap<String, u64>>,
}

/// What a log says, as the model takes it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Locality {
    lines: u64,
    tables: usize,
    /// The part of the lines whose query was asked of its table before.
    repeated: f64,
    pub(super) table_skew: f64,
    pub(super) query_skew: f64,
    /// Different queries of a table, of which the exponent is.
    queries: usize,
}

pub(super) fn read(path: &Path) -> anyhow::Result<Log> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    parse(&text).with_context(|| name.to_string())
}

fn parse(text: &str) -> anyhow::Result<Log> {
    let mut log = Log::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (number == 0 && line.eq_ignore_ascii_case("table,query")) {
            continue;
        }
        let (table, query) = line
            .split_once(',')
            .with_context(|| format!("line {}: {line:?} is not table,query", number + 1))?;
        let queries = log.tables.entry(table.trim().to_owned()).or_default();
        *queries.entry(query.trim().to_owned()).or_default() += 1;
    }
    let lines = log.lines();
    ensure!(
        lines >= FEWEST,
        "{lines} queries are too few to tell anything: give {FEWEST} or more, a line table,query each"
    );
    Ok(log)
}

impl Log {
    fn lines(&self) -> u64 {
        self.tables.values().flat_map(HashMap::values).sum()
    }

    /// The exponents, where each table is asked `queries` different queries.
    pub(super) fn locality(&self, queries: usize) -> Locality {
        let lines = self.lines();
        let asked: Vec<u64> = self.tables.values().map(|all| all.values().sum()).collect();
        let different: usize = self.tables.values().map(HashMap::len).sum();
        Locality {
            lines,
            tables: asked.len(),
            repeated: 1.0 - different as f64 / lines as f64,
            table_skew: exponent_of(asked.clone()),
            query_skew: repeating(&asked, different as f64, queries),
            queries,
        }
    }
}

impl Locality {
    pub(super) fn render(&self) -> String {
        format!(
            "locality from the log: {} queries to {} tables; table skew {:.2} (Zipf, fitted); {:.1} % of the queries came \
             before,\nas under query skew {:.2} with {} different queries a table\n",
            self.lines,
            self.tables,
            self.table_skew,
            100.0 * self.repeated,
            self.query_skew,
            self.queries
        )
    }
}

/// The Zipf exponent over so many ranks under which counts like these are likeliest.
fn exponent_of(mut counts: Vec<u64>) -> f64 {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    let total: u64 = counts.iter().sum();
    let found = counts
        .iter()
        .zip(&logs)
        .map(|(&count, log)| count as f64 * log)
        .sum::<f64>()
        / total as f64;
    // The mean under an exponent; it falls as that rises.
    let mean = |exponent: f64| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for log in &logs {
            let weight = (-exponent * log).exp();
            sum += weight * log;
            weights += weight;
        }
        sum / weights
    };
    falling_to(found, mean)
}

/// The Zipf exponent over `queries` queries under which tables that are asked so often see `different` different ones.
fn repeating(asked: &[u64], different: f64, queries: usize) -> f64 {
    let expected = |exponent: f64| -> f64 {
        let bins = bins(queries, exponent);
        let of_table = |&times: &u64| -> f64 {
            let seen = bins
                .iter()
                .map(|&(count, share)| count * (1.0 - (times as f64 * (-share).ln_1p()).exp()));
            seen.sum()
        };
        asked.iter().map(of_table).sum()
    };
    falling_to(different, expected)
}

/// Ranks in groups: how many, and the share that each of them is asked. The first ones stand alone; further ones, which
/// are asked about alike, are together as far as the next is a twentieth larger.
fn bins(queries: usize, exponent: f64) -> Vec<(f64, f64)> {
    let mut bins = Vec::new();
    let (mut from, mut total) = (1_usize, 0.0);
    while from <= queries {
        let until = (from + 1 + from / 20).min(queries + 1);
        let count = (until - from) as f64;
        let middle = (from + until - 1) as f64 / 2.0;
        let weight = middle.powf(-exponent);
        total += count * weight;
        bins.push((count, weight));
        from = until;
    }
    for (_, share) in &mut bins {
        // A share of one would be asked each time.
        *share = (*share / total).min(1.0 - f64::EPSILON);
    }
    bins
}

/// Where a function of an exponent that falls has this value; 0 where it is lower everywhere.
fn falling_to(value: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, STEEPEST);
    if of(low) <= value {
        return 0.0;
    }
    // Forty halvings leave 1e-11.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if of(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use chiplet_workload::traffic::{Arrivals, Group, Traffic};
    use std::fmt::Write as _;

    /// A log of so many queries with these exponents, 5,000 different ones a table.
    fn drawn(table_skew: f64, query_skew: f64, lines: usize) -> Log {
        let group = Group::new(0..16, 5_000)
            .table_skew(table_skew)
            .query_skew(query_skew);
        let traffic = Traffic::new(3, Arrivals::Poisson { rate: 1.0 }).group(group);
        let mut text = String::from("table,query\n");
        for arrival in traffic.stream().unwrap().take(lines) {
            let _ = writeln!(text, "t{},{}", arrival.table, arrival.query);
        }
        parse(&text).unwrap()
    }

    #[test]
    fn exponents_of_a_drawn_log_are_found_again() {
        for (table_skew, query_skew) in [(0.5, 0.8), (1.0, 1.1), (1.5, 1.4)] {
            let found = drawn(table_skew, query_skew, 20_000).locality(5_000);
            assert!((found.table_skew - table_skew).abs() < 0.05, "{found:?}");
            assert!((found.query_skew - query_skew).abs() < 0.05, "{found:?}");
            assert_eq!((found.lines, found.tables), (20_000, 16));
        }
    }

    #[test]
    fn even_traffic_has_no_skew() {
        let found = drawn(0.0, 0.0, 20_000).locality(5_000);
        assert!(found.table_skew < 0.05, "{found:?}");
        assert!(found.query_skew < 0.1, "{found:?}");
        // Nothing comes again.
        let text: String = (0..1_000).map(|n| format!("a,{n}\n")).collect();
        let found = parse(&text).unwrap().locality(1 << 20);
        assert_eq!(
            (found.repeated, found.table_skew, found.query_skew),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn one_query_over_and_over_is_as_steep_as_can_be() {
        let found = parse(&"a,1\n".repeat(500)).unwrap().locality(1_000);
        assert!(found.repeated > 0.99 && found.query_skew > 5.0, "{found:?}");
    }

    #[test]
    fn a_line_that_is_none_is_named_and_a_short_log_refused() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert!(said("a,1\n\nnonsense\n").contains("line 3: \"nonsense\""));
        assert!(said("a,1\n").contains("1 queries are too few"));
    }
}
