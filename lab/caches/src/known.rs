//! A program whose misses are known beforehand: one thread reads a buffer from end to end, again and again.

use std::ffi::OsString;
use std::hint::black_box;
use std::thread;

use anyhow::Context as _;
use chiplet_caches::marker::{Marker, Phase};
use chiplet_caches::seen::Told;

/// Reads a buffer again and again, on a core of domain 0.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Length of the buffer.
    #[arg(long)]
    pub bytes: u64,
    /// How often it is read while counting.
    #[arg(long, default_value_t = 4)]
    pub times: u64,
}

impl Arguments {
    /// As the words of a command line.
    pub fn to_words(&self) -> Vec<OsString> {
        let (bytes, times) = (self.bytes.to_string(), self.times.to_string());
        ["known", "--bytes", &bytes, "--times", &times]
            .map(Into::into)
            .to_vec()
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (words, times) = (arguments.bytes as usize / 8, arguments.times);
    let marker = Marker::new()?;
    let reader = thread::Builder::new()
        .name("known-0-0".to_owned())
        .spawn(move || {
            let buffer = vec![1_u64; words];
            // One word of each line.
            let read = || black_box(buffer.iter().step_by(8).sum::<u64>());
            marker.tell(Phase::Warm);
            read();
            marker.tell(Phase::Measured);
            for _ in 0..times {
                read();
            }
            marker.tell(Phase::Over);
        })?;
    reader.join().ok().context("the reader panicked")?;
    let told = Told {
        queries: times,
        qps: 0.0,
        latencies_ns: [0; 5],
        steals: [0; 3],
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}
