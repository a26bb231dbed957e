//! The control whose outcome is known: a buffer is read again and again by one thread.

use anyhow::ensure;
use chiplet_caches::model::Wiring;
use chiplet_caches::model::parts::Part;
use chiplet_caches::seen::Config;

use super::{Scratch, child};
use crate::known;

const L2: u64 = 64 << 10;
const L3: u64 = 1 << 20;
const TIMES: u64 = 8;
/// What else a thread touches, and what a hashed L3 keeps of a buffer that is too large.
const TOLERANCE: f64 = 0.02;

/// Reads buffers that fit the L2, the L3, and neither, and compares.
pub fn control() -> anyhow::Result<()> {
    child::version()?;
    let stop = child::stop_on_ctrl_c()?;
    let scratch = Scratch::new(&std::env::temp_dir())?;
    println!("Lines read, and misses of L2 and L3 (modelled; expected in brackets):");
    for (bytes, l2_misses, l3_misses) in [
        (L2 / 2, false, false),
        (L3 / 2, true, false),
        (4 * L3, true, true),
    ] {
        let part = Part {
            l2_bytes: L2,
            l3_bytes: L3,
            ..Part::named("genoa-9654").expect("it is one of them")
        };
        let config = Config {
            part,
            wiring: Wiring::Straight,
            page_bytes: 4096,
            quantum_ns: super::QUANTUM_NS,
            bounces: false,
            report: scratch.0.join("seen.json"),
        };
        let program = known::Arguments {
            bytes,
            times: TIMES,
        };
        let (seen, _) = child::run(&config, &scratch.0, &program.to_words(), &stop)?;
        let lines = bytes / 64 * TIMES;
        let expected = [l2_misses, l3_misses].map(|misses| if misses { lines } else { 0 });
        let counts = seen.domains[0];
        let counted = [counts.l2_misses, counts.l3_misses];
        println!(
            "{:>5} KiB: {lines:>7} lines, L2 {:>7} ({:>7}), L3 {:>7} ({:>7})",
            bytes >> 10,
            counted[0],
            expected[0],
            counted[1],
            expected[1],
        );
        for (counted, expected) in counted.into_iter().zip(expected) {
            let apart = counted.abs_diff(expected) as f64 / lines as f64;
            ensure!(apart <= TOLERANCE, "{counted} misses, {expected} expected");
        }
    }
    Ok(())
}
