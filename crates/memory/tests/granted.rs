//! What the kernel says about regions. Alone in its process: the kernel counts neighbours together.
#![cfg(target_os = "linux")]

use chiplet_memory::{Pages, Region};

const MIB: usize = 1 << 20;

/// Whether the kernel gives huge pages to who asks.
fn huge_pages_at_hand() -> bool {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let enabled = std::fs::read_to_string(path).unwrap_or_default();
    enabled.contains("[always]") || enabled.contains("[madvise]")
}

#[test]
fn what_was_granted_is_what_is_in_memory() {
    let bytes = 9 * MIB + 100;
    let region = Region::new(bytes, Pages::Transparent).unwrap();
    let before = region.granted();
    assert_eq!(before.pages, Some(Pages::Transparent));
    assert_eq!((before.resident, before.huge), (Some(0), Some(0)));
    // Its last part fills half a huge page, and so gets a whole one.
    assert_eq!(before.reserved, 10 * MIB);
    region.populate(|_, _| ()).unwrap();
    let after = region.granted();
    assert_eq!(after.resident, Some(10 * MIB));
    let huge = after.huge.unwrap();
    assert!(huge <= 10 * MIB && huge.is_multiple_of(2 * MIB));
    if huge_pages_at_hand() {
        assert!(huge > 0, "{after:?}");
    } else {
        assert_eq!(huge, 0);
    }
    drop(region);

    let mut region = Region::new(9 * MIB, Pages::Small).unwrap();
    region.as_mut_slice().unwrap()[..3 * MIB].fill(1);
    let granted = region.granted();
    assert_eq!((granted.resident, granted.huge), (Some(3 * MIB), Some(0)));
    assert_eq!(granted.reserved, 9 * MIB);

    // A tiny one is on the heap, of which the kernel knows no part.
    let tiny = Region::new(100, Pages::Transparent).unwrap();
    assert_eq!(
        (tiny.granted().reserved, tiny.granted().resident),
        (128, None)
    );

    // Tables of 500 KB, of which services have thousands.
    let many: Vec<Region> = (0..100)
        .map(|_| Region::new(500_000, Pages::Transparent).unwrap())
        .collect();
    for region in &many {
        region.populate(|_, _| ()).unwrap();
    }
    let granted = many[50].granted();
    assert_eq!(granted.reserved, 123 * 4096);
    assert_eq!(granted.resident, Some(granted.reserved));
}
