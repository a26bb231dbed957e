//! What happens to a table's file when saving it, or memory for it, is refused, and when its rows are damaged unseen.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{clustered, mapped, split, unsplit};
use chiplet_index::{BuildError, FileError, FlatConfig, FlatTable, Metric, Pages};
use chiplet_memory::MemoryError;
use chiplet_table::{Context, Query, SplitTable, Table};
use tempfile::TempDir;

const DIM: usize = 24;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.table");
    (folder, path)
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
        let error = FlatTable::load(&path, Pages::Small).unwrap_err();
        assert!(
            error.to_string().contains("checksum of section \"rows\""),
            "{error}"
        );
        let table = mapped::flat(&path).unwrap();
        assert!(matches!(table.verify(), Err(FileError::Damaged { .. })));
        let query = Query::new(vec![0.5; DIM]).top(100);
        let hits = unsplit(&table, &query);
        assert_eq!(hits.len(), 100);
        assert!(hits.iter().all(|hit| hit.id < 6000));
        assert_eq!(split(&table, &query, 5).len(), 100);
        assert!(table.coarse(&query, &mut Context::default()).unwrap().len() > 2);
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
        FlatTable::load(&nowhere, Pages::Small).unwrap_err(),
        mapped::flat(&nowhere).unwrap_err(),
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
    let error = FlatTable::load(&path, Pages::Small).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert!(matches!(write_to(Path::new("/")), FileError::Io { .. }));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let device = FlatTable::load("/dev/zero", Pages::Small).unwrap_err();
    assert!(
        device.to_string().contains("not a regular file"),
        "{device}"
    );
}

/// A file of a table without rows that claims `dim` components, with a right checksum.
#[cfg(unix)]
#[test]
fn a_table_takes_the_place_of_files_alone() {
    use std::os::unix::fs::{FileTypeExt, symlink};

    let (folder, path) = place();
    let table = FlatTable::build([1.0, 2.0], 2, Metric::L2).unwrap();
    let link = folder.path().join("current");
    fs::write(&path, b"before").unwrap();
    symlink(&path, &link).unwrap();
    table.save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(FlatTable::load(&path, Pages::Small).unwrap().len(), 1);

    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = table.save(&socket).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert!(table.save(folder.path()).is_err());
}

fn claiming(dim: u64, path: &Path) {
    FlatTable::build([], 3, Metric::L2)
        .unwrap()
        .save(path)
        .unwrap();
    let mut file = fs::read(path).unwrap();
    let length = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    let header = String::from_utf8(file[24..24 + length].to_vec()).unwrap();
    let forged = header.replace("\"dim\":3", &format!("\"dim\":{dim}"));
    file.truncate(24);
    file[12..16].copy_from_slice(&(forged.len() as u32).to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&[&file[..16], forged.as_bytes()].concat());
    file[16..].copy_from_slice(&sum.to_le_bytes());
    file.extend(forged.as_bytes());
    file.resize(4096, 0);
    fs::write(path, file).unwrap();
}

#[test]
fn a_dimension_that_no_row_has_is_refused_also_without_rows() {
    let (_folder, path) = place();
    claiming(5, &path);
    assert_eq!(mapped::flat(&path).unwrap().dim(), 5);
    for dim in [0, (1 << 24) + 1, 1 << 62, u64::MAX] {
        claiming(dim, &path);
        let refused = mapped::flat(&path).err();
        assert!(
            matches!(refused, Some(FileError::Damaged { .. })),
            "{dim}: {refused:?}"
        );
        assert!(
            FlatTable::build([], dim as usize, Metric::L2).is_err(),
            "{dim}"
        );
    }
}

#[test]
fn a_table_that_no_memory_holds_is_an_error() {
    // Only 1 MiB and more takes reserved huge pages, of which no machine has a tebibyte.
    let rows = vec![0.0; 300_000];
    match FlatTable::build(&rows, 1, FlatConfig::new(Metric::L2).memory(Pages::HugeTlb)) {
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
            .arg(format!("{before} ulimit -c 0; ulimit -f 128; exec \"$0\" saving::limited::child --exact --nocapture"))
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
        let table = FlatTable::load(path, Pages::Small).unwrap();
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
        assert!(FlatTable::load(&part, Pages::Small).is_err());
        large().save(&path).unwrap();
        assert_eq!(FlatTable::load(&path, Pages::Small).unwrap().len(), 10_000);
    }
}
