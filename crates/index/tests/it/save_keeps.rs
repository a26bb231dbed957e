//! What a table and the file it replaces keep through a save.

use std::fs;

use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Pages};
use chiplet_table::{Context, Query, Table};

/// Bytes that a query reads which does not say how many candidates to keep.
fn read_by_default(table: &HnswTable) -> u64 {
    let mut context = Context::default();
    let query = Query::new([3.0, 5.0]).top(3);
    table.search(&query, &mut context).unwrap();
    context.bytes()
}

#[test]
fn a_changed_ef_comes_back_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.table");
    let rows: Vec<f32> = (0..4_000).map(|x| (x * 7_919 % 1_009) as f32).collect();
    let built = HnswTable::build(&rows, 2, &HnswConfig::new(Metric::L2)).unwrap();
    let before = read_by_default(&built);
    let changed = built.with_ef(800).unwrap();
    let wanted = read_by_default(&changed);
    assert!(wanted > before);
    changed.save(&path).unwrap();
    let loaded = HnswTable::load(&path, Pages::Small).unwrap();
    assert_eq!(read_by_default(&loaded), wanted);
    // A loaded table's setting is saved as well.
    loaded.with_ef(64).unwrap().save(&path).unwrap();
    let again = HnswTable::load(&path, Pages::Small).unwrap();
    assert_eq!(read_by_default(&again), before);
}

#[cfg(unix)]
#[test]
fn a_replaced_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.table");
    let table = FlatTable::build([1.0, 2.0], 1, Metric::L2).unwrap();
    table.save(&path).unwrap();
    for mode in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        table.save(&path).unwrap();
        let now = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(now, mode, "{now:o} where {mode:o} was");
    }
}

#[test]
fn the_longest_name_can_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    let table = FlatTable::build([1.0, 2.0], 1, Metric::L2).unwrap();
    for name in ["a".repeat(255), "\u{fc}".repeat(127)] {
        let path = folder.path().join(name);
        table.save(&path).unwrap();
        assert_eq!(FlatTable::load(&path, Pages::Small).unwrap().len(), 2);
    }
}
