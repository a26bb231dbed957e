//! What Cube's report has: PaddlePaddle Serving, "Cube Server performance report" (community version), one Intel Xeon
//! E5-2650 v4 at 2.20 GHz, 1,000,000 keys with values of 40 bytes, over its own RPC. None of it was measured here.

/// A column of one of its first two tables.
pub(super) struct Line {
    pub(super) calls_a_second: f64,
    /// Of the server, of all its cores, as `top` has it.
    pub(super) processor: &'static str,
    /// Mean, 50, 70, 90, 95, 97, 99, 99.9 and 99.99 % in microseconds.
    pub(super) latency: [u32; 9],
}

/// One key a call.
pub(super) const ONE: [Line; 3] = [
    Line {
        calls_a_second: 100_000.0,
        processor: "6.5 %",
        latency: [196, 160, 188, 292, 419, 547, 835, 1_556, 1_779],
    },
    Line {
        calls_a_second: 500_000.0,
        processor: "38.3 %",
        latency: [563, 342, 502, 1_063, 1_703, 2_399, 4_036, 7_195, 7_340],
    },
    Line {
        calls_a_second: 1_000_000.0,
        processor: "71.4 %",
        latency: [
            4_234, 3_120, 5_459, 10_657, 14_074, 16_215, 19_434, 29_398, 33_921,
        ],
    },
];

/// A hundred keys a call.
pub(super) const HUNDRED: [Line; 3] = [
    Line {
        calls_a_second: 20_000.0,
        processor: "3.5 %",
        latency: [375, 346, 390, 498, 582, 648, 908, 1_623, 3_312],
    },
    Line {
        calls_a_second: 100_000.0,
        processor: "17.8 %",
        latency: [1_141, 900, 1_237, 2_028, 2_662, 3_173, 4_614, 6_786, 6_273],
    },
    Line {
        calls_a_second: 200_000.0,
        processor: "37.6 %",
        latency: [
            1_940, 1_299, 1_876, 3_629, 5_535, 7_365, 10_529, 14_060, 16_028,
        ],
    },
];

/// Ten shards, 100 calls a second: keys of a call, and mean, 80, 99, 99.9 and 99.99 % in microseconds.
pub(super) const SHARDED: [(usize, [u32; 5]); 3] = [
    (100, [324, 346, 1_190, 3_662, 9_392]),
    (500, [466, 488, 1_492, 4_122, 10_612]),
    (1_000, [675, 691, 2_101, 5_169, 14_867]),
];
