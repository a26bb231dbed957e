//! What options hold: the kind of tables, a rate, lengths of time, a metric.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, ensure};
use chiplet_bench::workload::truth::Metric;

/// Which index libraries the tables use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Hnsw,
    Ivf,
    Mixed,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hnsw => "hnsw",
            Self::Ivf => "ivf",
            Self::Mixed => "mixed",
        })
    }
}

/// How much to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    Max,
    /// Of the first strategy's saturation, 1.0 being all of it.
    Share(f64),
    /// Queries per second.
    Fixed(f64),
}

impl FromStr for Rate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let (number, share) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let Ok(value) = number.trim().parse::<f64>() else {
            bail!("{text:?} is no rate: give max, a percentage such as 70%, or queries per second");
        };
        ensure!(
            value.is_finite() && value > 0.0,
            "a rate of {text}: give more than 0"
        );
        if share {
            ensure!(value <= 200.0, "{text} of saturation: give at most 200%");
            return Ok(Self::Share(value / 100.0));
        }
        ensure!(
            value <= 1e8,
            "{text} queries per second: give at most 100000000"
        );
        Ok(Self::Fixed(value))
    }
}

/// The longest round: each answer of a round is kept until the round is summed up.
const LONGEST: f64 = 3_600.0;

pub(super) fn seconds(text: &str) -> anyhow::Result<Duration> {
    let value: f64 = text.parse()?;
    ensure!(
        (0.0..=LONGEST).contains(&value),
        "{text} seconds: give 0 to {LONGEST}"
    );
    Ok(Duration::from_secs_f64(value))
}

/// The length of a traffic window.
pub(super) fn window(text: &str) -> anyhow::Result<Duration> {
    let window = seconds(text)?;
    ensure!(
        window >= Duration::from_millis(10),
        "a window of {text} seconds: give at least 0.01"
    );
    Ok(window)
}

pub(super) fn milliseconds(text: &str) -> anyhow::Result<Duration> {
    let value: f64 = text.parse()?;
    ensure!(
        value > 0.0 && value <= LONGEST * 1e3,
        "{text} ms: give more than 0"
    );
    Ok(Duration::from_secs_f64(value / 1e3))
}

pub(super) fn metric(text: &str) -> anyhow::Result<Metric> {
    Ok(match text {
        "l2" => Metric::L2,
        "cosine" => Metric::Cosine,
        "ip" => Metric::InnerProduct,
        _ => bail!("{text:?} is no metric: give l2, cosine or ip"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_max_a_share_or_a_number() {
        assert_eq!("max".parse::<Rate>().unwrap(), Rate::Max);
        assert_eq!("70%".parse::<Rate>().unwrap(), Rate::Share(0.7));
        assert_eq!("20000".parse::<Rate>().unwrap(), Rate::Fixed(20_000.0));
    }

    #[test]
    fn what_is_no_rate_is_refused_by_name() {
        for text in ["", "0", "-3", "nan", "inf", "0%", "300%", "fast", "1e30"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("give"),
                "{text}: {error}"
            );
        }
    }
}
