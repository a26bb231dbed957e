//! Machines that can be bought, by measurements of others; ranges in brackets.
//!
//! ```text
//!                  L3 ns            memory ns       core to core ns                 link GB/s     socket GB/s
//! rome-7k62        10.3 (to 19.5)   110 (to 134)    37/127 (36-39/102-152)          43            171
//! milan-7763       14 (50 cycles)   110             23/107/197                      51            171
//! genoa-9654       14.5 (13-16)     110/199         28/182                          70 (or 38)    360 (to 375)
//! bergamo-9754     16.9             120             35/110 (30-40/100-120)          48            360
//! turin-9575f      10 (46 cycles)   127 (125-130)   45/150/260                      100           525 (480-570)
//! xeon-e5-2680v4   24 (20-42)       95/153          50/120                          -             65
//! xeon-6248r       26 (25-27)       90/148          50/120                          -             110
//! ```
//!
//! Sources: chipsandcheese.com (Genoa-X, Bergamo, Turin, 9355P), arXiv 2204.03290 (Rome), the core-to-core-latency
//! project's tables, a public study of two 9654 (the other figure of Genoa's link).
//!
//! The Xeons are those that NetEase compared: one L3 a socket, without a link of its own. L3 and memory are from
//! anandtech.com's Skylake-SP review, which has a Broadwell, too. The other socket's memory is 58 ns more, as MAO
//! measured (80 and 138 ns). Bandwidths are 0.8 times the data sheets' (4 x DDR4-2400, 6 x DDR4-2933; QPI, UPI).
//!
//! Assumed, not measured:
//!
//! - Milan's link is 32 bytes a clock at 1.6 GHz; its memory is Rome's, with which it shares socket and DIMMs.
//! - The Xeons' latencies from core to core; that walks fill the 10 or 12 line fill buffers of a core.
//! - Latencies to the other socket that the table lacks: memory 90 ns more, a line 300 ns.

use chiplet_topology::Topology;

use super::Costs;

const MIB: u64 = 1 << 20;

/// The domains of one socket.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    dies: u32,
    /// Domains on a die, which share its link.
    on_a_die: u32,
    cores: u32,
    l3_bytes: u64,
}

impl Shape {
    /// So many sockets, with L3s of another size if one is given.
    pub(super) fn topology(&self, sockets: u32, l3_bytes: Option<u64>) -> Topology {
        let l3_bytes = l3_bytes.unwrap_or(self.l3_bytes);
        let mut builder = Topology::builder();
        for _ in 0..sockets {
            builder = builder.package();
            for domain in 0..self.dies * self.on_a_die {
                if self.on_a_die > 1 && domain % self.on_a_die == 0 {
                    builder = builder.die();
                }
                builder = builder.domain(l3_bytes, self.cores);
            }
        }
        let topology = builder.build();
        topology.expect("domains have cores, and cpu numbers are consecutive")
    }
}

/// Name, shape and costs of all presets.
pub const PRESETS: [(&str, Shape, Costs); 7] = [
    (
        "genoa-9654",
        Shape {
            dies: 12,
            on_a_die: 1,
            cores: 8,
            l3_bytes: 32 * MIB,
        },
        Costs::GENOA,
    ),
    (
        "rome-7k62",
        Shape {
            dies: 6,
            on_a_die: 2,
            cores: 4,
            l3_bytes: 16 * MIB,
        },
        Costs {
            l2_bytes: MIB / 2,
            l3_ns: 10.3,
            memory_ns: 110.0,
            remote_ns: 200.0,
            line_same_ns: 37.0,
            line_other_ns: 127.0,
            link_gbs: 43.0,
            socket_gbs: 171.0,
            bridge_gbs: 60.0,
            ..Costs::GENOA
        },
    ),
    (
        "milan-7763",
        Shape {
            dies: 8,
            on_a_die: 1,
            cores: 8,
            l3_bytes: 32 * MIB,
        },
        Costs {
            l2_bytes: MIB / 2,
            l3_ns: 14.0,
            memory_ns: 110.0,
            remote_ns: 200.0,
            line_same_ns: 23.0,
            line_other_ns: 107.0,
            line_socket_ns: 197.0,
            link_gbs: 51.0,
            socket_gbs: 171.0,
            bridge_gbs: 60.0,
            ..Costs::GENOA
        },
    ),
    (
        "bergamo-9754",
        Shape {
            dies: 8,
            on_a_die: 2,
            cores: 8,
            l3_bytes: 16 * MIB,
        },
        Costs {
            l3_ns: 16.9,
            memory_ns: 120.0,
            remote_ns: 210.0,
            line_same_ns: 35.0,
            line_other_ns: 110.0,
            link_gbs: 48.0,
            ..Costs::GENOA
        },
    ),
    (
        "turin-9575f",
        Shape {
            dies: 8,
            on_a_die: 1,
            cores: 8,
            l3_bytes: 32 * MIB,
        },
        Costs {
            l3_ns: 10.0,
            memory_ns: 127.0,
            remote_ns: 217.0,
            line_same_ns: 45.0,
            line_other_ns: 150.0,
            line_socket_ns: 260.0,
            link_gbs: 100.0,
            socket_gbs: 525.0,
            ..Costs::GENOA
        },
    ),
    (
        "xeon-e5-2680v4",
        Shape {
            dies: 1,
            on_a_die: 1,
            cores: 14,
            l3_bytes: 35 * MIB,
        },
        Costs {
            l2_bytes: MIB / 4,
            l3_ns: 24.0,
            memory_ns: 95.0,
            remote_ns: 153.0,
            line_same_ns: 50.0,
            line_other_ns: 120.0,
            line_socket_ns: 120.0,
            link_gbs: 65.0,
            socket_gbs: 65.0,
            bridge_gbs: 30.0,
            walk_lines: 10.0,
            scan_lines: 20.0,
            ..Costs::GENOA
        },
    ),
    (
        "xeon-6248r",
        Shape {
            dies: 1,
            on_a_die: 1,
            cores: 24,
            l3_bytes: 143 * MIB / 4,
        },
        Costs {
            l2_bytes: MIB,
            l3_ns: 26.0,
            memory_ns: 90.0,
            remote_ns: 148.0,
            line_same_ns: 50.0,
            line_other_ns: 120.0,
            line_socket_ns: 120.0,
            link_gbs: 110.0,
            socket_gbs: 110.0,
            bridge_gbs: 33.0,
            walk_lines: 12.0,
            scan_lines: 20.0,
            ..Costs::GENOA
        },
    ),
];
