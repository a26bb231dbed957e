//! What an instrument counts, what the simulator says, and whether they agree.

use std::fmt::Write as _;

use chiplet_caches::spread::Spread;
use serde::Serialize;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// What the simulator is compared with.
    pub instrument: &'static str,
    /// What was run.
    pub name: String,
    /// What is compared.
    pub figure: &'static str,
    /// By the instrument.
    pub measured: Spread,
    /// By the simulator.
    pub simulated: Spread,
    /// How far apart the medians may be, as a part of the instrument's.
    pub goal: f64,
}

impl Case {
    /// How far the simulator is above the instrument, as a part of the instrument's figure.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.simulated.median / self.measured.median - 1.0
    }

    /// Whether that is within the goal.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.difference().abs() <= self.goal
    }
}

/// All cases as a table.
#[must_use]
pub fn show(cases: &[Case]) -> String {
    let heads = [
        "instrument",
        "case",
        "figure",
        "instrument's",
        "simulator's",
        "apart",
        "goal",
        "",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    for case in cases {
        rows.push([
            case.instrument.to_owned(),
            case.name.clone(),
            case.figure.to_owned(),
            text(case.measured),
            text(case.simulated),
            format!("{:+.1} %", 100.0 * case.difference()),
            format!("{:.0} %", 100.0 * case.goal),
            if case.is_within() {
                "within"
            } else {
                "outside"
            }
            .to_owned(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0..=2 | 7 => write!(line, "{cell:width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Digits by size, and the spread where there is one.
fn text(spread: Spread) -> String {
    let digits = if spread.median < 10.0 { 2 } else { 0 };
    match spread.least < spread.most {
        true => spread.text(digits),
        false => format!("{:.digits$}", spread.median),
    }
}
