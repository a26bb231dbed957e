//! What emulated caches and real machines gave for the paper's tables, beside the model: reports of `chiplet-caches`
//! and of `chiplet bench`.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::claims::{self, Figure};
use crate::runs::{Kind, System, crossing};

/// How figures came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The shipped executor on emulated caches, in modelled time.
    Emulated,
    /// On a machine.
    Measured,
}

/// One report's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How they came about.
    pub how: How,
    /// Graphs or lists.
    pub kind: Kind,
    /// The processor, and its domains.
    pub machine: String,
    /// The day; none of emulated ones, which are the same on any day.
    pub date: Option<String>,
    /// The command that gives them again.
    pub command: String,
    /// By the name of what they are of ([`Figure::name`]).
    pub figures: BTreeMap<String, f64>,
}

fn strategy(system: System, kind: Kind) -> &'static str {
    system.strategy(kind).name
}

impl How {
    /// In a heading.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emulated => "emulated",
            Self::Measured => "measured",
        }
    }
}

impl Evidence {
    /// Reads the file of `chiplet bench --workload paper-hnsw --json`, or of
    /// `chiplet-caches run --workload paper-hnsw --json`.
    ///
    /// # Errors
    /// If it is neither, or lacks one of the paper's systems V1 and V2.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let report: Value = serde_json::from_str(text).context("this is no JSON")?;
        match report.get("constants") {
            Some(_) => emulated(&report),
            None => measured(&report),
        }
    }

    /// The latest of this kind in `all`.
    pub fn of(all: &[Self], how: How, kind: Kind) -> Option<&Self> {
        let mut latest = all.iter().rev();
        latest.find(|evidence| evidence.how == how && evidence.kind == kind)
    }

    fn note(&mut self, figure: &Figure, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.insert(figure.name.to_owned(), value);
        }
    }

    /// Notes what follows from what was seen of each system.
    fn fill(&mut self, seen: impl Fn(System) -> Option<Seen>) -> anyhow::Result<()> {
        let both = seen(System::V1).zip(seen(System::V2));
        let (v1, v2) = both.with_context(|| lacks(self.kind))?;
        let ratio = |of: fn(&Seen) -> Option<f64>| Some(of(&v2)? / of(&v1)?);
        self.note(&claims::THROUGHPUT, ratio(|seen| Some(seen.qps)));
        self.note(&claims::MISSES, ratio(|seen| seen.l3_misses));
        self.note(&claims::STALLS, ratio(|seen| seen.stalled));
        self.note(&claims::P50, ratio(|seen| seen.p50_half));
        self.note(&claims::P999, ratio(|seen| seen.p999_half));
        self.note(&claims::V1_CROSSING, v1.crossing);
        self.note(&claims::V2_CROSSING, v2.crossing);
        let v0 = seen(System::V0).map(|v0| v0.qps / 1e3);
        self.note(&claims::V0_KQPS, v0);
        self.note(&claims::V1_KQPS, Some(v1.qps / 1e3));
        self.note(&claims::V2_KQPS, Some(v2.qps / 1e3));
        Ok(())
    }
}

/// What a report has of one system.
struct Seen {
    qps: f64,
    /// The part of L3 accesses that miss.
    l3_misses: Option<f64>,
    stalled: Option<f64>,
    crossing: Option<f64>,
    /// At half of V0's saturation, microseconds.
    p50_half: Option<f64>,
    p999_half: Option<f64>,
}

/// Of a strategy's or a run's steals.
fn crossing_of(steals: &Value) -> Option<f64> {
    Some(crossing(
        steals["domain"].as_f64()?,
        steals["remote"].as_f64()?,
    ))
}

fn measured(report: &Value) -> anyhow::Result<Evidence> {
    let workload = &report["workload"];
    let kind = match workload["recipe"].as_str() {
        Some("paper-hnsw") => Kind::Hnsw,
        Some("paper-ivf") => Kind::Ivf,
        _ => anyhow::bail!(
            "the report is not of the paper's tables: make it by chiplet bench --workload paper-hnsw (or paper-ivf) --json"
        ),
    };
    let text = |value: &Value| value.as_str().unwrap_or("not told").to_owned();
    let machine = &report["machine"];
    let mut evidence = Evidence {
        how: How::Measured,
        kind,
        machine: format!(
            "{}, {} {} domains",
            text(&machine["cpu"]),
            machine["domains"],
            text(&machine["level"])
        ),
        date: report["date"]
            .as_str()
            .and_then(|date| date.get(..10))
            .map(str::to_owned),
        command: text(&report["command"]),
        figures: BTreeMap::new(),
    };
    let all = report["strategies"].as_array().context("no strategies")?;
    let of = |system| {
        let name = strategy(system, kind);
        all.iter().find(|found| found["name"] == name)
    };
    let curve = report["load_curve"].as_array();
    let half = |system: System, percentile: &str| {
        let is = |point: &&Value| {
            point["strategy"] == strategy(system, kind) && point["load"].as_f64() == Some(0.5)
        };
        curve?.iter().find(is)?["latency_us"][percentile].as_f64()
    };
    evidence.fill(|system| {
        let run = of(system)?;
        Some(Seen {
            qps: run["throughput_qps"].as_f64()?,
            // Misses a query are counted, and no ratio.
            l3_misses: None,
            stalled: run["counters"]["stalled_share"].as_f64(),
            crossing: crossing_of(&run["steals"]),
            p50_half: half(system, "p50"),
            p999_half: half(system, "p999"),
        })
    })?;
    Ok(evidence)
}

fn emulated(record: &Value) -> anyhow::Result<Evidence> {
    let constants = &record["constants"];
    ensure!(
        constants["workload"] == "paper-hnsw",
        "the record is not of the paper's tables: make it by chiplet-caches run --workload paper-hnsw"
    );
    let mut evidence = Evidence {
        how: How::Emulated,
        kind: Kind::Hnsw,
        machine: format!(
            "{}, {} CCDs",
            record["machine"]["name"].as_str().unwrap_or("not told"),
            record["machine"]["domains"]
        ),
        date: None,
        command: format!(
            "chiplet-caches run --workload paper-hnsw --size {}",
            constants["size"]
        ),
        figures: BTreeMap::new(),
    };
    let runs = record["runs"].as_array().context("no runs")?;
    let misses =
        |run: &Value| Some(run["l3_misses"].as_f64()? / run["l3_accesses"].as_f64()?.max(1.0));
    evidence.fill(|system| {
        let name = strategy(system, Kind::Hnsw);
        let mean = |of: &dyn Fn(&Value) -> Option<f64>| {
            let values = runs.iter().filter(|run| run["strategy"] == name);
            let values: Vec<f64> = values.map(of).collect::<Option<_>>()?;
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Some(Seen {
            qps: mean(&|run| run["modelled_qps"].as_f64())?,
            l3_misses: mean(&misses),
            stalled: mean(&|run| run["stalled"].as_f64()),
            crossing: mean(&|run| crossing_of(&run["steals"])),
            p50_half: None,
            p999_half: None,
        })
    })?;
    Ok(evidence)
}

fn lacks(kind: Kind) -> String {
    format!(
        "V1 or V2 was not run: give --strategy {}",
        System::ALL.map(|system| strategy(system, kind)).join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: &str = r#"{
        "date": "2026-11-27T10:00:00Z", "command": "chiplet bench",
        "machine": {"cpu": "A CPU", "domains": 2, "level": "L2"},
        "workload": {"recipe": "paper-hnsw"},
        "strategies": [
            {"name": "global-steal", "throughput_qps": 1000.0, "steals": {"own": 5, "domain": 1, "remote": 3}},
            {"name": "ccd-aware-bytes", "throughput_qps": 1200.0, "steals": {"own": 9, "domain": 0, "remote": 0}}
        ],
        "load_curve": [
            {"strategy": "global-steal", "load": 0.5, "latency_us": {"p50": 10.0, "p999": 40.0}},
            {"strategy": "ccd-aware-bytes", "load": 0.5, "latency_us": {"p50": 8.0, "p999": 50.0}}
        ]
    }"#;

    #[test]
    fn figures_of_a_report_are_the_claims_and_what_it_lacks_stays_out() {
        let evidence = Evidence::read(BENCH).unwrap();
        let figure = |figure: &Figure| evidence.figures.get(figure.name).copied();
        assert_eq!(figure(&claims::THROUGHPUT), Some(1.2));
        assert_eq!(figure(&claims::P50), Some(0.8));
        assert_eq!(figure(&claims::P999), Some(1.25));
        assert_eq!(figure(&claims::V1_CROSSING), Some(0.75));
        // Nothing was stolen, as in the model; nothing was counted.
        assert_eq!(figure(&claims::V2_CROSSING), Some(0.0));
        assert_eq!(figure(&claims::STALLS), None);
        assert_eq!(evidence.machine, "A CPU, 2 L2 domains");
        assert_eq!(evidence.date.as_deref(), Some("2026-11-27"));
    }

    #[test]
    fn another_report_is_refused_with_what_to_do() {
        for (text, named) in [
            ("{}", "--workload paper-hnsw"),
            (r#"{"constants": {}}"#, "chiplet-caches run"),
            ("x", "no JSON"),
        ] {
            let error = format!("{:#}", Evidence::read(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
        let one = BENCH.replace("ccd-aware-bytes", "ccd-aware");
        let error = Evidence::read(&one).unwrap_err().to_string();
        assert!(error.contains("global-steal,ccd-aware-bytes"), "{error}");
    }
}
