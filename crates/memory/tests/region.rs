//! Regions as a table uses them.

use std::fs::File;
use std::io::Write;

use chiplet_memory::{ALIGNMENT, MemoryError, MemoryPolicy, Pages, Region};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

/// Around every size at which something changes.
fn sizes() -> Vec<usize> {
    let borders = [
        0,
        64,
        4096,
        64 << 10,
        500_000,
        MIB,
        2 * MIB,
        3 * MIB,
        4 * MIB,
        5 * MIB,
    ];
    let around = |border: usize| [border.saturating_sub(1), border, border + 1];
    borders.into_iter().flat_map(around).collect()
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_region_is_zeroed_aligned_and_written_from_end_to_end() {
    for pages in [Pages::Small, Pages::Transparent] {
        for bytes in sizes() {
            let mut region = Region::new(bytes, pages).unwrap();
            assert_eq!((region.len(), region.is_empty()), (bytes, bytes == 0));
            assert!(!region.is_mapped());
            assert!(region.as_slice().iter().all(|&byte| byte == 0), "{bytes}");
            region.as_mut_slice().unwrap().fill(7);
            assert!(region.as_slice().iter().all(|&byte| byte == 7), "{bytes}");
            let address = region.as_slice().as_ptr().addr();
            assert_eq!(address % ALIGNMENT, 0, "{bytes}");
            if cfg!(target_os = "linux") && bytes >= 64 << 10 {
                assert_eq!(address % 4096, 0, "{bytes}");
            }
            if cfg!(target_os = "linux") && bytes >= MIB && pages == Pages::Transparent {
                assert_eq!(address % (2 * MIB), 0, "{bytes}");
            }
        }
    }
}

#[test]
fn populating_keeps_the_content_and_reports_each_step() {
    let bytes = 70 * MIB + 5;
    let mut region = Region::new(bytes, Pages::Transparent).unwrap();
    region.as_mut_slice().unwrap()[bytes - 1] = 9;
    let mut told = Vec::new();
    let done = region.populate(|done, all| told.push((done, all))).unwrap();
    assert_eq!(done, bytes);
    let steps = [32 * MIB, 64 * MIB, bytes];
    if cfg!(target_os = "linux") {
        assert_eq!(told, steps.map(|step| (step, bytes)));
    }
    assert_eq!(region.as_slice()[bytes - 1], 9);
    assert!(region.as_slice()[..bytes - 1].iter().all(|&byte| byte == 0));
    for bytes in [0, 1, 100_000] {
        let region = Region::new(bytes, Pages::Small).unwrap();
        assert_eq!(region.populate(|_, _| ()), Ok(bytes));
    }
}

#[test]
fn sizes_that_nobody_has_are_refused() {
    for pages in [Pages::Small, Pages::Transparent, Pages::HugeTlb] {
        for bytes in [usize::MAX, usize::MAX - 4095, isize::MAX as usize] {
            let error = Region::new(bytes, pages).unwrap_err();
            assert_eq!(error, MemoryError::TooLarge { bytes });
        }
        // 2^62 bytes can be written down, but no processor addresses them.
        let error = Region::new(1 << 62, pages).unwrap_err();
        assert!(
            matches!(error, MemoryError::Refused { bytes, .. } | MemoryError::HugePages { bytes, .. } if bytes == 1 << 62),
            "{error:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn reserved_huge_pages_are_had_or_the_error_says_how_to_get_them() {
    // More than this machine has reserved, whatever it has.
    let bytes = 1 << 44;
    match Region::new(bytes, Pages::HugeTlb).unwrap_err() {
        error @ MemoryError::HugePages { pages, .. } => {
            assert_eq!(pages, bytes / (2 * MIB));
            assert!(
                error.to_string().contains("sysctl vm.nr_hugepages"),
                "{error}"
            );
        }
        // Other systems have none to reserve.
        error => panic!("{error:?}"),
    }
    // Small tables do not take 2 MiB each.
    let region = Region::new(500_000, Pages::HugeTlb).unwrap();
    assert!(region.granted().reserved < 600_000);
}

#[test]
fn a_mapped_part_is_what_the_file_holds_there() {
    let content: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let file = file(&content);
    for (offset, bytes) in [
        (0, 300_000),
        (4096, 8192),
        (1, 1),
        (4095, 2),
        (77_777, 222_223),
        (300_000, 0),
        (5, 0),
    ] {
        let mut part = map(&file, offset, bytes).unwrap();
        let at = offset as usize;
        assert_eq!(part.as_slice(), &content[at..at + bytes], "{offset}");
        assert!(part.is_mapped() && part.as_mut_slice().is_none());
        let mut last = None;
        assert_eq!(
            part.populate(|done, all| last = Some((done, all))),
            Ok(bytes)
        );
        assert_eq!(last, Some((bytes, bytes)));
        assert_eq!(part.granted().pages, None);
        if bytes > 0 && offset % 4096 == 0 {
            assert_eq!(part.as_slice().as_ptr().addr() % ALIGNMENT, 0);
        }
    }
}

#[test]
fn a_mapped_part_outlives_the_file_and_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, [3; 10_000]).unwrap();
    let part = map(&File::open(&path).unwrap(), 0, 10_000).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(part.as_slice(), [3; 10_000]);
}

#[test]
fn a_part_beyond_the_files_end_is_refused() {
    let file = file(&[1; 5000]);
    for (offset, bytes) in [
        (0, 5001),
        (4096, 905),
        (5000, 1),
        (5001, 0),
        (u64::MAX, 1),
        (1, usize::MAX),
        (u64::MAX, usize::MAX),
    ] {
        let short = MemoryError::ShortFile {
            offset,
            bytes,
            length: 5000,
        };
        assert_eq!(map(&file, offset, bytes).unwrap_err(), short);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_refused() {
    let folder = File::open("/").unwrap();
    let length = folder.metadata().unwrap().len() as usize;
    let error = map(&folder, 0, length.min(10)).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::Map { .. } | MemoryError::ShortFile { .. }
        ),
        "{error:?}"
    );
    let device = File::open("/dev/zero").unwrap();
    assert!(matches!(
        map(&device, 0, 1),
        Err(MemoryError::ShortFile { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn regions_never_overlap(sizes in prop::collection::vec(0usize..3 * MIB, 1..20), drops: u32) {
        let mut regions = Vec::new();
        for (number, &bytes) in sizes.iter().enumerate() {
            let mut region = Region::new(bytes, Pages::Transparent).unwrap();
            let mark = number as u8;
            // Both ends and a byte of each page, so that whole regions need not be written.
            let slice = region.as_mut_slice().unwrap();
            slice.iter_mut().step_by(4096).for_each(|byte| *byte = mark);
            if let Some(last) = slice.last_mut() {
                *last = mark;
            }
            regions.push(Some((mark, region)));
            if drops >> (number % 32) & 1 == 1 {
                regions[number / 2] = None;
            }
        }
        for (mark, region) in regions.iter().flatten() {
            let slice = region.as_slice();
            prop_assert!(slice.iter().step_by(4096).chain(slice.last()).all(|byte| byte == mark));
        }
    }
}

#[expect(unsafe_code, reason = "files of these tests alone")]
fn map(file: &File, offset: u64, bytes: usize) -> Result<Region, MemoryError> {
    // SAFETY: nothing writes to the file.
    unsafe { Region::map(file, offset, bytes) }
}

/// Every machine has a node 0. `lab/vm` has machines with more.
#[cfg(target_os = "linux")]
#[test]
fn a_region_lies_where_it_was_told_to() {
    for bytes in [64 << 10, 3 * MIB, 40 * MIB] {
        for pages in [Pages::Small, Pages::Transparent] {
            let place = MemoryPolicy::on([0]).pages(pages);
            let mut region = Region::new(bytes, place.clone()).unwrap();
            assert_eq!(region.residence(), [], "nothing was touched");
            region.as_mut_slice().unwrap().fill(7);
            assert_eq!(region.policy(), Some(&place));
            // A container may not ask.
            if let [held] = region.residence()[..] {
                assert_eq!(held, (0, region.granted().reserved as u64));
            }
            let mut asked = 0;
            let mut pace = |bytes| {
                asked += bytes;
                true
            };
            let copy = region.copy_to(&[0], &mut pace).unwrap().unwrap();
            assert_eq!(asked, bytes as u64);
            assert_eq!(copy.as_slice(), region.as_slice());
            assert_eq!(copy.policy(), region.policy());
            assert!(region.copy_to(&[0], &mut |_| false).unwrap().is_none());
            assert!(matches!(
                region.copy_to(&[1_023], &mut |_| true),
                Err(MemoryError::Bind { .. })
            ));
        }
    }
    // Too small for pages of its own.
    assert!(Region::new(100, MemoryPolicy::on([0])).is_ok());
    for missing in [63, 1_023, 1_024, u32::MAX] {
        let error = Region::new(MIB, MemoryPolicy::on([0, missing])).unwrap_err();
        let MemoryError::Bind { nodes, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(nodes, &[0, missing]);
        assert!(error.to_string().contains("chiplet topology"), "{error}");
    }
}

/// Here from node 0 to itself; `lab/vm` moves between nodes.
#[cfg(target_os = "linux")]
#[test]
fn what_is_in_memory_moves_and_keeps_its_content() {
    for pages in [Pages::Small, Pages::Transparent] {
        // More than one system call, and a part that is never touched.
        let mut region = Region::new(70 * MIB, pages).unwrap();
        region.as_mut_slice().unwrap()[..66 * MIB].fill(7);
        let there = match region.migrate(0) {
            Ok(there) => there,
            // A container may not move pages.
            Err(error) => {
                assert_eq!(error.code(), Some(libc::EPERM));
                return;
            }
        };
        // The kernel passes over pages that it is just about to list.
        assert!((65 * MIB..=66 * MIB).contains(&there), "{there}");
        assert!(region.as_slice()[..66 * MIB].iter().all(|&byte| byte == 7));
        assert!(region.as_slice()[66 * MIB..].iter().all(|&byte| byte == 0));
        for missing in [63, 1_023, u32::MAX] {
            let error = region.migrate(missing).unwrap_err();
            assert_eq!(error.code(), Some(libc::ENODEV), "{missing}");
        }
    }
    let mut tiny = Region::new(100, Pages::Small).unwrap();
    assert_eq!(tiny.migrate(0), Ok(0));
}
