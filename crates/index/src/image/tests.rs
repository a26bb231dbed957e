//! Images alone; `tests/it/files.rs` has tables.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::header::{self, Wrong};
use super::*;
use chiplet_memory::{MemoryError, Pages};

/// Two sections with a gap between them, and an empty one.
fn sample() -> Image {
    let mut draft = Draft::new();
    let floats = draft.add("floats", 5 * 4);
    let ids = draft.add("ids", 3 * 8);
    draft.add("none", 0);
    let mut image = draft.allocate(Pages::Small).unwrap();
    image
        .section_mut::<f32>(floats)
        .copy_from_slice(&[1.0, -0.5, f32::NAN, 3e38, 0.0]);
    image
        .section_mut::<u64>(ids)
        .copy_from_slice(&[7, u64::MAX, 1 << 40]);
    image
        .freeze("sample", &json!({"dim": 5, "of": "tests"}))
        .unwrap()
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.table");
    (folder, path)
}

fn same(a: &Image, b: &Image) {
    assert_eq!(a.kind(), b.kind());
    assert_eq!(a.meta, b.meta);
    assert_eq!(a.region().as_slice(), b.region().as_slice());
    for (a, b) in a.entries.iter().zip(&b.entries) {
        assert_eq!((&a.name, a.section), (&b.name, b.section));
    }
}

#[test]
fn sections_begin_at_cache_lines_and_hold_what_was_written() {
    let image = sample();
    let ids = image.find("ids").unwrap();
    assert_eq!((ids.start, ids.bytes), (64, 24));
    assert_eq!(image.section::<u64>(ids), [7, u64::MAX, 1 << 40]);
    assert_eq!(image.section::<f32>(image.find("floats").unwrap())[1], -0.5);
    assert_eq!(image.bytes(), 128);
    assert!(image.section::<u32>(image.find("none").unwrap()).is_empty());
    assert!(matches!(
        image.find("others"),
        Err(FileError::Damaged { .. })
    ));
    assert!(image.find_values::<u64>("ids", 3).is_ok());
    for (values, wrong) in [(2, "ids"), (4, "ids"), (usize::MAX, "ids"), (1, "none")] {
        assert!(image.find_values::<u64>(wrong, values).is_err(), "{values}");
    }
    assert!(image.expect_kind("sample").is_ok());
    let other = image.expect_kind("hnsw").unwrap_err();
    assert!(
        matches!(other, FileError::OtherKind { found, wanted: "hnsw", .. } if found == "sample")
    );
    #[derive(serde::Deserialize)]
    struct Meta {
        dim: usize,
    }
    assert_eq!(image.meta::<Meta>().unwrap().dim, 5);
    assert!(matches!(
        image.meta::<Vec<u8>>(),
        Err(FileError::Damaged { .. })
    ));
}

#[test]
fn a_size_that_nobody_has_is_refused_not_wrapped() {
    for sizes in [
        [usize::MAX, 0],
        [usize::MAX - 70, 1],
        [1 << 63, 1 << 63],
        [100, usize::MAX - 100],
    ] {
        let mut draft = Draft::new();
        draft.add("a", sizes[0]);
        draft.add("b", sizes[1]);
        let error = draft.allocate(Pages::Transparent).unwrap_err();
        assert!(
            matches!(error, MemoryError::TooLarge { .. }),
            "{sizes:?}: {error}"
        );
    }
}

#[test]
#[should_panic(expected = "two sections")]
fn a_section_cannot_be_added_twice() {
    let mut draft = Draft::new();
    draft.add("a", 1);
    draft.add("a", 2);
}

#[test]
fn saved_loaded_and_mapped_it_is_the_same() {
    let (folder, path) = place();
    let image = sample();
    image.save(&path).unwrap();
    let first = fs::read(&path).unwrap();
    for pages in [Pages::Small, Pages::Transparent] {
        same(&Image::load(&path, pages).unwrap(), &image);
    }
    let mapped = map(&path).unwrap();
    same(&mapped, &image);
    mapped.verify().unwrap();
    // Over itself: the mapping keeps the old file.
    mapped.save(&path).unwrap();
    same(&mapped, &image);
    assert_eq!(fs::read(&path).unwrap(), first);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
}

#[test]
fn an_empty_image_is_a_file_too() {
    let (_folder, path) = place();
    let image = Draft::new().allocate(Pages::Transparent).unwrap();
    let image = image.freeze("empty", &()).unwrap();
    image.save(&path).unwrap();
    same(&Image::load(&path, Pages::Small).unwrap(), &image);
    same(&map(&path).unwrap(), &image);
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let (_folder, path) = place();
    sample().save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len(), 4096 + 128);
    // Changed in place: rewriting a file from its beginning makes some file systems wait for the disk.
    let mut file = File::options().write(true).open(&path).unwrap();
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    for (at, &byte) in whole.iter().enumerate() {
        put(at, byte ^ 1 << (at % 8));
        let loaded = Image::load(&path, Pages::Small);
        assert!(loaded.is_err(), "byte {at} is not checked");
        // What `map` reads at once it checks at once.
        let mapped = map(&path);
        assert_eq!(mapped.is_err(), at < 4096, "byte {at}");
        if let Ok(mapped) = mapped {
            assert!(matches!(mapped.verify(), Err(FileError::Damaged { .. })));
            let copy = path.with_extension("copy");
            assert!(matches!(mapped.save(&copy), Err(FileError::Damaged { .. })));
            assert!(!copy.exists());
        }
        put(at, byte);
    }
    put(whole.len(), 0);
    let longer = Image::load(&path, Pages::Small);
    assert!(matches!(longer, Err(FileError::Damaged { .. })));
    for length in (0..whole.len()).rev() {
        file.set_len(length as u64).unwrap();
        let error = Image::load(&path, Pages::Small).unwrap_err();
        let told = match error {
            FileError::Truncated { length: told, .. } => told == length as u64,
            FileError::Foreign { .. } => length == 0,
            _ => false,
        };
        assert!(told, "{length}: {error}");
        assert!(map(&path).is_err());
    }
}

#[test]
fn another_file_and_a_newer_one_are_named_as_such() {
    let (_folder, path) = place();
    for other in [
        &b"\x93NUMPY\x01"[..],
        b"chiplex\x1a and more than a prefix",
        b"c hiplet",
    ] {
        fs::write(&path, other).unwrap();
        assert!(matches!(map(&path), Err(FileError::Foreign { .. })));
    }
    sample().save(&path).unwrap();
    let mut newer = fs::read(&path).unwrap();
    newer[8] = 2;
    // A newer one may have any length.
    newer.truncate(100);
    fs::write(&path, newer).unwrap();
    let error = map(&path).unwrap_err();
    assert!(matches!(
        error,
        FileError::Newer {
            version: 2,
            supported: 1,
            ..
        }
    ));
    assert!(error.to_string().contains("update chiplet"));
}

/// A file's beginning with this header and a right checksum.
fn head_of(json: &str) -> Vec<u8> {
    let mut bytes = header::encode("", &Value::Null, &[], &[]).unwrap();
    bytes.truncate(header::PREFIX);
    bytes[12..16].copy_from_slice(&(json.len() as u32).to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&[&bytes[..16], json.as_bytes()].concat());
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes.extend(json.as_bytes());
    bytes.resize(header::payload_start(json.len()), 0);
    bytes
}

fn sections(lines: &[(&str, u64, u64)]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, offset, bytes)| {
            json!({"name": name, "offset": offset, "bytes": bytes, "xxh3": "0123456789abcdef"})
        })
        .collect();
    json!({"kind": "k", "meta": null, "sections": lines}).to_string()
}

#[test]
fn sections_that_overlap_or_lie_outside_are_refused_under_a_right_checksum() {
    let decoded = |lines: &[(&str, u64, u64)]| header::decode(&head_of(&sections(lines)));
    assert!(decoded(&[]).is_ok());
    assert!(decoded(&[("a", 0, 5), ("b", 64, 0), ("c", 64, 1)]).is_ok());
    let wrong: [&[(&str, u64, u64)]; 8] = [
        &[("a", 64, 5)],
        &[("a", 0, 65), ("b", 64, 1)],
        &[("a", 0, 5), ("b", 5, 1)],
        &[("a", 0, 5), ("b", 128, 1)],
        &[("a", 0, 5), ("a", 64, 1)],
        &[("a", 0, u64::MAX), ("b", 0, 1)],
        &[("a", 0, 1), ("b", 64, u64::MAX - 10)],
        &[("a", 0, u64::MAX - 60), ("b", u64::MAX, 1)],
    ];
    for lines in wrong {
        assert!(
            matches!(decoded(lines), Err(Wrong::Damaged(_))),
            "{lines:?}"
        );
    }
    for json in [
        "",
        "{}",
        "[1]",
        "null",
        &"[".repeat(5000),
        r#"{"kind":"k","meta":1,"sections":[],"more":1}"#,
    ] {
        assert!(
            matches!(header::decode(&head_of(json)), Err(Wrong::Damaged(_))),
            "{json}"
        );
    }
    for sum in [
        "123",
        "+123456789abcdef",
        "0123456789abcdeg",
        "00123456789abcdef",
    ] {
        let json = sections(&[("a", 0, 5)]).replace("0123456789abcdef", sum);
        assert!(header::decode(&head_of(&json)).is_err(), "{sum}");
    }
}

#[test]
fn a_section_larger_than_its_file_takes_no_memory() {
    let (_folder, path) = place();
    for bytes in [1, 1 << 50, u64::MAX >> 1, u64::MAX] {
        fs::write(&path, head_of(&sections(&[("a", 0, bytes)]))).unwrap();
        let expected = bytes.saturating_add(4096);
        for result in [Image::load(&path, Pages::Small), map(&path)] {
            match result.unwrap_err() {
                FileError::Truncated { expected: told, .. } => assert_eq!(told, expected),
                error => panic!("{error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_image_comes_back(sizes in prop::collection::vec(0usize..3000, 0..8), seed: u8, meta: Vec<i64>) {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "\u{fc}"];
        let mut draft = Draft::new();
        let sections: Vec<Section> = NAMES.iter().zip(&sizes).map(|(name, &bytes)| draft.add(name, bytes)).collect();
        let mut image = draft.allocate(Pages::Transparent).unwrap();
        for (number, &section) in sections.iter().enumerate() {
            image.section_mut::<u8>(section).fill(seed.wrapping_add(number as u8));
        }
        let image = image.freeze("any", &meta).unwrap();
        let (_folder, path) = place();
        image.save(&path).unwrap();
        for back in [Image::load(&path, Pages::Small).unwrap(), map(&path).unwrap()] {
            same(&back, &image);
            prop_assert_eq!(back.meta::<Vec<i64>>().unwrap(), meta.clone());
            for (name, &section) in NAMES.iter().zip(&sections) {
                prop_assert_eq!(back.find(name).unwrap(), section);
            }
        }
    }

    #[test]
    fn damage_of_any_extent_is_refused(at in 0usize..4224, bytes in prop::collection::vec(any::<u8>(), 1..300), cut in any::<bool>()) {
        let (_folder, path) = place();
        sample().save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged.splice(at..(at + bytes.len()).min(whole.len()), bytes);
        if cut {
            damaged.truncate(whole.len());
        }
        prop_assume!(damaged != whole);
        fs::write(&path, damaged).unwrap();
        prop_assert!(Image::load(&path, Pages::Small).is_err());
        if let Ok(mapped) = map(&path) {
            prop_assert!(mapped.verify().is_err());
        }
    }
}

#[expect(unsafe_code, reason = "files of these tests alone")]
fn map(path: &Path) -> Result<Image, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { Image::map(path) }
}
