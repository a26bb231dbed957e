//! How much longer a read from memory takes while others read.

use serde::Serialize;

/// How latency rises with the part of a bandwidth that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnderLoad {
    /// [`Costs::queue_ns`](super::Costs::queue_ns) times `use / (1 - use)`, as in a queue.
    #[default]
    Queue,
    /// As measured with reads alone on a Graviton 3, whose memory is DDR5-4800 as Genoa's is (`MEASURED`).
    Measured,
}

/// Beyond this use a queue's latency is that of this use: the bandwidth itself holds reads up there.
const MOST_USE: f64 = 0.95;

/// The part of the highest bandwidth that is used, and nanoseconds more than at rest. Source: `bwlat_100.txt` of
/// `graviton3-ddr5` of the Mess simulator (github.com/bsc-mem/Mess-simulator, e387efc; arXiv 2405.10170): 284 GB/s at
/// most, 98 ns at rest.
const MEASURED: [(f64, f64); 14] = [
    (0.0, 0.0),
    (0.20, 3.5),
    (0.36, 8.3),
    (0.50, 14.5),
    (0.58, 19.6),
    (0.66, 25.5),
    (0.72, 31.4),
    (0.77, 36.7),
    (0.81, 42.1),
    (0.85, 48.4),
    (0.91, 69.4),
    (0.945, 84.6),
    (0.975, 115.0),
    (1.0, 184.0),
];

impl UnderLoad {
    /// Nanoseconds that a read takes longer where the part `used` of a bandwidth is used.
    pub(crate) fn waits(self, used: f64, queue_ns: f64) -> f64 {
        match self {
            Self::Queue => {
                let used = used.min(MOST_USE);
                queue_ns * used / (1.0 - used)
            }
            Self::Measured => {
                let used = used.clamp(0.0, 1.0);
                let after = MEASURED.iter().position(|&(at, _)| used <= at);
                let after = after.unwrap_or(MEASURED.len() - 1).max(1);
                let [(from, low), (to, high)] = [MEASURED[after - 1], MEASURED[after]];
                low + (high - low) * (used - from) / (to - from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_its_formula_and_the_curve_goes_through_its_points() {
        assert!((UnderLoad::Queue.waits(0.8, 12.0) - 48.0).abs() < 1e-9);
        assert_eq!(
            UnderLoad::Queue.waits(0.99, 12.0),
            UnderLoad::Queue.waits(0.95, 12.0)
        );
        for (used, longer) in MEASURED {
            assert!((UnderLoad::Measured.waits(used, 12.0) - longer).abs() < 1e-9);
        }
        let between = UnderLoad::Measured.waits(0.43, 12.0);
        assert!((between - 11.4).abs() < 1e-9, "{between}");
    }
}
