//! Tables in files.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use chiplet_executor::{Query, SplitTable, Table, Work};
use chiplet_index::{BuildError, FileError, FlatTable, MemoryError, Metric, Pages};
use common::{clustered, split, unsplit};
use tempfile::TempDir;

const DIM: usize = 24;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    (folder, path)
}

fn answers(table: &FlatTable) -> Vec<Vec<chiplet_executor::Neighbor>> {
    let queries = clustered(10, DIM, 8);
    let answer = |row: &[f32]| unsplit(table, &Query::new(row).top(30));
    queries.chunks_exact(DIM).map(answer).collect()
}

#[test]
fn a_flat_table_answers_alike_built_loaded_and_mapped() {
    let rows = clustered(7000, DIM, 3);
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let (_folder, path) = place();
        let built = FlatTable::build(&rows, DIM, metric).unwrap();
        built.save(&path).unwrap();
        let expected = answers(&built);
        for pages in [Pages::Small, Pages::Transparent] {
            let loaded = FlatTable::load_in(&path, pages).unwrap();
            assert_eq!((loaded.len(), loaded.dim()), (7000, DIM));
            assert_eq!(
                (loaded.metric(), loaded.size_bytes()),
                (metric, built.size_bytes())
            );
            assert_eq!(answers(&loaded), expected, "{metric:?} {pages:?}");
        }
        let mapped = FlatTable::map(&path).unwrap();
        mapped.verify().unwrap();
        assert_eq!(answers(&mapped), expected, "{metric:?} mapped");
        let query = Query::new(&rows[..DIM]).top(5);
        assert_eq!(split(&mapped, &query, 7), unsplit(&built, &query));
        // Another table takes its name; this one stays what it was.
        FlatTable::build([1.0; DIM], DIM, metric)
            .unwrap()
            .save(&path)
            .unwrap();
        assert_eq!(answers(&mapped), expected, "{metric:?} replaced");
        assert_eq!(FlatTable::load(&path).unwrap().len(), 1);
    }
}

#[test]
fn a_table_without_rows_can_be_kept() {
    let (_folder, path) = place();
    let empty = FlatTable::build([], DIM, Metric::L2).unwrap();
    empty.save(&path).unwrap();
    for table in [
        FlatTable::load(&path).unwrap(),
        FlatTable::map(&path).unwrap(),
    ] {
        assert_eq!((table.len(), table.dim()), (0, DIM));
        assert!(unsplit(&table, &Query::new([0.0; DIM])).is_empty());
    }
}

#[test]
fn damaged_rows_of_a_mapped_table_give_strange_answers_and_nothing_worse() {
    let (_folder, path) = place();
    let rows = clustered(6000, DIM, 3);
    for (metric, value) in [Metric::L2, Metric::Cosine, Metric::InnerProduct]
        .into_iter()
        .flat_map(|metric| {
            [f32::NAN, f32::INFINITY, -f32::MAX, -f32::NAN].map(|value| (metric, value))
        })
    {
        FlatTable::build(&rows, DIM, metric)
            .unwrap()
            .save(&path)
            .unwrap();
        let mut file = fs::read(&path).unwrap();
        for at in (4096..file.len()).step_by(40) {
            file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        fs::write(&path, file).unwrap();
        let error = FlatTable::load(&path).unwrap_err();
        assert!(
            error.to_string().contains("checksum of section \"rows\""),
            "{error}"
        );
        let table = FlatTable::map(&path).unwrap();
        assert!(matches!(table.verify(), Err(FileError::Damaged { .. })));
        let query = Query::new(vec![0.5; DIM]).top(100);
        let hits = unsplit(&table, &query);
        assert_eq!(hits.len(), 100);
        assert!(hits.iter().all(|hit| hit.id < 6000));
        assert_eq!(split(&table, &query, 5).len(), 100);
        assert!(table.coarse(&query, &mut Work::default()).unwrap().len() > 2);
    }
}

fn write_to(path: &Path) -> FileError {
    let table = FlatTable::build([1.0, 2.0], 1, Metric::L2).unwrap();
    table.save(path).unwrap_err()
}

#[test]
fn where_nothing_can_be_written_or_read_the_error_names_the_path() {
    let (folder, path) = place();
    let nowhere = folder.path().join("no folder/rows.table");
    for error in [
        write_to(&nowhere),
        FlatTable::load(&nowhere).unwrap_err(),
        FlatTable::map(&nowhere).unwrap_err(),
    ] {
        assert!(matches!(error, FileError::Io { .. }), "{error}");
        assert!(
            error.to_string().contains("no folder/rows.table"),
            "{error}"
        );
    }
    // A folder is neither replaced nor read.
    fs::create_dir(&path).unwrap();
    assert!(matches!(write_to(&path), FileError::Io { .. }));
    assert!(path.is_dir());
    let error = FlatTable::load(&path).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert!(matches!(write_to(Path::new("/")), FileError::Io { .. }));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let device = FlatTable::load("/dev/zero").unwrap_err();
    assert!(
        device.to_string().contains("not a regular file"),
        "{device}"
    );
}

#[test]
fn a_table_that_no_memory_holds_is_an_error() {
    // Only 1 MiB and more takes reserved huge pages, of which no machine has a tebibyte.
    let rows = vec![0.0; 300_000];
    match FlatTable::build_in(&rows, 1, Metric::L2, Pages::HugeTlb) {
        Ok(table) => assert_eq!(table.granted().pages, Some(Pages::HugeTlb)),
        Err(BuildError::Memory(MemoryError::HugePages { pages, .. })) => assert_eq!(pages, 1),
        Err(error) => panic!("{error}"),
    }
}

/// A process of its own that may write no more than 64 KiB to a file, and is killed or told so when it tries.
#[cfg(target_os = "linux")]
mod limited {
    use std::process::{Command, ExitStatus};

    use super::*;

    const PATH: &str = "CHIPLET_SAVE_TO";

    fn large() -> FlatTable {
        FlatTable::build(clustered(10_000, DIM, 1), DIM, Metric::L2).unwrap()
    }

    #[test]
    fn child() {
        let Some(path) = std::env::var_os(PATH) else {
            return;
        };
        let error = large().save(PathBuf::from(path)).unwrap_err();
        assert!(
            matches!(error, FileError::Io { doing: "write", .. }),
            "{error}"
        );
        println!("{error}");
    }

    fn save_in_child(path: &Path, before: &str) -> (ExitStatus, String) {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("{before} ulimit -c 0; ulimit -f 128; exec \"$0\" limited::child --exact --nocapture"))
            .arg(std::env::current_exe().unwrap())
            .env(PATH, path)
            .output()
            .unwrap();
        (
            output.status,
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    fn old_file_is_whole(path: &Path) {
        let table = FlatTable::load(path).unwrap();
        assert_eq!(unsplit(&table, &Query::new([2.2]).top(1))[0].id, 1);
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
        let (folder, path) = place();
        FlatTable::build([1.0, 2.0], 1, Metric::L2)
            .unwrap()
            .save(&path)
            .unwrap();
        // With the signal ignored, the write itself is refused.
        let (status, said) = save_in_child(&path, "trap '' XFSZ;");
        assert!(status.success(), "{status}: {said}");
        assert!(said.contains("cannot write"), "{said}");
        old_file_is_whole(&path);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_process_killed_while_it_saves_leaves_the_old_file() {
        use std::os::unix::process::ExitStatusExt;

        let (folder, path) = place();
        FlatTable::build([1.0, 2.0], 1, Metric::L2)
            .unwrap()
            .save(&path)
            .unwrap();
        let (status, said) = save_in_child(&path, "");
        assert!(status.signal().is_some(), "{status}: {said}");
        old_file_is_whole(&path);
        let part = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|found| *found != path)
            .expect("the killed one could not clean up");
        assert_eq!(
            part.metadata().unwrap().len(),
            64 << 10,
            "it was killed midway"
        );
        // What it left is in nobody's way, and no table.
        assert!(FlatTable::load(&part).is_err());
        large().save(&path).unwrap();
        assert_eq!(FlatTable::load(&path).unwrap().len(), 10_000);
    }
}
