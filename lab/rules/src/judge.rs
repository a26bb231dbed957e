//! What a variant of the rules changes beyond the seeds' spread.

use std::collections::BTreeMap;

use crate::figures::{Figure, Kind};
use crate::kept::Row;

/// A figure that a variant changes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) cell: String,
    pub(crate) figure: String,
    /// By which factor it is worse, the middle of all seeds. Below 1 it is better.
    pub(crate) worse: f64,
    kind: Kind,
}

impl Change {
    /// Whether a user would mind.
    pub(crate) fn is_harm(&self) -> bool {
        self.worse > self.kind.tolerance()
    }

    /// Whether a user would be glad.
    pub(crate) fn is_gain(&self) -> bool {
        self.worse < 1.0 / self.kind.tolerance()
    }

    /// By how many times what a user would mind it is worse or better.
    pub(crate) fn size(&self) -> f64 {
        self.worse.ln() / self.kind.tolerance().ln()
    }
}

type Figures<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<u64, &'a Figure>>;

fn by_figure(rows: &[Row]) -> Figures<'_> {
    let mut all = Figures::new();
    for row in rows {
        for figure in &row.figures {
            let of = all.entry((&row.cell, &figure.name)).or_default();
            of.insert(row.seed, figure);
        }
    }
    all
}

/// Student's t: by how many standard errors a mean of one value, of two and so on is off by chance, once in twenty
/// times.
const ERRORS: [f64; 9] = [f64::INFINITY, 12.7, 4.3, 3.2, 2.8, 2.6, 2.4, 2.4, 2.3];

/// What is worse or better than with the shipped rules, by more than a user would notice and than the seeds explain. So
/// all seeds agree, but for one if there are more than three, and the mean is off by more than one of two errors: that
/// of the differences, seed by seed, or what the shipped rules' own spread over the seeds makes it. Where nothing is
/// answered there is no tail to compare: the answers tell it.
pub(crate) fn changes(shipped: &[Row], variant: &[Row]) -> Vec<Change> {
    let (shipped, variant) = (by_figure(shipped), by_figure(variant));
    let mut changes = Vec::new();
    for ((cell, name), before) in &shipped {
        let now = variant.get(&(*cell, *name));
        let pairs = before.iter().filter_map(|(seed, before)| {
            let now = now?.get(seed)?;
            Some(before.kind.worse(before.value, now.value).ln())
        });
        let mut logs: Vec<f64> = pairs.collect();
        logs.sort_by(f64::total_cmp);
        let Some(first) = before.values().next().filter(|_| !logs.is_empty()) else {
            continue;
        };
        let kind = first.kind;
        let middle = (logs[(logs.len() - 1) / 2] + logs[logs.len() / 2]) / 2.0;
        let own = before.values();
        let own = own.map(|figure| kind.worse(first.value, figure.value).ln());
        let own: Vec<f64> = own.collect();
        let of_pairs = error(variance(&logs), logs.len(), logs.len());
        let of_own = error(2.0 * variance(&own), own.len(), logs.len());
        let agree = logs.iter().filter(|&log| log * middle > 0.0).count();
        let but = usize::from(logs.len() > 3);
        let least = match logs.len() {
            1 => of_own,
            _ => of_pairs.min(of_own),
        };
        if agree + but < logs.len() || mean(&logs).abs() < least {
            continue;
        }
        let change = Change {
            cell: (*cell).to_owned(),
            figure: (*name).to_owned(),
            worse: middle.exp(),
            kind,
        };
        if change.is_harm() || change.is_gain() {
            changes.push(change);
        }
    }
    changes.sort_by(|one, other| other.size().total_cmp(&one.size()));
    changes
}

/// How far a mean of `count` values may be off by chance, whose variance was told by `known` values.
fn error(variance: f64, known: usize, count: usize) -> f64 {
    let errors = ERRORS.get(known - 1).copied().unwrap_or(2.3);
    errors * (variance / count as f64).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// 0 of a single value.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2));
    squares.sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: [f64; 5]) -> Vec<Row> {
        let row = |(seed, value): (usize, f64)| {
            let text = format!(
                r#"{{"cell":"c","seed":{seed},"reach":0,"figures":[{{"name":"p99","value":{value},"kind":"tail"}}]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        values.into_iter().enumerate().map(row).collect()
    }

    #[test]
    fn what_the_seeds_explain_is_no_change() {
        let shipped = rows([100.0, 101.0, 99.0, 100.0, 102.0]);
        let harm = changes(&shipped, &rows([130.0, 140.0, 120.0, 125.0, 131.0]));
        assert!(harm.len() == 1 && harm[0].is_harm() && harm[0].worse > 1.2);
        let gain = changes(&shipped, &rows([60.0, 70.0, 50.0, 65.0, 66.0]));
        assert!(gain.len() == 1 && gain[0].is_gain() && gain[0].size() < -1.0);
        assert!(changes(&shipped, &rows([130.0, 80.0, 140.0, 90.0, 120.0])).is_empty());
        assert!(changes(&shipped, &rows([104.0, 105.0, 103.0, 104.0, 106.0])).is_empty());
        assert!(changes(&shipped, &shipped).is_empty());
    }
}
