//! Which cache level makes the domains, decided on the whole machine before anything is taken away.
//!
//! The rule for `auto`: the outermost of L3 and L2 that splits the machine into parts most of which
//! have something to share. That is, at least two parts have several cores, and they are at least
//! half of all parts. So an EPYC is split by its L3s, a Core 2 Quad or an all-E-core chip under one
//! L3 by its shared L2s, while a laptop with one L3 and private L2s is one L3 domain. So is a hybrid
//! desktop, where only the small E-core clusters share L2s.
//!
//! If no level does that, the outermost cache that several cores share is one domain, and if no cache
//! is shared the domain is the NUMA node, the package or the machine, whichever first has several
//! cores; nothing is known then of a shared cache and its size reads 0. Two cases look alike and are
//! not: cores with an L3 each (EPYC 72F3) are domains of one core, for a last-level cache is what
//! this library is about; cores with nothing but a private L2 (Ampere Altra) are not.
//!
//! Of a virtual machine L3s that cannot be are left out before ([`guest`](crate::guest)).
//!
//! The choice is made before restriction because a container that holds one core of each CCD still
//! runs on a machine of CCDs.

use crate::error::TopologyError;
use crate::level::{Level, LevelChoice};
use crate::machine::{Cache, Machine, MachineCore};
use std::collections::BTreeMap;
use std::str::FromStr;

impl FromStr for LevelChoice {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        match text {
            "auto" => Ok(Self::Auto),
            "l3" | "L3" => Ok(Self::L3),
            "l2" | "L2" => Ok(Self::L2),
            other => Err(TopologyError::UnknownLevel(other.to_owned())),
        }
    }
}

/// What one domain is made of; cores with equal parts form one domain. Ordered only to be a map key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    L3(u32),
    L2(u32),
    Node(u32),
    Package(u32),
    Machine,
}

/// The part that a core belongs to at a level, and the bytes of its cache. A core outside every cache
/// of the level (the low-power island of a Meteor Lake has no L3) goes by the best cache it has.
pub(crate) fn part_of(core: &MachineCore, level: Level) -> (Part, u64) {
    let l3 = core
        .l3
        .map(|Cache { key, bytes, .. }| (Part::L3(key), bytes));
    let l2 = core
        .l2
        .map(|Cache { key, bytes, .. }| (Part::L2(key), bytes));
    let no_cache = (Part::Node(core.node), 0);
    match level {
        Level::L3 => l3.or(l2).unwrap_or(no_cache),
        Level::L2 => l2.or(l3).unwrap_or(no_cache),
        Level::Node => no_cache,
        Level::Package => (Part::Package(core.package), 0),
        Level::Machine | Level::Given => (Part::Machine, 0),
    }
}

/// The level that a choice means on this machine, and why in words. Whoever makes up L3s makes up packages too, so
/// where L3s are `doubted` no package is a domain.
pub(crate) fn decide(
    machine: &Machine,
    choice: LevelChoice,
    doubted: bool,
) -> Result<(Level, String), TopologyError> {
    match choice {
        LevelChoice::Auto => Ok(decide_auto(machine, doubted)),
        LevelChoice::L3 => asked_for(machine, Level::L3),
        LevelChoice::L2 => asked_for(machine, Level::L2),
    }
}

fn asked_for(machine: &Machine, level: Level) -> Result<(Level, String), TopologyError> {
    if machine.has(level) {
        let split = Split::of(machine, level);
        return Ok((
            level,
            format!("{level} was asked for; it makes {}", split.words()),
        ));
    }
    let present: Vec<String> = [Level::L3, Level::L2]
        .into_iter()
        .filter(|&l| machine.has(l))
        .map(|l| l.to_string())
        .collect();
    let present = if present.is_empty() {
        "neither L3 nor L2".to_owned()
    } else {
        format!("{} caches only", present.join(" and "))
    };
    Err(TopologyError::NoSuchLevel {
        asked: level,
        present,
    })
}

fn decide_auto(machine: &Machine, doubted: bool) -> (Level, String) {
    let caches: Vec<(Level, Split)> = [Level::L3, Level::L2]
        .into_iter()
        .filter(|&level| machine.has(level))
        .map(|level| (level, Split::of(machine, level)))
        .collect();
    if let Some((level, split)) = caches.iter().find(|(_, split)| split.is_useful()) {
        return (
            *level,
            format!(
                "{level} is the outermost cache that splits the machine, into {}",
                split.words()
            ),
        );
    }
    if let Some((level, split)) = caches.iter().find(|(_, split)| split.shared > 0) {
        return (
            *level,
            format!(
                "no cache splits the machine usefully, and {level} is the outermost that cores share: {}",
                split.words()
            ),
        );
    }
    // Nothing is shared. A last-level cache of one's own still makes a domain; see the module docs.
    let whole = |(level, split): &&(Level, Split)| *level == Level::L3 || split.parts == 1;
    if let Some((level, split)) = caches.iter().find(whole) {
        return (
            *level,
            format!("each core has an {level} of its own: {}", split.words()),
        );
    }
    let known = if caches.is_empty() {
        "the system tells of no L3 or L2 cache"
    } else {
        "no cache is shared by several cores"
    };
    for level in [Level::Node, Level::Package] {
        let split = Split::of(machine, level);
        if split.is_useful() && !(doubted && level == Level::Package) {
            return (
                level,
                format!(
                    "{known}, so the {} is the domain: {}",
                    level.to_string().to_lowercase(),
                    split.words()
                ),
            );
        }
    }
    (
        Level::Machine,
        format!("{known}, so the whole machine is one domain"),
    )
}

/// How a level splits the machine.
struct Split {
    parts: usize,
    /// Parts with more than one core.
    shared: usize,
    smallest: usize,
    largest: usize,
}

impl Split {
    fn of(machine: &Machine, level: Level) -> Self {
        let mut cores_in = BTreeMap::<Part, usize>::new();
        for core in &machine.cores {
            *cores_in.entry(part_of(core, level).0).or_default() += 1;
        }
        Self {
            parts: cores_in.len(),
            shared: cores_in.values().filter(|&&cores| cores > 1).count(),
            smallest: cores_in.values().copied().min().unwrap_or(0),
            largest: cores_in.values().copied().max().unwrap_or(0),
        }
    }

    fn is_useful(&self) -> bool {
        self.shared > 1 && self.shared * 2 >= self.parts
    }

    fn words(&self) -> String {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let parts = format!("{} part{}", self.parts, plural(self.parts));
        if self.smallest == self.largest {
            format!("{parts} of {} core{}", self.largest, plural(self.largest))
        } else {
            format!("{parts} of {} to {} cores", self.smallest, self.largest)
        }
    }
}

impl Machine {
    fn has(&self, level: Level) -> bool {
        self.cores.iter().any(|core| match level {
            Level::L3 => core.l3.is_some(),
            Level::L2 => core.l2.is_some(),
            Level::Node | Level::Package | Level::Machine | Level::Given => true,
        })
    }
}
