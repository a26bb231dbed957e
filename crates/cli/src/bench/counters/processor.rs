//! Which processor this is, as far as it decides what can be counted, and AMD's own events.
//!
//! Event numbers: AMD's Processor Programming References for Family 19h (Zen 3, Zen 4) and 1Ah (Zen 5), as also
//! in Linux, `tools/perf/pmu-events/arch/x86/amdzen{3,4,5}`. Zen 1 and 2 (Family 17h) know no such event as
//! [`FILLS`]: there, fills of demand loads alone are told apart, and the own L3 not from another on the same die.

/// `ls_any_fills_from_sys`: lines that the first-level data cache got, by where from. The sources are bits and may
/// be counted together, so that three events tell what matters and all fit the six counters of a core.
const FILLS: u16 = 0x44;
/// `local_ccx`: the own L3, or another core's L2 below it.
const LOCAL_CCX: u8 = 0x02;
/// `near_cache` and `far_cache`: a cache below another L3, the address being of this NUMA node or of another.
const OTHER_CACHE: u8 = 0x04 | 0x10;
/// `dram_io_near` and `dram_io_far`: memory of this NUMA node or of another.
const MEMORY: u8 = 0x08 | 0x40;

/// `de_no_dispatch_per_slot.backend_stalls`, Zen 4 and 5: slots that stayed empty because the back end was full.
const NO_DISPATCH: u16 = 0x1a0;
const BACKEND_STALLS: u8 = 0x1e;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    Zen3,
    Zen4,
    Zen5,
    /// AMD, or of AMD's design, and none of those: the kernel's general cache and stall events mean something
    /// else there (`arch/x86/events/amd/core.c`: misses of the L2, and stalls of instruction fetch).
    OtherAmd,
    Other,
}

/// A raw event, and what one count is worth.
pub(super) struct Raw {
    pub(super) name: &'static str,
    pub(super) config: u64,
    pub(super) unit: f64,
}

impl Processor {
    /// From the text of `/proc/cpuinfo`. Models as Linux tells them apart in `arch/x86/kernel/cpu/amd.c`.
    pub(super) fn of(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(key, _)| key.trim() == name);
            Some(found.next()?.1.trim())
        };
        let number = |name| field(name)?.parse().ok();
        match field("vendor_id") {
            Some("AuthenticAMD") => match (number("cpu family"), number("model")) {
                (Some(0x19), Some(0x00..=0x0f | 0x20..=0x5f)) => Self::Zen3,
                (Some(0x19), Some(0x10..=0x1f | 0x60..=0xaf)) => Self::Zen4,
                (Some(0x1a), Some(0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f)) => Self::Zen5,
                _ => Self::OtherAmd,
            },
            Some("HygonGenuine") => Self::OtherAmd,
            _ => Self::Other,
        }
    }

    /// Events of this processor alone.
    pub(super) fn raw_events(self) -> Vec<Raw> {
        let fills = [
            (super::FILLS_LOCAL, LOCAL_CCX),
            (super::FILLS_OTHER_CACHE, OTHER_CACHE),
            (super::FILLS_MEMORY, MEMORY),
        ];
        let fills = fills.map(|(name, sources)| Raw {
            name,
            config: raw(FILLS, sources),
            unit: 1.0,
        });
        // Slots in a cycle, from `total_dispatch_slots` in Linux's `pipeline.json` for each.
        let slots = match self {
            Self::Zen3 => None,
            Self::Zen4 => Some(6.0),
            Self::Zen5 => Some(8.0),
            Self::OtherAmd | Self::Other => return Vec::new(),
        };
        let stalls = slots.map(|slots: f64| Raw {
            name: super::STALLED,
            config: raw(NO_DISPATCH, BACKEND_STALLS),
            unit: slots.recip(),
        });
        fills.into_iter().chain(stalls).collect()
    }
}

/// `PERF_CTL` as AMD's manuals lay it out: the event's low byte, the unit mask, and the event's high bits from 32
/// on.
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
        assert_eq!(amd(0x17, 0x31), Processor::OtherAmd, "Rome");
        assert_eq!(amd(0x19, 0x01), Processor::Zen3, "Milan");
        assert_eq!(amd(0x19, 0x11), Processor::Zen4, "Genoa");
        assert_eq!(amd(0x19, 0xa0), Processor::Zen4, "Bergamo");
        assert_eq!(amd(0x1a, 0x02), Processor::Zen5, "Turin");
        assert_eq!(amd(0x1b, 0x00), Processor::OtherAmd);
        assert_eq!(processor("HygonGenuine", 0x18, 0), Processor::OtherAmd);
        assert_eq!(processor("GenuineIntel", 6, 0x8f), Processor::Other);
        assert_eq!(Processor::of("CPU implementer\t: 0x41\n"), Processor::Other);
    }

    #[test]
    fn raw_events_are_numbered_as_perf_numbers_them() {
        // `perf stat -e r0244`; `event=0x1a0,umask=0x1e` is the format config:0-7,32-35.
        assert_eq!(raw(FILLS, LOCAL_CCX), 0x0244);
        assert_eq!(raw(NO_DISPATCH, BACKEND_STALLS), 0x1_0000_1ea0);
        let configs = |of: Processor| {
            let events = of.raw_events();
            events.iter().map(|raw| raw.config).collect::<Vec<_>>()
        };
        assert_eq!(configs(Processor::Zen3), [0x0244, 0x1444, 0x4844]);
        assert_eq!(
            configs(Processor::Zen5),
            [0x0244, 0x1444, 0x4844, 0x1_0000_1ea0]
        );
        assert!(configs(Processor::OtherAmd).is_empty());
    }
}
