//! MAO's four features of a group over a window of time.
//!
//! | feature | is | from |
//! |---|---|---|
//! | MBW | bytes of memory traffic a second | `mbm_total_bytes` of resctrl |
//! | MSR | cycles stalled on memory / unhalted cycles | a performance monitoring unit; who reads it gives [`Cycles`] |
//! | NPMR | (anon + file_mapped) / (anon + file) | `memory.numa_stat` |
//! | RMBR | remote / total traffic | counted fills, or MBM's local bytes, or where the pages lie ([`RemoteBy`]) |
//!
//! MAO: Liu, Jin, Shu, Li, He, "Machine learning approach for NUMA optimization in warehouse scale computers", section
//! III.E. Its NPMR is "RSS pages / all pages"; a control group tells anonymous and mapped file pages as RSS.
//!
//! A [`Window`] is plain values, and so are the features: equal windows give equal features. A figure that is not there
//! has its reason ([`Missing`]); nothing is put in its place.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::memory::GroupMemory;
use crate::missing::Missing;

/// A local count may exceed the total that was read a moment earlier by so much of it.
const SKEW: f64 = 0.05;

/// A figure, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The figure, finite and not negative.
    Value(f64),
    /// There is none.
    Missing(Missing),
}

impl Reading {
    /// The figure.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// Why there is none.
    pub fn missing(self) -> Option<Missing> {
        match self {
            Self::Value(_) => None,
            Self::Missing(why) => Some(why),
        }
    }

    /// A share of a whole. A whole of nothing has no shares.
    fn share(part: f64, whole: f64) -> Self {
        let share = part / whole;
        match share {
            _ if whole == 0.0 => Self::Missing(Missing::Idle),
            0.0..=1.0 => Self::Value(share),
            _ => Self::Missing(Missing::Contradicts),
        }
    }
}

/// What a performance monitoring unit counted of the group in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    /// Cycles in which it waited for memory. Intel: stalls on an L3 miss; AMD: backend-memory-bound slots, as cycles.
    pub stalled: u64,
    /// All cycles that were not halted.
    pub unhalted: u64,
}

/// Lines that came from memory in the window, by where it is. AMD: `ls_any_fills_from_sys.dram_io_near` and `_far`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fills {
    /// From memory of the core's own node.
    pub near: u64,
    /// From another node's.
    pub far: u64,
}

/// What was seen of a group in a window of time.
#[derive(Clone, Debug)]
pub struct Window {
    /// How long it was.
    pub length: Duration,
    /// Bytes between the group and memory, or why that is not known.
    pub bytes: Result<u64, Missing>,
    /// Of these, bytes of the node where the cores are.
    pub local_bytes: Result<u64, Missing>,
    /// Who counts cycles sets this.
    pub cycles: Result<Cycles, Missing>,
    /// Who counts fills sets this.
    pub fills: Option<Fills>,
    /// Where the group's memory lay at the end of the window.
    pub memory: Option<GroupMemory>,
    /// How many cpus of each node the group may run on.
    pub cpus: BTreeMap<u32, usize>,
}

/// What RMBR was told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteBy {
    /// Lines from near and from far memory, counted by the cores.
    Fills,
    /// Bytes, local and in all, counted by resctrl.
    Bandwidth,
    /// No counter: the share of the group's pages that lie off the node of a cpu, on the mean over the cpus that the
    /// group may use. It is what would be remote if every cpu used every page alike.
    Pages,
}

/// MAO's features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// Memory bandwidth, bytes a second.
    pub mbw: Reading,
    /// Cycles stalled on memory of all unhalted cycles.
    pub msr: Reading,
    /// Memory that is not mere page cache, of all memory.
    pub npmr: Reading,
    /// Remote of all memory traffic.
    pub rmbr: Reading,
    /// What `rmbr` was told by.
    pub remote_by: Option<RemoteBy>,
    /// Why no counter told `rmbr`, if none did.
    pub not_counted: Option<Missing>,
}

impl Features {
    /// The features of a window.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chiplet_advise::{Cycles, Features, Missing, Reading, RemoteBy, Window};
    /// let window = Window {
    ///     length: Duration::from_secs(60),
    ///     bytes: Ok(120_000_000_000),
    ///     local_bytes: Ok(48_000_000_000),
    ///     cycles: Ok(Cycles { stalled: 40, unhalted: 100 }),
    ///     fills: None,
    ///     memory: None,
    ///     cpus: Default::default(),
    /// };
    /// let features = Features::of(&window);
    /// assert_eq!(features.mbw, Reading::Value(2e9));
    /// assert_eq!(features.msr, Reading::Value(0.4));
    /// assert_eq!(features.npmr, Reading::Missing(Missing::NoMemoryStat));
    /// assert_eq!(features.rmbr, Reading::Value(0.6));
    /// assert_eq!(features.remote_by, Some(RemoteBy::Bandwidth));
    /// ```
    pub fn of(window: &Window) -> Self {
        let (rmbr, remote_by, not_counted) = remote(window);
        Self {
            mbw: bandwidth(window).unwrap_or_else(Reading::Missing),
            msr: stalls(window).unwrap_or_else(Reading::Missing),
            npmr: not_cache(window).unwrap_or_else(Reading::Missing),
            rmbr,
            remote_by,
            not_counted,
        }
    }
}

fn bandwidth(window: &Window) -> Result<Reading, Missing> {
    let bytes = window.bytes?;
    if window.length.is_zero() {
        return Err(Missing::NoTime);
    }
    Ok(Reading::Value(bytes as f64 / window.length.as_secs_f64()))
}

fn stalls(window: &Window) -> Result<Reading, Missing> {
    let cycles = window.cycles?;
    Ok(Reading::share(
        cycles.stalled as f64,
        cycles.unhalted as f64,
    ))
}

fn not_cache(window: &Window) -> Result<Reading, Missing> {
    let memory = window.memory.as_ref().ok_or(Missing::NoMemoryStat)?;
    match memory.all() {
        0 => Err(Missing::NoPages),
        all => Ok(Reading::share(memory.mapped() as f64, all as f64)),
    }
}

/// RMBR, by the best that there is; without a counter also why.
fn remote(window: &Window) -> (Reading, Option<RemoteBy>, Option<Missing>) {
    let counted = match window.fills {
        Some(fills) => Ok((of_fills(fills), RemoteBy::Fills)),
        None => of_bytes(window).map(|reading| (reading, RemoteBy::Bandwidth)),
    };
    let why = match counted {
        Ok((Reading::Value(share), by)) => return (Reading::Value(share), Some(by), None),
        Ok((Reading::Missing(why), _)) | Err(why) => why,
    };
    match off_node(window) {
        Ok(share) => (Reading::Value(share), Some(RemoteBy::Pages), Some(why)),
        Err(_) => (Reading::Missing(why), None, Some(why)),
    }
}

fn of_fills(fills: Fills) -> Reading {
    let all = fills.near as f64 + fills.far as f64;
    Reading::share(fills.far as f64, all)
}

fn of_bytes(window: &Window) -> Result<Reading, Missing> {
    let (local, all) = (window.local_bytes? as f64, window.bytes? as f64);
    if local > all * (1.0 + SKEW) {
        return Err(Missing::Contradicts);
    }
    Ok(Reading::share((all - local).max(0.0), all))
}

/// The share of pages that lie off a cpu's node, on the mean over the group's cpus.
fn off_node(window: &Window) -> Result<f64, Missing> {
    let memory = window.memory.as_ref().ok_or(Missing::NoMemoryStat)?;
    let cpus: usize = window.cpus.values().sum();
    if cpus == 0 {
        return Err(Missing::NoCpus);
    }
    let mut off = 0.0;
    for (&node, &count) in &window.cpus {
        let here = memory.share_on(node).ok_or(Missing::NoPages)?;
        off += (1.0 - here) * count as f64 / cpus as f64;
    }
    Ok(off.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window() -> Window {
        Window {
            length: Duration::from_secs(10),
            bytes: Err(Missing::NoResctrl),
            local_bytes: Err(Missing::NoResctrl),
            cycles: Err(Missing::NoCycles),
            fills: None,
            memory: None,
            cpus: BTreeMap::new(),
        }
    }

    fn memory(anon: &[(u32, u64)], file: &[(u32, u64)], mapped: &[(u32, u64)]) -> GroupMemory {
        let map = |pairs: &[(u32, u64)]| pairs.iter().copied().collect();
        GroupMemory {
            anon: map(anon),
            file: map(file),
            file_mapped: map(mapped),
        }
    }

    #[test]
    fn each_missing_figure_has_its_reason() {
        let features = Features::of(&window());
        assert_eq!(features.mbw, Reading::Missing(Missing::NoResctrl));
        assert_eq!(features.msr, Reading::Missing(Missing::NoCycles));
        assert_eq!(features.npmr, Reading::Missing(Missing::NoMemoryStat));
        assert_eq!(features.rmbr, Reading::Missing(Missing::NoResctrl));
        assert_eq!(features.remote_by, None);
    }

    #[test]
    fn page_cache_that_nobody_mapped_lowers_npmr() {
        let mut window = window();
        window.memory = Some(memory(&[(0, 300), (1, 100)], &[(0, 600)], &[(0, 200)]));
        assert_eq!(Features::of(&window).npmr, Reading::Value(0.6));
        window.memory = Some(memory(&[], &[], &[]));
        assert_eq!(
            Features::of(&window).npmr,
            Reading::Missing(Missing::NoPages)
        );
    }

    #[test]
    fn fills_are_believed_before_bytes_and_bytes_before_pages() {
        let mut window = window();
        window.memory = Some(memory(&[(0, 300), (1, 100)], &[], &[]));
        window.cpus = BTreeMap::from([(1, 8)]);
        let told = |window: &Window| {
            let features = Features::of(window);
            (
                features.rmbr.value(),
                features.remote_by,
                features.not_counted,
            )
        };
        let pages = (Some(0.75), Some(RemoteBy::Pages), Some(Missing::NoResctrl));
        assert_eq!(told(&window), pages);
        (window.bytes, window.local_bytes) = (Ok(1_000), Err(Missing::LocalNotBelieved));
        assert_eq!(told(&window).2, Some(Missing::LocalNotBelieved));
        window.local_bytes = Ok(400);
        assert_eq!(told(&window), (Some(0.6), Some(RemoteBy::Bandwidth), None));
        window.fills = Some(Fills { near: 1, far: 3 });
        assert_eq!(told(&window), (Some(0.75), Some(RemoteBy::Fills), None));
    }

    #[test]
    fn a_group_on_two_nodes_is_remote_for_half_of_what_it_reads() {
        let mut window = window();
        window.memory = Some(memory(&[(0, 400)], &[], &[]));
        window.cpus = BTreeMap::from([(0, 8), (1, 8)]);
        assert_eq!(Features::of(&window).rmbr, Reading::Value(0.5));
        window.cpus = BTreeMap::from([(0, 8)]);
        assert_eq!(Features::of(&window).rmbr, Reading::Value(0.0));
    }

    #[test]
    fn counters_that_contradict_are_no_figure() {
        let mut window = window();
        (window.bytes, window.local_bytes) = (Ok(1_000), Ok(1_040));
        assert_eq!(Features::of(&window).rmbr, Reading::Value(0.0));
        window.local_bytes = Ok(1_100);
        assert_eq!(
            Features::of(&window).rmbr,
            Reading::Missing(Missing::Contradicts)
        );
        (window.bytes, window.local_bytes) = (Ok(0), Ok(0));
        assert_eq!(Features::of(&window).rmbr, Reading::Missing(Missing::Idle));
        window.cycles = Ok(Cycles {
            stalled: 2,
            unhalted: 1,
        });
        assert_eq!(
            Features::of(&window).msr,
            Reading::Missing(Missing::Contradicts)
        );
        window.length = Duration::ZERO;
        assert_eq!(Features::of(&window).mbw, Reading::Missing(Missing::NoTime));
    }

    proptest! {
        /// Whatever was counted, shares are shares, and features survive a journal.
        #[test]
        fn features_are_sound_and_can_be_written(
            counts in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 8),
            seconds in 0_u64..100,
            cpus in prop::collection::btree_map(0_u32..4, 0_usize..9, 0..4),
            has_fills: bool,
        ) {
            let window = Window {
                length: Duration::from_secs(seconds),
                bytes: Ok(counts[0]),
                local_bytes: Ok(counts[1]),
                cycles: Ok(Cycles { stalled: counts[2], unhalted: counts[3] }),
                fills: has_fills.then_some(Fills { near: counts[4], far: counts[5] }),
                memory: Some(memory(&[(0, counts[6]), (1, counts[7])], &[(2, counts[0])], &[(2, counts[1])])),
                cpus,
            };
            let features = Features::of(&window);
            for share in [features.msr, features.npmr, features.rmbr] {
                prop_assert!(share.value().is_none_or(|share| (0.0..=1.0).contains(&share)));
            }
            let text = serde_json::to_string(&features).unwrap();
            let again: Features = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(again.rmbr.missing(), features.rmbr.missing());
            prop_assert_eq!(again.mbw.value().is_some(), features.mbw.value().is_some());
        }
    }
}
