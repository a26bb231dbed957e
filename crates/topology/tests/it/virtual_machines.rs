//! Twelve virtual machines as hypervisors show them, read with the processor's flag `hypervisor` and without.
//!
//! results/lab/2026-11/topology.md has the same table for people.

use crate::common::{Cpu, Saved};
use chiplet_topology::{Level, LevelChoice, ReadOptions, Topology, Warning};

/// A machine of equal parts, as `/sys` shows it.
#[derive(Clone, Copy)]
struct Shape {
    nodes: u32,
    /// In each node, each with one L3.
    packages: u32,
    cores: u32,
    smt: u32,
    /// KiB; 0 for none.
    l3: u32,
    /// KiB, one for each core.
    l2: u32,
    amd: bool,
}

/// The usual guest of one node with a private L2 for each core.
const GUEST: Shape = Shape {
    nodes: 1,
    packages: 1,
    cores: 1,
    smt: 1,
    l3: 16 << 10,
    l2: 512,
    amd: false,
};

impl Shape {
    fn cpus(&self) -> Vec<Cpu> {
        let per_package = self.cores * self.smt;
        let all = self.nodes * self.packages * per_package;
        let each = (0..all).map(|cpu| {
            let (package, core) = (cpu / per_package, cpu / self.smt);
            Cpu {
                cpu,
                core,
                l2: Some((core, self.l2)),
                l3: (self.l3 > 0).then_some((package, self.l3)),
                die: package,
                package,
                node: package / self.packages,
            }
        });
        each.collect()
    }

    /// The same for hwloc.
    #[cfg(feature = "hwloc")]
    fn synthetic(&self) -> String {
        let Self {
            nodes,
            packages,
            cores,
            smt,
            l3,
            l2,
            ..
        } = self;
        let l3 = match l3 {
            0 => String::new(),
            kib => format!("l3:1(size={kib}KiB) "),
        };
        format!("numa:{nodes} package:{packages} {l3}l2:{cores}(size={l2}KiB) core:1 pu:{smt}")
    }
}

type Answer = (Level, usize);

struct Guest {
    what: &'static str,
    cpus: Vec<Cpu>,
    shape: Option<Shape>,
    /// Level and domains with the flag, and whether there is a warning.
    flagged: (Answer, bool),
    /// Without it.
    plain: Answer,
}

fn guest(what: &'static str, shape: Shape, flagged: (Answer, bool), plain: Answer) -> Guest {
    Guest {
        what,
        cpus: shape.cpus(),
        shape: Some(shape),
        flagged,
        plain,
    }
}

fn guests() -> Vec<Guest> {
    let whole = (Level::Machine, 1);
    let l3 = |domains| (Level::L3, domains);
    let as_told = |answer: Answer| (answer, false);
    let doubted = |answer: Answer| (answer, true);
    let mut hotplugged = Shape {
        packages: 7,
        ..GUEST
    }
    .cpus();
    hotplugged.push(Cpu {
        cpu: 7,
        core: 7,
        l2: Some((7, 512)),
        ..hotplugged[6]
    });
    vec![
        guest(
            "libvirt's default, 8 vCPUs: a socket for each",
            Shape {
                packages: 8,
                ..GUEST
            },
            doubted(whole),
            l3(8),
        ),
        guest(
            "the same with 32 vCPUs on two virtual nodes",
            Shape {
                nodes: 2,
                packages: 16,
                ..GUEST
            },
            doubted((Level::Node, 2)),
            l3(32),
        ),
        guest(
            "a socket of two threads for each core",
            Shape {
                packages: 4,
                smt: 2,
                ..GUEST
            },
            doubted(whole),
            l3(4),
        ),
        guest(
            "an EPYC 72F3 passed through: an L3 of 32 MiB for each core",
            Shape {
                packages: 8,
                l3: 32 << 10,
                amd: true,
                ..GUEST
            },
            doubted(whole),
            l3(8),
        ),
        Guest {
            what: "six sockets of one vCPU, one of two",
            cpus: hotplugged,
            shape: None,
            flagged: doubted(whole),
            plain: l3(7),
        },
        guest(
            "64 cores of an EPYC under one L3 of 32 MiB",
            Shape {
                cores: 64,
                l3: 32 << 10,
                amd: true,
                ..GUEST
            },
            doubted(whole),
            l3(1),
        ),
        guest(
            "two L3s of 1.5 GiB: sums of several",
            Shape {
                packages: 2,
                cores: 4,
                l3: 1536 << 10,
                ..GUEST
            },
            doubted(whole),
            l3(2),
        ),
        guest(
            "an L3 smaller than an L2",
            Shape {
                cores: 4,
                l3: 2 << 10,
                l2: 4 << 10,
                ..GUEST
            },
            doubted(whole),
            l3(1),
        ),
        guest(
            "four CCDs passed on as they are",
            Shape {
                packages: 4,
                cores: 8,
                smt: 2,
                l3: 32 << 10,
                amd: true,
                ..GUEST
            },
            as_told(l3(4)),
            l3(4),
        ),
        guest(
            "one socket of 16 vCPUs under QEMU's L3",
            Shape { cores: 16, ..GUEST },
            as_told(l3(1)),
            l3(1),
        ),
        guest(
            "two vCPUs under the host's L3 of 480 MiB",
            Shape {
                cores: 2,
                l3: 480 << 10,
                l2: 2 << 10,
                ..GUEST
            },
            as_told(l3(1)),
            l3(1),
        ),
        guest(
            "no L3 at all, a socket for each of 4 vCPUs",
            Shape {
                packages: 4,
                l3: 0,
                ..GUEST
            },
            as_told(whole),
            whole,
        ),
    ]
}

fn cpuinfo(amd: bool, flagged: bool) -> String {
    let (vendor, family) = if amd {
        ("AuthenticAMD", 25)
    } else {
        ("GenuineIntel", 6)
    };
    let flag = if flagged { " hypervisor" } else { "" };
    format!(
        "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 1\nflags\t\t: fpu sse2{flag} lahf_lm"
    )
}

/// A guest's tree. To write it takes longer than all that is read of it.
struct Tree<'a> {
    guest: &'a Guest,
    saved: Saved,
}

impl<'a> Tree<'a> {
    fn of(guest: &'a Guest) -> Self {
        let saved = Saved::new(&guest.cpus);
        Self { guest, saved }
    }

    fn read(&self, flagged: bool, options: impl Into<ReadOptions>) -> Topology {
        let amd = self.guest.shape.is_some_and(|shape| shape.amd);
        self.saved.write("proc/cpuinfo", &cpuinfo(amd, flagged));
        Topology::from_sysfs(self.saved.root(), options).expect("the tree is sound")
    }
}

fn answer(machine: &Topology) -> Answer {
    (machine.level(), machine.domains().len())
}

#[test]
fn a_guest_is_read_as_what_it_can_be_and_a_real_machine_as_what_it_tells() {
    for guest in guests() {
        let (tree, what) = (Tree::of(&guest), guest.what);
        let machine = tree.read(true, LevelChoice::Auto);
        let believed = machine.warnings().is_empty();
        assert_eq!((answer(&machine), !believed), guest.flagged, "{what}");
        let size = machine.domains()[0].cache_bytes;
        assert_eq!(believed && guest.plain.0 == Level::L3, size > 0, "{what}");
        let machine = tree.read(false, LevelChoice::Auto);
        assert_eq!(
            (answer(&machine), machine.warnings()),
            (guest.plain, &[][..]),
            "{what}"
        );

        // Whoever knows better than the flag says so.
        let told = tree.read(true, ReadOptions::new().virtual_machine(false));
        assert_eq!(answer(&told), guest.plain, "{what}");
        if guest.plain.0 == Level::L3 {
            let asked = tree.read(true, LevelChoice::L3);
            assert_eq!(
                (answer(&asked), asked.warnings()),
                (guest.plain, &[][..]),
                "{what}"
            );
        }
        let suspected = tree.read(false, ReadOptions::new().virtual_machine(true));
        assert_eq!(answer(&suspected), guest.flagged.0, "{what}");
        both_readers_agree(&tree);
    }
}

#[cfg(not(feature = "hwloc"))]
fn both_readers_agree(_: &Tree) {}

#[cfg(feature = "hwloc")]
fn both_readers_agree(tree: &Tree) {
    let (guest, what) = (tree.guest, tree.guest.what);
    let Some(shape) = guest.shape else { return };
    for flagged in [true, false] {
        let options = ReadOptions::new().virtual_machine(flagged);
        let described = shape.synthetic();
        let by_hwloc = chiplet_topology::from_hwloc(
            |builder| Ok(builder.from_synthetic(&described).unwrap()),
            described.clone(),
            options,
        );
        let by_hwloc = by_hwloc.unwrap();
        let by_sys = tree.read(flagged, options);
        if flagged && shape.amd && guest.plain.1 == 1 {
            // A synthetic description names no vendor, so the rule for AMD cannot hold.
            assert_eq!(answer(&by_hwloc), guest.plain);
            continue;
        }
        assert_eq!(by_hwloc.level(), by_sys.level(), "{what}");
        assert_eq!(by_hwloc.reason(), by_sys.reason(), "{what}");
        assert_eq!(by_hwloc.warnings(), by_sys.warnings(), "{what}");
        let cores = |machine: &Topology| -> Vec<_> {
            let domains = machine.domains().iter();
            domains
                .map(|d| (d.cache_bytes, d.node, d.cores.clone()))
                .collect()
        };
        assert_eq!(cores(&by_hwloc), cores(&by_sys), "{what}");
    }
}

#[test]
fn a_warning_names_what_is_wrong_and_how_to_overrule_it() {
    let guests = guests();
    let machine = Tree::of(&guests[0]).read(true, LevelChoice::Auto);
    assert_eq!(machine.warnings(), [Warning::OneCoreL3s { l3s: 8 }]);
    let text = machine.to_string();
    for part in [
        "warning: ",
        "8 L3s",
        "--level l3",
        "--domains",
        "with_domains",
        "--probe",
        "not believed",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let machine = Tree::of(&guests[5]).read(true, LevelChoice::Auto);
    let expected = Warning::ImpossibleL3 {
        bytes: 32 << 20,
        cores: 64,
    };
    assert_eq!(machine.warnings(), [expected]);
}
