//! Which processor this is, as far as it decides what can be counted, and its own events.
//!
//! AMD's event numbers are Linux', `tools/perf/pmu-events/arch/x86`: `amdzen2/memory.json`, `amdzen3/memory.json`,
//! `amdzen4/cache.json`, `amdzen5/load-store.json`, `amdzen6/load-store.json` for fills of the first-level cache;
//! `amdzen3/cache.json`, `amdzen4/cache.json`, `amdzen5/l2-cache.json`, `amdzen6/l2-cache.json` for what the L2
//! prefetches; `amdzen{2,3,4}/cache.json`, `amdzen{5,6}/l3-cache.json` for the L3; `amdzen4/other.json`,
//! `amdzen{5,6}/decode.json` for stalls. Zen 2 has no event for all fills: those of loads, of software prefetches and
//! of hardware prefetches are three events, and they tell memory from caches, but not the own L3 from another of the
//! die.
//!
//! Intel's: Software Developer's Manual 3B, chapter 20, and Linux, `tools/perf/pmu-events/arch/x86`, `skylakex`,
//! `icelakex`, `sapphirerapids`, `graniterapids`, which number these events alike.

use super::names;

/// `ls_any_fills_from_sys`: lines that the first-level data cache got, by where from. The sources are bits and may
/// be counted together.
const FILLS: u16 = 0x44;
/// `local_ccx`: the own L3, or another core's L2 below it.
const LOCAL_CCX: u8 = 0x02;
/// `near_cache` and `far_cache`: a cache below another L3, the address being of this NUMA node or of another.
const OTHER_CACHE: u8 = 0x04 | 0x10;
/// `dram_io_near`: memory of this NUMA node.
const NEAR_MEMORY: u8 = 0x08;
/// `dram_io_far`: memory of another.
const FAR_MEMORY: u8 = 0x40;
/// `alternate_memories`, Zen 4 and later: memory behind CXL.
const EXTENSION_MEMORY: u8 = 0x80;

/// Zen 2: `ls_refills_from_sys`, `ls_sw_pf_dc_fill` and `ls_hw_pf_dc_fill`: the same lines by why they were fetched.
/// [`NEAR_MEMORY`] and [`FAR_MEMORY`] are `lcl_dram` and `rmt_dram` there.
const FILLS_OF_ZEN2: [u16; 3] = [0x43, 0x59, 0x5a];

/// `l2_pf_miss_l2_hit_l3`: lines that a prefetch of the L2's pipeline brought from the own L3.
const PREFETCHED_FROM_L3: u16 = 0x71;
/// `l2_pf_miss_l2_l3`: lines that one brought from beyond it.
const PREFETCHED_BEYOND_L3: u16 = 0x72;
/// `l2_hwpf`, Zen 4 and later: of these the L2's own prefetchers (stream, next line, up and down, burst, stride). The
/// rest, 0xe0, are the first-level cache's prefetchers, whose lines [`FILLS`] counts already.
const BY_THE_L2: u8 = 0x1f;
/// Zen 3 tells them not apart.
const BY_ANY_PREFETCHER: u8 = 0xff;

/// The kernel's name of the L3's own counters.
pub(super) const L3_PMU: &str = "amd_l3";
/// `l3_lookup_state`: requests of the L3.
const L3_LOOKUPS: u16 = 0x04;
const ALL_LOOKUPS: u8 = 0xff;
/// Of [`L3_LOOKUPS`], Zen 4 and later `l3_miss`. Zen 2 and 3 count it as `l3_comb_clstr_state.request_miss`.
const LOOKUP_MISSES: u8 = 0x01;
const L3_MISSES_OF_ZEN2_AND_3: u16 = 0x06;

/// `de_no_dispatch_per_slot.backend_stalls`, Zen 4 and later: slots that stayed empty because the back end was full.
const NO_DISPATCH: u16 = 0x1a0;
const BACKEND_STALLS: u8 = 0x1e;

/// `ex_no_retire`, Zen 4 and later: cycles without retiring by why, `not_complete` and of it `load_not_complete`.
const NO_RETIRE: u16 = 0xd6;
const NOT_COMPLETE: u8 = 0x02;
const LOAD_NOT_COMPLETE: u8 = 0xa2;

/// `MEM_LOAD_RETIRED.L3_HIT`: loads that found their line in the L3.
const LOADS: u16 = 0xd1;
const L3_HIT: u8 = 0x04;
/// `MEM_LOAD_L3_MISS_RETIRED`: loads that did not, by where the line was.
const LOADS_BEYOND_L3: u16 = 0xd3;
const LOCAL_DRAM: u8 = 0x01;
const REMOTE_DRAM: u8 = 0x02;
/// `REMOTE_HITM` and `REMOTE_FWD`: a cache of another socket.
const REMOTE_CACHE: u8 = 0x04 | 0x08;
/// `CYCLE_ACTIVITY.STALLS_TOTAL`: cycles in which nothing was executed; the counter mask is part of the event.
const CYCLE_ACTIVITY: u16 = 0xa3;
const STALLS_TOTAL: u8 = 0x04;
const STALLS_MASK: u64 = 4 << 24;
/// `CYCLE_ACTIVITY.STALLS_L3_MISS`: the same while a load that missed the L3 was under way.
const STALLS_L3_MISS: u8 = 0x06;
const STALLS_L3_MISS_MASK: u64 = 6 << 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    Zen2,
    Zen3,
    Zen4,
    Zen5,
    Zen6,
    /// AMD, or of AMD's design, and none of those: the kernel's general cache and stall events mean something
    /// else there (`arch/x86/events/amd/core.c`: misses of the L2, and stalls of instruction fetch).
    OtherAmd,
    /// Intel's server parts from Skylake-SP to Granite Rapids.
    IntelServer,
    Other,
}

/// A raw event, and what one count is worth.
pub(super) struct Raw {
    pub(super) name: &'static str,
    pub(super) config: u64,
    pub(super) unit: f64,
}

impl Processor {
    /// From the text of `/proc/cpuinfo`. Models as Linux tells them apart in `arch/x86/kernel/cpu/amd.c` and
    /// `arch/x86/include/asm/intel-family.h`.
    pub(super) fn of(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(key, _)| key.trim() == name);
            Some(found.next()?.1.trim())
        };
        let number = |name| field(name)?.parse().ok();
        match field("vendor_id") {
            Some("AuthenticAMD") => match (number("cpu family"), number("model")) {
                (Some(0x17), Some(0x30..=0x4f | 0x60..=0x7f | 0x90..=0x91 | 0xa0..=0xaf)) => {
                    Self::Zen2
                }
                (Some(0x19), Some(0x00..=0x0f | 0x20..=0x5f)) => Self::Zen3,
                (Some(0x19), Some(0x10..=0x1f | 0x60..=0xaf)) => Self::Zen4,
                (Some(0x1a), Some(0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f)) => Self::Zen5,
                (Some(0x1a), Some(0x50..=0x5f | 0x80..=0xaf | 0xc0..=0xcf)) => Self::Zen6,
                _ => Self::OtherAmd,
            },
            Some("HygonGenuine") => Self::OtherAmd,
            Some("GenuineIntel") => match (number("cpu family"), number("model")) {
                (Some(6), Some(0x55 | 0x6a | 0x6c | 0x8f | 0xcf | 0xad | 0xae)) => {
                    Self::IntelServer
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// Back-end stalls, in cycles: beside instructions and cycles in one group.
    pub(super) fn stalls(self) -> Option<Raw> {
        let (config, unit) = match self {
            // Slots in a cycle, from `total_dispatch_slots` in Linux's `pipeline.json` for each.
            Self::Zen4 => (raw(NO_DISPATCH, BACKEND_STALLS), 1.0 / 6.0),
            Self::Zen5 | Self::Zen6 => (raw(NO_DISPATCH, BACKEND_STALLS), 1.0 / 8.0),
            Self::IntelServer => (raw(CYCLE_ACTIVITY, STALLS_TOTAL) | STALLS_MASK, 1.0),
            Self::Zen2 | Self::Zen3 | Self::OtherAmd | Self::Other => return None,
        };
        Some(Raw {
            name: names::STALLED,
            config,
            unit,
        })
    }

    /// What tells how long memory is waited for, beside [`stalls`](Self::stalls) where that is AMD's; and from where
    /// lines come. Five events at most.
    pub(super) fn memory(self) -> Vec<Raw> {
        let one = |name, config| Raw {
            name,
            config,
            unit: 1.0,
        };
        let fills = [
            one(names::NEAR_FILLS, raw(FILLS, NEAR_MEMORY)),
            one(names::FAR_FILLS, raw(FILLS, FAR_MEMORY)),
        ];
        match self {
            Self::Zen3 => fills.into(),
            Self::Zen4 | Self::Zen5 | Self::Zen6 => {
                let mut events = vec![
                    one(names::UNRETIRED, raw(NO_RETIRE, NOT_COMPLETE)),
                    one(names::UNRETIRED_LOADS, raw(NO_RETIRE, LOAD_NOT_COMPLETE)),
                ];
                events.extend(self.stalls());
                events.extend(fills);
                events
            }
            Self::IntelServer => {
                let config = raw(CYCLE_ACTIVITY, STALLS_L3_MISS) | STALLS_L3_MISS_MASK;
                vec![one(names::STALLED_ON_MEMORY, config)]
            }
            // Zen 2 needs three events for each of these.
            Self::Zen2 | Self::OtherAmd | Self::Other => Vec::new(),
        }
    }

    /// Where lines come from, in groups of five events at most. Events of one name add up.
    pub(super) fn sources(self) -> Vec<Vec<Raw>> {
        let one = |name, event, mask| Raw {
            name,
            config: raw(event, mask),
            unit: 1.0,
        };
        match self {
            Self::Zen2 => [
                (names::MEMORY, NEAR_MEMORY),
                (names::REMOTE_MEMORY, FAR_MEMORY),
            ]
            .map(|(name, mask)| FILLS_OF_ZEN2.map(|event| one(name, event, mask)).into())
            .into(),
            Self::Zen3 | Self::Zen4 | Self::Zen5 | Self::Zen6 => {
                let mut fills = vec![
                    one(names::OWN_L3, FILLS, LOCAL_CCX),
                    one(names::OTHER_L3, FILLS, OTHER_CACHE),
                    one(names::MEMORY, FILLS, NEAR_MEMORY),
                    one(names::REMOTE_MEMORY, FILLS, FAR_MEMORY),
                ];
                let by = if self == Self::Zen3 {
                    BY_ANY_PREFETCHER
                } else {
                    fills.push(one(names::CXL, FILLS, EXTENSION_MEMORY));
                    BY_THE_L2
                };
                let prefetched = vec![
                    one(names::PREFETCHED_OWN_L3, PREFETCHED_FROM_L3, by),
                    one(names::PREFETCHED_BEYOND, PREFETCHED_BEYOND_L3, by),
                ];
                vec![fills, prefetched]
            }
            Self::IntelServer => vec![vec![
                one(names::OTHER_L3, LOADS_BEYOND_L3, REMOTE_CACHE),
                one(names::MEMORY, LOADS_BEYOND_L3, LOCAL_DRAM),
                one(names::REMOTE_MEMORY, LOADS_BEYOND_L3, REMOTE_DRAM),
                one(names::OWN_L3, LOADS, L3_HIT),
            ]],
            Self::OtherAmd | Self::Other => Vec::new(),
        }
    }

    /// Requests of all L3s and those of them that missed, events of [`L3_PMU`] with their unit masks: counted for the
    /// whole machine, whoever asks.
    pub(super) fn l3(self) -> Option<[(&'static str, u16, u8); 2]> {
        let misses = match self {
            Self::Zen2 | Self::Zen3 => L3_MISSES_OF_ZEN2_AND_3,
            Self::Zen4 | Self::Zen5 | Self::Zen6 => L3_LOOKUPS,
            Self::OtherAmd | Self::IntelServer | Self::Other => return None,
        };
        Some([
            (names::L3_LOOKUPS, L3_LOOKUPS, ALL_LOOKUPS),
            (names::L3_MISSES, misses, LOOKUP_MISSES),
        ])
    }
}

/// An event select register as AMD's and Intel's manuals lay it out: the event's low byte, the unit mask, and, AMD
/// only, the event's high bits from 32 on.
fn raw(event: u16, unit_mask: u8) -> u64 {
    u64::from(event & 0xff) | u64::from(unit_mask) << 8 | u64::from(event >> 8) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(vendor: &str, family: u32, model: u32) -> Processor {
        Processor::of(&format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: some: name\n\nprocessor\t: 1\nvendor_id\t: other\n"
        ))
    }

    #[test]
    fn server_parts_are_known_by_family_and_model() {
        let amd = |family, model| processor("AuthenticAMD", family, model);
        assert_eq!(amd(0x17, 0x01), Processor::OtherAmd, "Naples");
        assert_eq!(amd(0x17, 0x31), Processor::Zen2, "Rome");
        assert_eq!(amd(0x19, 0x01), Processor::Zen3, "Milan");
        assert_eq!(amd(0x19, 0x11), Processor::Zen4, "Genoa");
        assert_eq!(amd(0x19, 0xa0), Processor::Zen4, "Bergamo");
        assert_eq!(amd(0x1a, 0x02), Processor::Zen5, "Turin");
        for model in [0x50, 0x80, 0x90, 0xc0] {
            assert_eq!(amd(0x1a, model), Processor::Zen6, "{model:#x}");
        }
        assert_eq!(amd(0x1a, 0x30), Processor::OtherAmd);
        assert_eq!(amd(0x1b, 0x00), Processor::OtherAmd);
        assert_eq!(processor("HygonGenuine", 0x18, 0), Processor::OtherAmd);
        let intel = |model| processor("GenuineIntel", 6, model);
        assert_eq!(intel(0x8f), Processor::IntelServer, "Sapphire Rapids");
        assert_eq!(intel(0x55), Processor::IntelServer, "Skylake-SP");
        assert_eq!(intel(0x97), Processor::Other, "Alder Lake");
        assert_eq!(Processor::of("CPU implementer\t: 0x41\n"), Processor::Other);
    }

    #[test]
    fn raw_events_are_numbered_as_perf_numbers_them() {
        // `perf stat -e r0244`; `event=0x1a0,umask=0x1e` is the format config:0-7,32-35.
        assert_eq!(raw(FILLS, LOCAL_CCX), 0x0244);
        let configs = |of: Processor| {
            let groups = of.sources();
            let configs = |group: &Vec<Raw>| group.iter().map(|raw| raw.config).collect();
            groups.iter().map(configs).collect::<Vec<Vec<_>>>()
        };
        let stalls = |of: Processor| of.stalls().map(|raw| raw.config);
        assert_eq!(
            configs(Processor::Zen2),
            [[0x0843, 0x0859, 0x085a], [0x4043, 0x4059, 0x405a]]
        );
        assert_eq!(
            configs(Processor::Zen3),
            [vec![0x0244, 0x1444, 0x0844, 0x4044], vec![0xff71, 0xff72]]
        );
        assert_eq!(stalls(Processor::Zen3), None);
        for zen in [Processor::Zen4, Processor::Zen5, Processor::Zen6] {
            assert_eq!(configs(zen)[0][4], 0x8044);
            assert_eq!(configs(zen)[1], [0x1f71, 0x1f72]);
            assert_eq!(stalls(zen), Some(0x1_0000_1ea0));
        }
        assert_eq!(Processor::Zen6.stalls().unwrap().unit, 1.0 / 8.0);
        assert_eq!(
            configs(Processor::IntelServer),
            [[0x0cd3, 0x01d3, 0x02d3, 0x04d1]]
        );
        assert_eq!(stalls(Processor::IntelServer), Some(0x0400_04a3));
        assert!(configs(Processor::OtherAmd).is_empty());
        let memory = |of: Processor| {
            let events = of.memory();
            events.iter().map(|raw| raw.config).collect::<Vec<_>>()
        };
        assert_eq!(memory(Processor::IntelServer), [0x0600_06a3]);
        assert_eq!(
            memory(Processor::Zen4),
            [0x02d6, 0xa2d6, 0x1_0000_1ea0, 0x0844, 0x4044]
        );
        assert_eq!(memory(Processor::Zen3), [0x0844, 0x4044]);
        assert_eq!(memory(Processor::Zen6), memory(Processor::Zen5));
    }

    #[test]
    fn no_group_has_more_events_than_a_core_has_counters() {
        for of in [
            Processor::Zen2,
            Processor::Zen3,
            Processor::Zen4,
            Processor::Zen5,
            Processor::Zen6,
            Processor::IntelServer,
        ] {
            let groups = of.sources();
            // Six on AMD, of which the kernel's watchdog may take one.
            assert!(
                groups.iter().all(|group| (1..=5).contains(&group.len())),
                "{of:?}"
            );
        }
    }

    #[test]
    fn misses_of_the_l3_are_another_event_before_zen_4() {
        let misses = |of: Processor| of.l3().map(|[_, (_, event, mask)]| (event, mask));
        assert_eq!(misses(Processor::Zen2), Some((0x06, 0x01)));
        assert_eq!(misses(Processor::Zen3), Some((0x06, 0x01)));
        assert_eq!(misses(Processor::Zen6), Some((0x04, 0x01)));
        assert_eq!(misses(Processor::OtherAmd), None);
        let [(_, event, mask), _] = Processor::Zen4.l3().unwrap();
        assert_eq!((event, mask), (0x04, 0xff));
    }
}
