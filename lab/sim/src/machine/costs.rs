//! What a machine's parts cost, each constant with its source.

use serde::Serialize;

use super::{Pages, UnderLoad, Ways};

/// Latencies, bandwidths and sizes of a machine. All of them can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Bytes of a core's L2. Data sheets.
    pub l2_bytes: u64,
    /// Bytes of a worker's own that each walk reads and writes: its list of nodes met, stack, the query, the answer.
    /// They take room in caches and no time, as an L2 keeps them. Counted with valgrind's lackey: 206 lines of data in
    /// the last of 48 searches of a graph of 4,000 x 96, ef 64. The 412 lines of code besides stay in an L1 of 32 KiB;
    /// what the executor reads is not in it.
    pub own_bytes: u64,
    /// Nanoseconds of an L3 hit.
    pub l3_ns: f64,
    /// Nanoseconds of a read from the socket's own memory, at rest.
    pub memory_ns: f64,
    /// The same from the other socket's memory.
    pub remote_ns: f64,
    /// Nanoseconds for a line from core to core: inside a domain, across domains, across sockets.
    pub line_same_ns: f64,
    /// Across domains of a socket.
    pub line_other_ns: f64,
    /// Across sockets.
    pub line_socket_ns: f64,
    /// GB/s that one link (a die's) reads.
    pub link_gbs: f64,
    /// GB/s that a socket's memory gives.
    pub socket_gbs: f64,
    /// GB/s between two sockets, each way. Assumed; no measurement is at hand.
    pub bridge_gbs: f64,
    /// Cache lines that one core has on their way at a time in a graph walk, which prefetches rows that it has found.
    ///
    /// Assumed 16, range 10 to 24: a walk does not fill all of the some two dozen misses that a Zen core tracks.
    pub walk_lines: f64,
    /// The same in a scan, for which the hardware prefetches into the L2. 40 lines at 110 ns are 23 GB/s a core, what
    /// one Zen core reads from memory by itself. Assumed, range 30 to 48.
    pub scan_lines: f64,
    /// GB/s of one core from its L3: a Genoa domain's 640 to 700 GB/s over 8 cores.
    pub l3_gbs: f64,
    /// Nanoseconds that reads wait at a busy link or memory, times `use / (1 - use)`: latency at 80 % use is 4 of these
    /// longer. Assumed 12, range 5 to 20.
    pub queue_ns: f64,
    /// How latency rises with use.
    pub under_load: UnderLoad,
    /// Address translation; `None`: it takes no time, and its entries no room in caches.
    pub pages: Option<Pages>,
    /// Lines that hardware prefetchers bring with each row and each list of links and nobody reads. 0: none.
    pub stray_lines: f64,
    /// Sets of the caches; `None`: caches are fully associative, and an L3 is always full.
    pub ways: Option<Ways>,
    /// Nanoseconds to hand over a task beside the cache lines: locks, counters, the answer. The executor's own
    /// overhead, measured on a 2-core machine, is some 1 us a task, its callers' part included.
    pub task_ns: f64,
    /// Cache lines that go from the submitter or the queue's last user to the worker that takes a task.
    pub task_lines: f64,
    /// Nanoseconds from the wake-up of a sleeping thread until it runs: some 5 us on Linux. Assumed, range 2 to 50.
    pub wake_ns: f64,
}

impl Costs {
    /// What all machines have in common, and Genoa where they differ.
    pub const GENOA: Self = Self {
        l2_bytes: 1 << 20,
        own_bytes: 206 * 64,
        l3_ns: 14.5,
        memory_ns: 110.0,
        remote_ns: 199.0,
        line_same_ns: 28.0,
        line_other_ns: 182.0,
        line_socket_ns: 300.0,
        link_gbs: 70.0,
        socket_gbs: 360.0,
        bridge_gbs: 100.0,
        walk_lines: 16.0,
        scan_lines: 40.0,
        l3_gbs: 80.0,
        queue_ns: 12.0,
        under_load: UnderLoad::Queue,
        pages: None,
        stray_lines: 0.0,
        ways: None,
        task_ns: 500.0,
        task_lines: 6.0,
        wake_ns: 5_000.0,
    };
}
