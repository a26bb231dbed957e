//! What the kernel tells of the memory of several nodes, and pages that move between them.

use chiplet_memory::{MemoryPolicy, Pages, Region};
use chiplet_topology::{NumaMemory, numa_balancing, room_on};

pub fn moves(nodes: u32) {
    let told = NumaMemory::read("/");
    let numbers: Vec<u32> = told.nodes().iter().map(|node| node.node).collect();
    assert_eq!(numbers, Vec::from_iter(0..nodes));
    assert_eq!(
        numa_balancing(),
        Some(nodes > 1),
        "as Debian's kernel comes"
    );
    for node in told.nodes() {
        let room = room_on(&[node.node]).unwrap();
        assert!(0 < room && room < node.total_bytes, "{node:?}");
    }
    assert_eq!(room_on(&[0, nodes]), None);

    let bytes = 32 << 20;
    for pages in [Pages::Small, Pages::Transparent] {
        let before = room_on(&[0]).unwrap();
        let mut region = Region::new(bytes, MemoryPolicy::on([0]).pages(pages)).unwrap();
        region.as_mut_slice().unwrap().fill(7);
        let left = room_on(&[0]).unwrap();
        // Others take and give memory meanwhile.
        assert!(left < before - bytes as u64 / 2, "{before}, then {left}");
        for node in (0..nodes).rev() {
            // The kernel passes over pages that it is just about to list.
            let moved = region.migrate(node).unwrap();
            assert!(moved >= bytes - bytes / 64, "{moved} to {node}");
            assert!(most(&region, node), "{:?}", region.residence());
            assert!(region.as_slice().iter().all(|&byte| byte == 7));
        }
        assert!(region.migrate(nodes).is_err(), "there is no such node");
        assert!(most(&region, 0), "it stays: {:?}", region.residence());
    }
}

/// Whether nearly all of it is on `node`.
fn most(region: &Region, node: u32) -> bool {
    let residence = region.residence();
    let here = residence.iter().find(|(on, _)| *on == node);
    here.is_some_and(|&(_, bytes)| bytes >= region.len() as u64 / 64 * 62)
}
