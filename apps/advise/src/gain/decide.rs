//! The advice for one group.
//!
//! 1. A machine with one node of cpus has nothing to bind to, and a group that runs on one node beside all of its
//!    memory has nothing to gain. No counter is needed to know that.
//! 2. A figure that is missing ends it: nothing is predicted from a guess.
//! 3. Each node is weighed by the law. Afterwards as much is remote as there are mapped pages elsewhere: they stay
//!    where they are, unless they are to move too.
//! 4. Of the nodes that gain enough, the best with room for the group is advised.

use std::collections::BTreeMap;

use serde::Serialize;

use super::law::Terms;
use super::room::{Demand, Resource, Room, Shortage};
use crate::features::{Features, Reading};
use crate::memory::GroupMemory;
use crate::missing::Missing;

/// Of the mapped memory so much on the group's only node counts as all of it.
const ALL: f64 = 0.99;

chiplet_policy::settings! {
    /// When binding is worth it.
    pub struct AdviceConfig {
        /// The gain below which it is not worth the trouble; 3 % by default, which is about what a change of IPC has to
        /// be to be told from noise. A value that is no share counts as that.
        pub(crate) threshold: f64 = 0.03,
        /// Whether the group's memory is to move too. False by default: writing `cpuset.mems` migrates pages, at 1.6 GB
        /// a second of a whole core (MAO, table I), while the group waits for them.
        pub(crate) move_memory: bool = false,
        /// The share of a node's memory that stays free; 5 % by default.
        pub(crate) spare_memory: f64 = 0.05,
    }
}

/// The group that is judged.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its features over a window.
    pub features: Features,
    /// Latency of far over latency of near memory, measured under load; `None` if nobody measured.
    pub lambda: Option<f64>,
    /// Where its memory lies.
    pub memory: Option<GroupMemory>,
    /// How many cpus of each node it may run on.
    pub cpus: BTreeMap<u32, usize>,
    /// Processors that it keeps busy.
    pub busy: f64,
    /// Bytes of last-level cache that it fills.
    pub cache: Option<u64>,
}

/// A figure that a prediction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Stalled of all cycles.
    Msr,
    /// Remote of all traffic.
    Rmbr,
    /// Far over near latency.
    Lambda,
    /// Where the memory lies, which tells what is remote afterwards.
    Pages,
}

/// What to do with a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// Bind it.
    Bind {
        /// To this node.
        node: u32,
        /// The share of its cycles that is saved.
        gain: f64,
        /// What that was computed of.
        terms: Terms,
    },
    /// Leave it.
    Nothing {
        /// Why.
        because: Because,
    },
    /// It cannot be told.
    CannotPredict {
        /// What is missing, and why.
        missing: Vec<(Figure, Missing)>,
    },
}

/// Why there is nothing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// The machine has one node with cpus, or none.
    OneNode,
    /// It runs on one node, beside all of its memory.
    Local {
        /// The node.
        node: u32,
    },
    /// The best node gains less than the threshold.
    TooLittle {
        /// The best node.
        node: u32,
        /// What it would gain.
        gain: f64,
        /// What that was computed of.
        terms: Terms,
        /// What it had to be.
        threshold: f64,
    },
    /// Every node that would gain enough is short of something; see [`Assessment::short`].
    NoRoom {
        /// The best of them.
        node: u32,
        /// What it would gain.
        gain: f64,
        /// What that was computed of.
        terms: Terms,
    },
}

/// The advice, and what the nodes that were considered are short of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assessment {
    /// What to do.
    pub advice: Advice,
    /// What is short on nodes that would gain enough, with the neighbour that takes it. Cache that is short is a
    /// caution and rules no node out: a cache is full at all times, and who is bound there shares it.
    pub short: Vec<Shortage>,
}

/// Judges a group, given all nodes of the machine.
///
/// ```
/// use std::collections::BTreeMap;
/// use chiplet_advise::{
///     Advice, AdviceConfig, Features, GroupMemory, Reading, RemoteBy, Room, Subject, assess,
/// };
/// // Its memory lies on node 0, and it runs on node 1.
/// let subject = Subject {
///     features: Features {
///         mbw: Reading::Value(2e9),
///         msr: Reading::Value(0.4),
///         npmr: Reading::Value(1.0),
///         rmbr: Reading::Value(0.95),
///         remote_by: Some(RemoteBy::Bandwidth),
///         not_counted: None,
///     },
///     lambda: Some(1.7),
///     memory: Some(GroupMemory { anon: BTreeMap::from([(0, 1 << 30)]), ..Default::default() }),
///     cpus: BTreeMap::from([(1, 16)]),
///     busy: 3.0,
///     cache: None,
/// };
/// let room = |node| Room {
///     node,
///     cpus: 16.0,
///     cpus_left: 8.0,
///     memory: 64 << 30,
///     memory_left: 32 << 30,
///     ..Default::default()
/// };
/// let assessment = assess(&subject, &[room(0), room(1)], &AdviceConfig::new());
/// let Advice::Bind { node, gain, .. } = assessment.advice else { panic!() };
/// assert_eq!(node, 0);
/// assert!((gain - 0.16).abs() < 0.001);
/// ```
pub fn assess(subject: &Subject, rooms: &[Room], config: &AdviceConfig) -> Assessment {
    let nodes: Vec<&Room> = rooms.iter().filter(|room| room.cpus > 0.0).collect();
    let plain = |advice| Assessment {
        advice,
        short: Vec::new(),
    };
    let nothing = |because| Advice::Nothing { because };
    if nodes.len() < 2 {
        return plain(nothing(Because::OneNode));
    }
    if let Some(node) = subject.is_local() {
        return plain(nothing(Because::Local { node }));
    }
    let (memory, terms) = match subject.figures() {
        Ok(figures) => figures,
        Err(missing) => return plain(Advice::CannotPredict { missing }),
    };
    let mut candidates: Vec<(&Room, Terms)> = (nodes.into_iter())
        .map(|room| (room, terms_on(room.node, memory, terms, config)))
        .collect();
    candidates.sort_by(|one, other| {
        let gains = other.1.gain().total_cmp(&one.1.gain());
        gains.then(one.0.node.cmp(&other.0.node))
    });
    let (best, terms) = candidates[0];
    let (node, gain, threshold) = (best.node, terms.gain(), config.least_gain());
    if gain < threshold {
        return plain(nothing(Because::TooLittle {
            node,
            gain,
            terms,
            threshold,
        }));
    }
    let mut short = Vec::new();
    for (room, terms) in candidates {
        let gain = terms.gain();
        if gain < threshold {
            break;
        }
        let elsewhere = memory.mapped() - memory.mapped_on(room.node).min(memory.mapped());
        let demand = Demand {
            cpus: subject.busy,
            memory: if config.move_memory { elsewhere } else { 0 },
            bandwidth: subject.features.mbw.value(),
            cache: subject.cache,
        };
        let found = room.shortages(&demand, config.spare_memory);
        let fits = found.iter().all(|short| short.of == Resource::Cache);
        short.extend(found);
        if fits {
            let node = room.node;
            let advice = Advice::Bind { node, gain, terms };
            return Assessment { advice, short };
        }
    }
    let advice = nothing(Because::NoRoom { node, gain, terms });
    Assessment { advice, short }
}

/// What binding the group would gain on each of these nodes; nothing if a figure is missing.
pub(crate) fn gains(
    subject: &Subject,
    nodes: impl Iterator<Item = u32>,
    config: &AdviceConfig,
) -> BTreeMap<u32, f64> {
    let Ok((memory, terms)) = subject.figures() else {
        return BTreeMap::new();
    };
    let gain = |node| (node, terms_on(node, memory, terms, config).gain());
    nodes.map(gain).collect()
}

/// The terms with what would be remote if the group ran on this node.
fn terms_on(node: u32, memory: &GroupMemory, terms: Terms, config: &AdviceConfig) -> Terms {
    let q = match config.move_memory {
        true => 0.0,
        false => 1.0 - memory.share_on(node).unwrap_or(0.0),
    };
    Terms { q, ..terms }
}

impl AdviceConfig {
    fn least_gain(&self) -> f64 {
        match self.threshold {
            0.0..=1.0 => self.threshold,
            _ => Self::new().threshold,
        }
    }
}

impl Subject {
    /// The one node that it runs on, if all of its memory lies there.
    fn is_local(&self) -> Option<u32> {
        let mut nodes = self.cpus.iter().filter(|(_, cpus)| **cpus > 0);
        let (&node, _) = nodes.next()?;
        let here = self.memory.as_ref()?.share_on(node)?;
        (nodes.next().is_none() && here >= ALL).then_some(node)
    }

    /// Where its memory lies, and the terms but for what is remote afterwards; or all that is missing.
    fn figures(&self) -> Result<(&GroupMemory, Terms), Vec<(Figure, Missing)>> {
        let mut missing = Vec::new();
        let mut take = |figure, value: Result<f64, Missing>| match value {
            Ok(value) => value,
            Err(why) => {
                missing.push((figure, why));
                f64::NAN
            }
        };
        let of = |reading: Reading| match reading {
            Reading::Value(value) => Ok(value),
            Reading::Missing(why) => Err(why),
        };
        let share = |value: f64| match value {
            0.0..=1.0 => Ok(value),
            _ => Err(Missing::Contradicts),
        };
        let msr = take(Figure::Msr, of(self.features.msr).and_then(share));
        let rmbr = take(Figure::Rmbr, of(self.features.rmbr).and_then(share));
        let lambda = match self.lambda {
            None => Err(Missing::NoLatencies),
            Some(lambda) if lambda >= 1.0 && lambda.is_finite() => Ok(lambda),
            Some(_) => Err(Missing::Contradicts),
        };
        let lambda = take(Figure::Lambda, lambda);
        match &self.memory {
            Some(memory) if memory.mapped() > 0 => {
                let terms = Terms {
                    msr,
                    rmbr,
                    remote_by: self.features.remote_by,
                    q: f64::NAN,
                    lambda,
                };
                if missing.is_empty() {
                    return Ok((memory, terms));
                }
            }
            Some(_) => missing.push((Figure::Pages, Missing::NoPages)),
            None => missing.push((Figure::Pages, Missing::NoMemoryStat)),
        }
        Err(missing)
    }
}
