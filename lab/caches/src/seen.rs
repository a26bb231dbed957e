//! What the plugin is told, and what it tells: two JSON files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::Wiring;
use crate::model::counts::Counts;
use crate::model::parts::Part;

/// What to model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The processor.
    pub part: Part,
    /// Which domain runs on which.
    pub wiring: Wiring,
    /// Size of all pages.
    pub page_bytes: u64,
    /// How far threads may be apart in modelled time.
    pub quantum_ns: u64,
    /// Whether to tell which lines cross.
    pub bounces: bool,
    /// Where [`Seen`] goes.
    pub report: PathBuf,
}

/// What was counted in the measured phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// By domain; the last is for threads that are no workers.
    pub domains: Vec<Counts>,
    /// `[from][to]`: written lines that crossed.
    pub pairs: Vec<Vec<u64>>,
    /// Modelled length of the phase.
    pub nanoseconds: u64,
    /// How often the horizon was moved although a thread had not come up.
    pub forced: u64,
    /// Instruction, line, times; most first.
    pub bounces: Vec<(u64, u64, u64)>,
    /// Where each part of the program lies, as the system says (`/proc/self/maps`).
    pub maps: String,
}

/// What the program tells on its standard output, of the measured phase. Times are modelled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Answered.
    pub queries: u64,
    /// A second, in the middle four fifths.
    pub qps: f64,
    /// From sending to the answer: 50, 90, 99, 99.9 %, and the longest.
    pub latencies_ns: [u64; 5],
    /// Tasks from the own queue, from the same domain, from another.
    pub steals: [u64; 3],
}
