//! What the paper claims, and what of it the runs say.

use std::ops::RangeInclusive;

use anyhow::Result;
use chiplet_sim::Topics;

use crate::runs::{Case, Kind, Results, Run, System};

/// A figure of the paper.
pub struct Claim {
    /// Graphs or lists.
    pub kind: Kind,
    /// What it is of.
    pub what: &'static str,
    /// As the paper has it.
    pub paper: &'static str,
    /// Where a figure has to lie to agree.
    pub range: RangeInclusive<f64>,
    /// The modelled one.
    pub figure: fn(&View<'_>) -> Result<f64>,
    /// How it is written. Absolute figures are told, and not judged: they follow from tables that are not public.
    pub unit: Unit,
    /// What explains a difference, as far as it is known.
    pub why: &'static str,
}

/// How a figure is written.
#[derive(Clone, Copy)]
pub enum Unit {
    /// A ratio of two systems, or of two machines.
    Times,
    /// A part.
    Percent,
    /// Thousand queries a second.
    Kqps,
}

/// Whether a modelled figure agrees with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Agrees,
    /// It does where queries have topics.
    WithTopics,
    /// It does in neither.
    Differs,
    /// Other tables have other figures: it is told, and not judged.
    Open,
}

/// The runs of one kind, with or without topics, on Genoa.
pub struct View<'a> {
    /// All runs.
    pub results: &'a Results,
    /// Graphs or lists.
    pub kind: Kind,
    /// With these topics, or none.
    pub topics: Option<Topics>,
}

impl View<'_> {
    fn run(&self, system: System, ccds: usize, load: Option<u32>) -> Result<&Run> {
        self.results.find(Case {
            load,
            ..Case::full(self.kind, false, self.topics, ccds, system)
        })
    }

    /// A saturated run on all CCDs.
    fn full(&self, system: System) -> Result<&Run> {
        self.run(system, 12, None)
    }

    /// How many times V1's a figure of V2's is.
    fn v2_to_v1(&self, load: Option<u32>, figure: fn(&Run) -> f64) -> Result<f64> {
        let of = |system| self.run(system, 12, load).map(figure);
        Ok(of(System::V2)? / of(System::V1)?)
    }
}

impl Claim {
    /// The modelled figure without topics and with them, and what is to be said of them.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn judge(&self, results: &Results, topics: Topics) -> Result<([f64; 2], Verdict)> {
        let figure = |topics| {
            (self.figure)(&View {
                results,
                kind: self.kind,
                topics,
            })
        };
        let figures = [figure(None)?, figure(Some(topics))?];
        // As exact as it is written: the paper's figures are read off pictures.
        let agrees = figures.map(|figure| self.range.contains(&self.unit.rounded(figure)));
        let verdict = match agrees {
            _ if matches!(self.unit, Unit::Kqps) => Verdict::Open,
            [true, _] => Verdict::Agrees,
            [false, true] => Verdict::WithTopics,
            [false, false] => Verdict::Differs,
        };
        Ok((figures, verdict))
    }
}

impl Claim {
    /// The range, as it is written.
    pub fn within(&self) -> String {
        let (least, most) = (*self.range.start(), *self.range.end());
        match self.unit {
            Unit::Kqps => "-".to_owned(),
            unit if most.is_infinite() => format!("{} and more", unit.text(least)),
            unit => format!("{} to {}", unit.text(least), unit.text(most)),
        }
    }
}

impl Unit {
    fn rounded(self, figure: f64) -> f64 {
        match self {
            Self::Times | Self::Percent => (figure * 100.0).round() / 100.0,
            Self::Kqps => figure.round(),
        }
    }

    /// As it is written.
    pub fn text(self, figure: f64) -> String {
        match self {
            Self::Times => format!("{figure:.2}"),
            Self::Percent => format!("{:.0} %", figure * 100.0),
            Self::Kqps => format!("{figure:.0}"),
        }
    }
}

const BOUND: &str = "the socket's memory is 82 % used at 8 CCDs and 92 % at 12; what the paper's queries read is not told";
const CACHED: &str = "without locality 96 to 99 % of L3 accesses miss, whoever runs";
const LISTS: &str = "not known";

const FULL: &str =
    "saturated, no CCD's own queue runs dry: the few steals that are left, 2 % of all tasks, cross";
const IDLE: &str = "saturated, nearly all tasks come from a worker's own queue, so steals are few";
const STALL: &str = "stalls follow bandwidth: what is saved in misses is spent on more queries";
const TAIL: &str = "the model has no page faults, interrupts, locks or clock changes";

/// All claims, for Genoa: the summary's figures of throughput, scaling, latency, misses, stalls and stealing.
pub const CLAIMS: &[Claim] = &[
    Claim {
        kind: Kind::Hnsw,
        what: "V0, 12 CCDs, of 12 times one",
        paper: "82 %",
        range: 0.77..=0.87,
        figure: |view| {
            let one = view.run(System::V0, 1, None)?.qps;
            Ok(view.full(System::V0)?.qps / one / 12.0)
        },
        unit: Unit::Percent,
        why: BOUND,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "V2, from 4 to 12 CCDs, of 3 times",
        paper: "nearly linear",
        range: 0.85..=1.1,
        figure: |view| {
            let four = view.run(System::V2, 4, None)?.qps;
            Ok(view.full(System::V2)?.qps / four / 3.0)
        },
        unit: Unit::Percent,
        why: BOUND,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "V0, thousand queries a second",
        paper: "about 70",
        range: 60.0..=80.0,
        figure: |view| Ok(view.full(System::V0)?.qps / 1e3),
        unit: Unit::Kqps,
        why: BOUND,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "V2, thousand queries a second",
        paper: "above 100",
        range: 100.0..=f64::INFINITY,
        figure: |view| Ok(view.full(System::V2)?.qps / 1e3),
        unit: Unit::Kqps,
        why: CACHED,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "throughput, V2 to V1",
        paper: "above 1.43",
        range: 1.36..=f64::INFINITY,
        figure: |view| view.v2_to_v1(None, |run| run.qps),
        unit: Unit::Times,
        why: CACHED,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "L3 miss rate, V2 to V1",
        paper: "0.85 to 0.94",
        range: 0.85..=0.94,
        figure: |view| view.v2_to_v1(None, |run| run.l3_misses),
        unit: Unit::Times,
        why: "a gain of 1.4 takes a quarter to a third fewer misses in the model; the paper has it with a tenth",
    },
    Claim {
        kind: Kind::Hnsw,
        what: "stalls, V2 to V1",
        paper: "0.6 to 0.8",
        range: 0.6..=0.8,
        figure: |view| view.v2_to_v1(None, |run| run.stalled),
        unit: Unit::Times,
        why: STALL,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "p50 at half load, V2 to V1",
        paper: "0.5 to 0.7",
        range: 0.5..=0.7,
        figure: |view| view.v2_to_v1(Some(50), |run| run.p50_us),
        unit: Unit::Times,
        why: "the paper does not tell its load",
    },
    Claim {
        kind: Kind::Hnsw,
        what: "p999 at half load, V2 to V1",
        paper: "0.1 to 0.4",
        range: 0.1..=0.4,
        figure: |view| view.v2_to_v1(Some(50), |run| run.p999_us),
        unit: Unit::Times,
        why: TAIL,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "steals that cross CCDs, V1, saturated",
        paper: "75 %",
        range: 0.7..=0.8,
        figure: |view| Ok(view.full(System::V1)?.crossing()),
        unit: Unit::Percent,
        why: IDLE,
    },
    Claim {
        kind: Kind::Hnsw,
        what: "the same, V2",
        paper: "below 10 %",
        range: 0.0..=0.1,
        figure: |view| Ok(view.full(System::V2)?.crossing()),
        unit: Unit::Percent,
        why: FULL,
    },
    Claim {
        kind: Kind::Ivf,
        what: "V0, from 2 to 12 CCDs",
        paper: "1.6 to 2.8",
        range: 1.6..=2.8,
        figure: |view| {
            let two = view.run(System::V0, 2, None)?.qps;
            Ok(view.full(System::V0)?.qps / two)
        },
        unit: Unit::Times,
        why: "",
    },
    Claim {
        kind: Kind::Ivf,
        what: "V0, thousand queries a second",
        paper: "about 10",
        range: 8.0..=12.0,
        figure: |view| Ok(view.full(System::V0)?.qps / 1e3),
        unit: Unit::Kqps,
        why: "",
    },
    Claim {
        kind: Kind::Ivf,
        what: "V1, thousand queries a second",
        paper: "about 25",
        range: 20.0..=30.0,
        figure: |view| Ok(view.full(System::V1)?.qps / 1e3),
        unit: Unit::Kqps,
        why: "",
    },
    Claim {
        kind: Kind::Ivf,
        what: "V2, thousand queries a second",
        paper: "about 35",
        range: 30.0..=40.0,
        figure: |view| Ok(view.full(System::V2)?.qps / 1e3),
        unit: Unit::Kqps,
        why: "",
    },
    Claim {
        kind: Kind::Ivf,
        what: "throughput, V2 to V1",
        paper: "1.4",
        range: 1.3..=1.5,
        figure: |view| view.v2_to_v1(None, |run| run.qps),
        unit: Unit::Times,
        why: LISTS,
    },
    Claim {
        kind: Kind::Ivf,
        what: "L3 miss rate, V2 to V1",
        paper: "0.7 to 0.85",
        range: 0.7..=0.85,
        figure: |view| view.v2_to_v1(None, |run| run.l3_misses),
        unit: Unit::Times,
        why: LISTS,
    },
    Claim {
        kind: Kind::Ivf,
        what: "stalls, V2 to V1",
        paper: "0.2 to 0.6",
        range: 0.2..=0.6,
        figure: |view| view.v2_to_v1(None, |run| run.stalled),
        unit: Unit::Times,
        why: STALL,
    },
    Claim {
        kind: Kind::Ivf,
        what: "p50 at half load, V2 to V1",
        paper: "0.5 to 0.7",
        range: 0.5..=0.7,
        figure: |view| view.v2_to_v1(Some(50), |run| run.p50_us),
        unit: Unit::Times,
        why: "the paper does not tell its load",
    },
    Claim {
        kind: Kind::Ivf,
        what: "p999 at half load, V2 to V1",
        paper: "0.1 to 0.4",
        range: 0.1..=0.4,
        figure: |view| view.v2_to_v1(Some(50), |run| run.p999_us),
        unit: Unit::Times,
        why: "a query that one CCD's cores scan takes longer than one that has all cores",
    },
    Claim {
        kind: Kind::Ivf,
        what: "steals that cross CCDs, V1, saturated",
        paper: "80 %",
        range: 0.75..=0.85,
        figure: |view| Ok(view.full(System::V1)?.crossing()),
        unit: Unit::Percent,
        why: IDLE,
    },
    Claim {
        kind: Kind::Ivf,
        what: "the same, V2",
        paper: "5 %",
        range: 0.0..=0.1,
        figure: |view| Ok(view.full(System::V2)?.crossing()),
        unit: Unit::Percent,
        why: "",
    },
];
