//! What the paper claims, and what of it the runs say.

use std::ops::RangeInclusive;

use anyhow::{Context as _, Result};
use chiplet_sim::Topics;

use crate::runs::{Case, Kind, Results, Run, System};
use crate::spread::Spread;

/// A figure of the paper.
pub struct Claim {
    /// Graphs or lists.
    pub kind: Kind,
    /// What it is of.
    pub figure: &'static Figure,
    /// As the paper has it.
    pub paper: &'static str,
    /// Where a figure has to lie to agree. Absolute figures have none: they follow from tables that are not public.
    pub range: Option<RangeInclusive<f64>>,
    /// What explains a difference, as far as it is known.
    pub why: &'static str,
}

/// What a claim is of.
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// The modelled one.
    pub of: fn(&View<'_>) -> Result<f64>,
    /// How it is written.
    pub unit: Unit,
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
    /// With this seed.
    pub seed: u64,
}

impl View<'_> {
    pub(crate) fn run(&self, system: System, ccds: usize, load: Option<u32>) -> Result<&Run> {
        let case = Case {
            load,
            ..Case::full(self.kind, false, self.topics, ccds, system)
        };
        self.results.find(case, self.seed)
    }

    /// A saturated run on all CCDs.
    fn full(&self, system: System) -> Result<&Run> {
        self.run(system, 12, None)
    }

    /// How many times V1's a figure of V2's is.
    pub(crate) fn v2_to_v1(&self, load: Option<u32>, figure: fn(&Run) -> f64) -> Result<f64> {
        let of = |system| self.run(system, 12, load).map(figure);
        Ok(of(System::V2)? / of(System::V1)?)
    }
}

impl Claim {
    /// The modelled figure without topics and with them, of all seeds, and what is to be said of the medians.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn judge(&self, results: &Results, topics: Topics) -> Result<([Spread; 2], Verdict)> {
        let figure = |topics| {
            let of_seed = |seed| {
                (self.figure.of)(&View {
                    results,
                    kind: self.kind,
                    topics,
                    seed,
                })
            };
            let figures = results.all_seeds().map(of_seed);
            let figures = figures.collect::<Result<Vec<_>>>()?;
            Spread::of(figures).context("there are no seeds")
        };
        let figures = [figure(None)?, figure(Some(topics))?];
        let Some(range) = &self.range else {
            return Ok((figures, Verdict::Open));
        };
        // As exact as it is written: the paper's figures are read off pictures.
        let agrees = figures.map(|figure| range.contains(&self.figure.unit.rounded(figure.median)));
        let verdict = match agrees {
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
        let text = |figure| self.figure.unit.text(figure);
        match &self.range {
            None => "-".to_owned(),
            Some(range) if range.end().is_infinite() => {
                format!("{} and more", text(*range.start()))
            }
            Some(range) => format!("{} to {}", text(*range.start()), text(*range.end())),
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

const FEWER: &str = "a gain of 1.4 takes a quarter to a third fewer misses in the model; the paper has it with a tenth";
const LOAD: &str = "the paper does not tell its load";
const ALONE: &str = "a query that one CCD's cores scan takes longer than one that has all cores";

pub(crate) const V0_OF_IDEAL: Figure = Figure {
    name: "V0, 12 CCDs, of 12 times one",
    of: |view| {
        let one = view.run(System::V0, 1, None)?.qps;
        Ok(view.full(System::V0)?.qps / one / 12.0)
    },
    unit: Unit::Percent,
};
pub(crate) const V2_FROM_4: Figure = Figure {
    name: "V2, from 4 to 12 CCDs, of 3 times",
    of: |view| {
        let four = view.run(System::V2, 4, None)?.qps;
        Ok(view.full(System::V2)?.qps / four / 3.0)
    },
    unit: Unit::Percent,
};
pub(crate) const V0_FROM_2: Figure = Figure {
    name: "V0, from 2 to 12 CCDs",
    of: |view| {
        let two = view.run(System::V0, 2, None)?.qps;
        Ok(view.full(System::V0)?.qps / two)
    },
    unit: Unit::Times,
};
pub(crate) const V0_KQPS: Figure = Figure {
    name: "V0, thousand queries a second",
    of: |view| Ok(view.full(System::V0)?.qps / 1e3),
    unit: Unit::Kqps,
};
pub(crate) const V1_KQPS: Figure = Figure {
    name: "V1, thousand queries a second",
    of: |view| Ok(view.full(System::V1)?.qps / 1e3),
    unit: Unit::Kqps,
};
pub(crate) const V2_KQPS: Figure = Figure {
    name: "V2, thousand queries a second",
    of: |view| Ok(view.full(System::V2)?.qps / 1e3),
    unit: Unit::Kqps,
};
pub(crate) const THROUGHPUT: Figure = Figure {
    name: "throughput, V2 to V1",
    of: |view| view.v2_to_v1(None, |run| run.qps),
    unit: Unit::Times,
};
pub(crate) const MISSES: Figure = Figure {
    name: "L3 miss rate, V2 to V1",
    of: |view| view.v2_to_v1(None, |run| run.l3_misses),
    unit: Unit::Times,
};
pub(crate) const STALLS: Figure = Figure {
    name: "stalls, V2 to V1",
    of: |view| view.v2_to_v1(None, |run| run.stalled),
    unit: Unit::Times,
};
pub(crate) const P50: Figure = Figure {
    name: "p50 at half load, V2 to V1",
    of: |view| view.v2_to_v1(Some(50), |run| run.p50_us),
    unit: Unit::Times,
};
pub(crate) const P999: Figure = Figure {
    name: "p999 at half load, V2 to V1",
    of: |view| view.v2_to_v1(Some(50), |run| run.p999_us),
    unit: Unit::Times,
};
pub(crate) const V1_CROSSING: Figure = Figure {
    name: "steals that cross CCDs, V1, saturated",
    of: |view| Ok(view.full(System::V1)?.crossing()),
    unit: Unit::Percent,
};
pub(crate) const V2_CROSSING: Figure = Figure {
    name: "the same, V2",
    of: |view| Ok(view.full(System::V2)?.crossing()),
    unit: Unit::Percent,
};

const fn claim(
    kind: Kind,
    figure: &'static Figure,
    paper: &'static str,
    range: Option<RangeInclusive<f64>>,
    why: &'static str,
) -> Claim {
    Claim {
        kind,
        figure,
        paper,
        range,
        why,
    }
}

/// All claims, for Genoa: the summary's figures of throughput, scaling, latency, misses, stalls and stealing.
pub const CLAIMS: &[Claim] = &[
    claim(Kind::Hnsw, &V0_OF_IDEAL, "82 %", Some(0.77..=0.87), BOUND),
    claim(
        Kind::Hnsw,
        &V2_FROM_4,
        "nearly linear",
        Some(0.85..=1.1),
        BOUND,
    ),
    claim(Kind::Hnsw, &V0_KQPS, "about 70", None, ""),
    claim(Kind::Hnsw, &V2_KQPS, "above 100", None, ""),
    claim(
        Kind::Hnsw,
        &THROUGHPUT,
        "above 1.43",
        Some(1.36..=f64::INFINITY),
        CACHED,
    ),
    claim(
        Kind::Hnsw,
        &MISSES,
        "0.85 to 0.94",
        Some(0.85..=0.94),
        FEWER,
    ),
    claim(Kind::Hnsw, &STALLS, "0.6 to 0.8", Some(0.6..=0.8), STALL),
    claim(Kind::Hnsw, &P50, "0.5 to 0.7", Some(0.5..=0.7), LOAD),
    claim(Kind::Hnsw, &P999, "0.1 to 0.4", Some(0.1..=0.4), TAIL),
    claim(Kind::Hnsw, &V1_CROSSING, "75 %", Some(0.7..=0.8), IDLE),
    claim(
        Kind::Hnsw,
        &V2_CROSSING,
        "below 10 %",
        Some(0.0..=0.1),
        FULL,
    ),
    claim(Kind::Ivf, &V0_FROM_2, "1.6 to 2.8", Some(1.6..=2.8), ""),
    claim(Kind::Ivf, &V0_KQPS, "about 10", None, ""),
    claim(Kind::Ivf, &V1_KQPS, "about 25", None, ""),
    claim(Kind::Ivf, &V2_KQPS, "about 35", None, ""),
    claim(Kind::Ivf, &THROUGHPUT, "1.4", Some(1.3..=1.5), LISTS),
    claim(Kind::Ivf, &MISSES, "0.7 to 0.85", Some(0.7..=0.85), LISTS),
    claim(Kind::Ivf, &STALLS, "0.2 to 0.6", Some(0.2..=0.6), STALL),
    claim(Kind::Ivf, &P50, "0.5 to 0.7", Some(0.5..=0.7), LOAD),
    claim(Kind::Ivf, &P999, "0.1 to 0.4", Some(0.1..=0.4), ALONE),
    claim(Kind::Ivf, &V1_CROSSING, "80 %", Some(0.75..=0.85), IDLE),
    claim(Kind::Ivf, &V2_CROSSING, "5 %", Some(0.0..=0.1), ""),
];
