use super::core::Access;
use super::*;

fn part() -> Part {
    Part {
        domains: 2,
        cores: 2,
        l1_bytes: 4 << 10,
        l2_bytes: 16 << 10,
        l3_bytes: 256 << 10,
        ..Part::named("genoa-9654").unwrap()
    }
}

fn machine() -> Machine {
    Machine::new(part(), Wiring::Straight, 4096, false)
}

fn sweep(core: &mut Core, machine: &Machine, from: u64, bytes: u64, write: bool) {
    for address in (from..from + bytes).step_by(8) {
        let access = Access {
            address,
            bytes: 8,
            write,
            atomic: false,
            pc: 0,
        };
        core.access(machine, access);
    }
}

#[test]
fn a_buffer_is_served_by_the_smallest_level_that_holds_it() {
    let machine = machine();
    let mut core = machine.core(Some(0));
    for (bytes, missed) in [(4 << 10, 0), (16 << 10, 1), (128 << 10, 2), (1 << 20, 3)] {
        let lines = bytes / 64;
        sweep(&mut core, &machine, 0, bytes, false);
        machine.begin();
        for _ in 0..3 {
            sweep(&mut core, &machine, 0, bytes, false);
        }
        let counts = machine.counts()[0];
        assert_eq!(counts.l1_accesses, 3 * lines);
        let expect = |level: u32| if missed >= level { 3 * lines } else { 0 };
        assert_eq!(counts.l1_misses, expect(1), "{bytes} bytes");
        assert_eq!(counts.l2_misses, expect(2), "{bytes} bytes");
        if missed < 3 {
            assert_eq!(counts.l3_misses, 0, "{bytes} bytes");
        } else {
            assert!(
                counts.l3_misses > 3 * lines * 9 / 10,
                "the L3's sets are hashed"
            );
        }
    }
}

#[test]
fn a_sibling_finds_what_a_core_has_read_and_another_domain_does_not() {
    let machine = machine();
    let mut cores = [Some(0), Some(0), Some(1)].map(|domain| machine.core(domain));
    for core in &mut cores {
        sweep(core, &machine, 1 << 20, 128 << 10, false);
    }
    let lines = (128 << 10) / 64;
    let counts = machine.counts();
    assert_eq!(
        (counts[0].l2_misses, counts[0].l3_misses),
        (2 * lines, lines)
    );
    assert_eq!((counts[1].l2_misses, counts[1].l3_misses), (lines, lines));
}

#[test]
fn a_written_line_is_counted_where_it_comes_from_and_where_it_goes() {
    let machine = Machine::new(part(), Wiring::Straight, 4096, true);
    let mut near = machine.core(Some(0));
    let mut far = machine.core(Some(1));
    let write = |core: &mut Core, pc| {
        let access = Access {
            address: 640,
            bytes: 8,
            write: true,
            atomic: true,
            pc,
        };
        core.access(&machine, access);
    };
    // Page and line become known as shared in the first turns.
    for _ in 0..2 {
        write(&mut near, 1);
        write(&mut far, 2);
    }
    machine.begin();
    let before = (near.clock, far.clock);
    for _ in 0..5 {
        write(&mut near, 1);
        write(&mut far, 2);
    }
    assert_eq!(machine.pairs(), [[0, 5, 0], [5, 0, 0], [0, 0, 0]]);
    assert_eq!(machine.counts()[0].lines_across, 5);
    assert_eq!(near.clock - before.0, 5 * 182_000);
    assert_eq!(far.clock - before.1, 5 * 182_000);
    let mut bounces = machine.bounces();
    bounces.sort_unstable();
    assert_eq!(bounces, [((1, 10), 5), ((2, 10), 5)]);
}

#[test]
fn a_spin_on_a_line_sees_that_another_has_written_it() {
    let machine = machine();
    let mut waits = machine.core(Some(0));
    let mut writes = machine.core(Some(1));
    let touch = |core: &mut Core, write| {
        let access = Access {
            address: 64,
            bytes: 8,
            write,
            atomic: false,
            pc: 0,
        };
        core.access(&machine, access);
    };
    touch(&mut writes, true);
    touch(&mut waits, false);
    touch(&mut writes, true);
    machine.begin();
    for _ in 0..10 {
        touch(&mut waits, false);
    }
    assert_eq!(machine.counts()[0].lines_across, 1);
    touch(&mut writes, true);
    for _ in 0..10 {
        touch(&mut waits, false);
    }
    assert_eq!(machine.counts()[0].lines_across, 2);
}

#[test]
fn domains_can_be_joined_and_exchanged() {
    let one = Machine::new(part(), Wiring::One, 4096, false);
    let mut core = one.core(Some(1));
    core.run(&one, 10);
    assert_eq!(one.counts()[0].instructions, 10);

    let crossed = Machine::new(part(), Wiring::Permuted(vec![1, 0]), 4096, false);
    crossed.core(Some(1)).run(&crossed, 10);
    crossed.core(None).run(&crossed, 5);
    let ran: Vec<u64> = crossed.counts().iter().map(|c| c.instructions).collect();
    assert_eq!(ran, [10, 0, 5]);
}

#[test]
fn large_pages_walk_less() {
    let walks = [4 << 10, 2 << 20].map(|page| {
        let machine = Machine::new(part(), Wiring::Straight, page, false);
        let mut core = machine.core(Some(0));
        sweep(&mut core, &machine, 0, 8 << 20, false);
        machine.counts()[0].page_walks
    });
    assert_eq!(walks, [2048, 4]);
}

#[test]
fn memory_costs_its_latency_and_lines_that_follow_cost_their_turn() {
    let machine = machine();
    let mut core = machine.core(Some(0));
    let read = |core: &mut Core, address| {
        let before = core.clock;
        core.access(
            &machine,
            Access {
                address,
                bytes: 8,
                write: false,
                atomic: false,
                pc: 0,
            },
        );
        core.clock - before
    };
    read(&mut core, 0);
    assert!((3_000..3_100).contains(&read(&mut core, 64)), "it follows");
    let alone = read(&mut core, 640);
    assert!(
        (55_000..55_100).contains(&alone),
        "110 ns, two at a time: {alone}"
    );
    assert_eq!(read(&mut core, 640), 0, "it is in the L1");
}
