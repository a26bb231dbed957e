//! `chiplet topology --copy`: what it takes to have memory on another NUMA node, copied or moved, measured.
//!
//! The sizes are five of those for which Baidu's MAO paper tells how long the kernel takes to move them (its table I).

mod report;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use chiplet_memory::{MemoryError, MemoryPolicy, Pages, Region};
use chiplet_topology::{NumaMemory, Topology, pin};
use indicatif::{ProgressBar, ProgressStyle};

use self::report::{LeftOut, Pair, Report, Row, TIMES, Taken};
use super::memory::size;

/// Bytes.
const SIZES: [usize; 5] = [16 << 20, 64 << 20, 256 << 20, 1 << 30, 2560 << 20];

/// Measures sizes of up to `up_to` MiB.
pub(super) fn run(machine: &Topology, up_to: Option<u64>, json: bool) -> anyhow::Result<String> {
    let memory = NumaMemory::read("/");
    let pairs = pairs(&memory);
    if pairs.is_empty() {
        bail!(no_room(&memory));
    }
    let wanted = |bytes: &usize| up_to.is_none_or(|mib| *bytes as u64 >> 20 <= mib);
    let sizes: Vec<usize> = SIZES.into_iter().filter(wanted).collect();
    let report = measure(machine, &pairs, &sizes)?;
    if json {
        let text = serde_json::to_string_pretty(&report);
        return Ok(text.expect("numbers and strings always make JSON") + "\n");
    }
    Ok(report.text())
}

/// The first two nodes with room for the smallest size, both ways; one node with itself.
fn pairs(memory: &NumaMemory) -> Vec<Pair> {
    let nodes = memory.nodes().iter().map(|node| node.node);
    let itself = |node| Pair {
        from: node,
        to: node,
    };
    let roomy = nodes.filter(|&node| fits(memory, itself(node), SIZES[0]));
    match roomy.take(2).collect::<Vec<u32>>()[..] {
        [a, b] => vec![Pair { from: a, to: b }, Pair { from: b, to: a }],
        [node] => vec![itself(node)],
        _ => Vec::new(),
    }
}

/// Whether the original and its copy take at most half of what is free, on each node and together.
fn fits(memory: &NumaMemory, pair: Pair, bytes: usize) -> bool {
    let half = |nodes: &[u32]| memory.room_on(nodes).map_or(0, |room| room / 2);
    let bytes = bytes as u64;
    2 * bytes <= half(&[pair.from, pair.to])
        && bytes <= half(&[pair.from])
        && bytes <= half(&[pair.to])
}

fn no_room(memory: &NumaMemory) -> String {
    match memory.room_on(&[]) {
        None => "the system does not tell how much memory is free, so nothing is copied".to_owned(),
        Some(room) => format!(
            "too little memory is free: the smallest copy takes {}, at most half of what is free on a node is taken, and \
             {} are free on all nodes. Try again when others need less, or raise the limit of the control group",
            size(2 * SIZES[0] as u64),
            size(room),
        ),
    }
}

fn measure(machine: &Topology, pairs: &[Pair], sizes: &[usize]) -> anyhow::Result<Report> {
    let bytes = |pair: &Pair| pair.ways() * TIMES * sizes.iter().sum::<usize>();
    // Drawn where standard error is a terminal. Ctrl-C ends the process, which has nothing to clean up.
    let bar = ProgressBar::new(pairs.iter().map(bytes).sum::<usize>() as u64).with_style(
        ProgressStyle::with_template("copying memory {wide_bar} {bytes}/{total_bytes}")
            .expect("the template is valid"),
    );
    let mut report = Report {
        copies: Vec::new(),
        left_out: Vec::new(),
        notes: Vec::new(),
    };
    for &pair in pairs {
        report.notes.extend(go_to(machine, pair.to));
        for &bytes in sizes {
            let memory = NumaMemory::read("/");
            if !fits(&memory, pair, bytes) {
                report.left_out.push(LeftOut { pair, bytes });
                bar.inc((pair.ways() * TIMES * bytes) as u64);
                continue;
            }
            let work = Work {
                pair,
                bytes,
                // On the only node there is nothing to place, which a container may not do.
                placed: memory.nodes().len() > 1,
                bar: &bar,
            };
            let (small, _) = work.copied(Pages::Small)?;
            let (huge, huge_share) = work.copied(Pages::Transparent)?;
            let moved = (pair.from != pair.to).then(|| work.moved());
            let moved = moved.and_then(|moved| match moved {
                Ok(moved) => Some(moved),
                Err(error) => {
                    let (bytes, Pair { from, to }) = (size(bytes as u64), pair);
                    let note = format!("{bytes} were not moved from node {from} to {to}: {error}.");
                    report.notes.push(note);
                    None
                }
            });
            report.copies.push(Row {
                pair,
                bytes,
                small,
                huge,
                huge_share,
                moved,
            });
        }
    }
    bar.finish_and_clear();
    Ok(report)
}

/// Ties this thread, which copies, to a domain of the node that it copies to. The thread ends with the command, so
/// nobody unties it. Says so if that fails.
fn go_to(machine: &Topology, node: u32) -> Option<String> {
    let domain = machine.domains().iter().find(|domain| domain.node == node);
    let Some(domain) = domain else {
        return Some(format!(
            "No cpu of node {node} may be used: cpus of another node copied to it."
        ));
    };
    let error = pin::pin_current_thread(&domain.cpus()).err()?;
    Some(format!(
        "The copying thread was not tied to node {node}: {error}."
    ))
}

/// One size between two nodes.
struct Work<'a> {
    pair: Pair,
    bytes: usize,
    /// Whether memory is to be placed.
    placed: bool,
    bar: &'a ProgressBar,
}

impl Work<'_> {
    /// Into fresh memory, which is made and filled each time; and how much of it lies in huge pages, of 1.
    fn copied(&self, pages: Pages) -> anyhow::Result<(Taken, Option<f64>)> {
        let original = self.written(pages)?;
        let mut times = [Duration::ZERO; TIMES];
        let mut share = None;
        for time in &mut times {
            let begun = Instant::now();
            let mut copy = self.region(self.pair.to, pages)?;
            own(&mut copy).copy_from_slice(original.as_slice());
            *time = begun.elapsed();
            black_box(copy.as_slice());
            self.check(&copy, self.pair.to)?;
            let huge = copy.granted().huge;
            share = huge.map(|huge| (huge as f64 / self.bytes as f64).min(1.0));
            self.bar.inc(self.bytes as u64);
        }
        Ok((Taken::of(self.bytes, times), share))
    }

    /// In small pages, as the kernel has them unless asked. Moved back after each time, which does not count.
    fn moved(&self) -> anyhow::Result<Taken> {
        let mut region = self.written(Pages::Small)?;
        let mut times = [Duration::ZERO; TIMES];
        for time in &mut times {
            let begun = Instant::now();
            let there = region.migrate(self.pair.to)?;
            *time = begun.elapsed();
            // The kernel passes over pages that it is just about to list.
            let enough = there >= self.bytes - self.bytes / 64;
            ensure!(enough, "only {} arrived", size(there as u64));
            region.migrate(self.pair.from)?;
            self.bar.inc(self.bytes as u64);
        }
        Ok(Taken::of(self.bytes, times))
    }

    /// What is copied or moved.
    fn written(&self, pages: Pages) -> anyhow::Result<Region> {
        let mut region = self.region(self.pair.from, pages)?;
        own(&mut region).fill(1);
        self.check(&region, self.pair.from)?;
        Ok(region)
    }

    /// That most of it lies on `node`.
    fn check(&self, region: &Region, node: u32) -> anyhow::Result<()> {
        if !self.placed {
            return Ok(());
        }
        let residence = region.residence();
        let Some((most, bytes)) = residence.iter().copied().max_by_key(|&(_, bytes)| bytes) else {
            bail!(
                "the system does not tell where memory lies, so copies between nodes cannot be told apart; a container \
                 needs CAP_SYS_NICE for that (docker run --cap-add SYS_NICE)"
            );
        };
        let enough = most == node && bytes >= region.len() as u64 / 4 * 3;
        ensure!(
            enough,
            "node {node} has become full: memory for it lies on node {most} too; try again when others need less"
        );
        Ok(())
    }

    fn region(&self, node: u32, pages: Pages) -> Result<Region, MemoryError> {
        let place = match self.placed {
            true => MemoryPolicy::on([node]).pages(pages),
            false => pages.into(),
        };
        Region::new(self.bytes, place)
    }
}

fn own(region: &mut Region) -> &mut [u8] {
    region
        .as_mut_slice()
        .expect("a region that is no file can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITSELF: Pair = Pair { from: 0, to: 0 };
    const OTHER: Pair = Pair { from: 0, to: 1 };
    const BACK: Pair = Pair { from: 1, to: 0 };

    /// A machine with these MiB free on its nodes.
    fn memory(free: &[u64]) -> NumaMemory {
        let root = tempfile::tempdir().unwrap();
        for (node, mib) in free.iter().enumerate() {
            let folder = root
                .path()
                .join(format!("sys/devices/system/node/node{node}"));
            std::fs::create_dir_all(&folder).unwrap();
            // 1/64 of what there is is left to the kernel.
            let text = format!(
                "MemTotal: {} kB\nMemFree: {} kB\n",
                64 << 20,
                (mib + 1024) << 10
            );
            std::fs::write(folder.join("meminfo"), text).unwrap();
        }
        NumaMemory::read(root.path())
    }

    #[test]
    fn no_more_than_half_of_the_room_is_taken() {
        const MIB: usize = 1 << 20;
        let one = memory(&[64]);
        assert_eq!(one.room_on(&[0]), Some(64 << 20));
        assert!(fits(&one, ITSELF, 16 * MIB));
        assert!(!fits(&one, ITSELF, 16 * MIB + 1));
        let two = memory(&[64, 200]);
        assert!(fits(&two, OTHER, 32 * MIB) && fits(&two, BACK, 32 * MIB));
        assert!(!fits(&two, OTHER, 33 * MIB) && !fits(&two, BACK, 33 * MIB));
        assert!(!fits(&two, Pair { from: 0, to: 2 }, MIB), "not known");
    }

    #[test]
    fn the_first_two_nodes_with_room_are_measured_both_ways() {
        assert_eq!(pairs(&memory(&[100, 100, 100])), [OTHER, BACK]);
        assert_eq!(pairs(&memory(&[100, 10])), [ITSELF]);
        let far = [Pair { from: 1, to: 2 }, Pair { from: 2, to: 1 }];
        assert_eq!(pairs(&memory(&[10, 100, 100])), far);
        let short = memory(&[10, 63]);
        assert_eq!(pairs(&short), []);
        let words = no_room(&short);
        assert!(
            words.contains("takes 32 MiB") && words.contains("73 MiB are free"),
            "{words}"
        );
        let unknown = no_room(&NumaMemory::default());
        assert!(unknown.contains("does not tell"), "{unknown}");
    }
}
