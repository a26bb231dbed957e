//! What a monitor sees of a case, and what binding saved: a line of the data that models learn from.

use chiplet_advise::Terms;
use serde::Serialize;

/// A case, measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Of which family.
    pub family: usize,
    /// GB a second from memory.
    pub mbw: f64,
    /// The part of busy time in which it waited for caches or memory.
    pub msr: f64,
    /// Mapped share of the memory: drawn, and without any effect on `gain`.
    pub npmr: f64,
    /// The part of the bytes from memory that was remote.
    pub rmbr: f64,
    /// Of all bytes of the tables, those that do not lie at home.
    pub q: f64,
    /// Far over near latency of the machine at rest.
    pub lambda: f64,
    /// The same of the run, with queues at links, memory and bridge.
    pub lambda_loaded: f64,
    /// The part of processor time for each query that binding saves; below 0 if it costs some.
    pub gain: f64,
    /// The bound instance answered as many queries a second.
    pub kept_up: bool,
    /// What a monitor of the instance does not see.
    pub unseen: Unseen,
}

/// What a gain depends on besides, and no feature tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Unseen {
    /// Use of home's memory by neighbours, of 1.
    pub home_use: f64,
    /// The same of the other node's.
    pub away_use: f64,
    /// L3s that the instance ran on before, and bound.
    pub caches: [usize; 2],
}

/// A column of what models see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Memory bandwidth.
    Mbw,
    /// Memory stall ratio.
    Msr,
    /// Mapped share of the memory.
    Npmr,
    /// Remote share of the memory traffic.
    Rmbr,
    /// Share of the memory that would be remote afterwards.
    Q,
    /// Far over near latency, at rest.
    Lambda,
    /// What the law says, with the latencies at rest.
    Law,
}

impl Feature {
    /// MAO's four.
    pub const MAO: &[Self] = &[Self::Mbw, Self::Msr, Self::Npmr, Self::Rmbr];
    /// Those, and what else the law is fed with.
    pub const TERMS: &[Self] = &[
        Self::Mbw,
        Self::Msr,
        Self::Npmr,
        Self::Rmbr,
        Self::Q,
        Self::Lambda,
    ];
    /// Those, and what it says.
    pub const ALL: &[Self] = &[
        Self::Mbw,
        Self::Msr,
        Self::Npmr,
        Self::Rmbr,
        Self::Q,
        Self::Lambda,
        Self::Law,
    ];

    /// What the law is fed with.
    pub const LAW: &[Self] = &[Self::Msr, Self::Rmbr, Self::Q, Self::Lambda];

    /// As it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mbw => "MBW",
            Self::Msr => "MSR",
            Self::Npmr => "NPMR",
            Self::Rmbr => "RMBR",
            Self::Q => "q",
            Self::Lambda => "lambda",
            Self::Law => "law",
        }
    }

    /// Its figure.
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Mbw => sample.mbw,
            Self::Msr => sample.msr,
            Self::Npmr => sample.npmr,
            Self::Rmbr => sample.rmbr,
            Self::Q => sample.q,
            Self::Lambda => sample.lambda,
            Self::Law => sample.law(),
        }
    }

    /// Gives a sample this feature of another one. What the law says is not kept but follows from the rest, so it is
    /// passed over here.
    pub fn copy(self, from: &Sample, to: &mut Sample) {
        match self {
            Self::Mbw => to.mbw = from.mbw,
            Self::Msr => to.msr = from.msr,
            Self::Npmr => to.npmr = from.npmr,
            Self::Rmbr => to.rmbr = from.rmbr,
            Self::Q => to.q = from.q,
            Self::Lambda => {
                (to.lambda, to.lambda_loaded) = (from.lambda, from.lambda_loaded);
            }
            Self::Law => {}
        }
    }
}

impl Sample {
    /// The first-order law, with the latencies at rest.
    pub fn law(&self) -> f64 {
        self.law_at(self.lambda)
    }

    /// The same with the latencies under load.
    pub fn law_loaded(&self) -> f64 {
        self.law_at(self.lambda_loaded)
    }

    fn law_at(&self, lambda: f64) -> f64 {
        let terms = Terms {
            msr: self.msr,
            rmbr: self.rmbr,
            remote_by: None,
            q: self.q,
            lambda,
        };
        terms.gain()
    }
}
