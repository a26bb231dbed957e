//! What the kernel tells of the memory of several nodes, and pages that move between them.

use chiplet_memory::{Pages, Place, Region};
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
        let mut region = Region::new(bytes, Place::on([0]).pages(pages)).unwrap();
        region.as_mut_slice().unwrap().fill(7);
        let left = room_on(&[0]).unwrap();
        // Others take and give memory meanwhile.
        assert!(left < before - bytes as u64 / 2, "{before}, then {left}");
        for node in (0..nodes).rev() {
            assert_eq!(region.migrate(node).unwrap(), bytes);
            assert_eq!(region.residence()[..], [(node, bytes as u64)]);
            assert!(region.as_slice().iter().all(|&byte| byte == 7));
        }
        assert!(region.migrate(nodes).is_err(), "there is no such node");
        assert_eq!(region.residence()[..], [(0, bytes as u64)], "it stays");
    }
}
