use super::*;
use crate::collection::schema::{Distance, IndexKind};

fn caches() -> Arc<Caches> {
    Caches::new(u64::MAX)
}

fn settings() -> Settings {
    Settings {
        dim: 3,
        distance: Distance::Dot,
        index: IndexKind::Flat,
        quantization: None,
        full_scan_bytes: 1,
        rebuild_bytes: 2,
        metadata: Default::default(),
        fields: Default::default(),
    }
}

fn point(id: u64) -> Point {
    Point {
        id: PointId::Number(id),
        vector: vec![id as f32, 1.0, -1.0],
        payload: Payload::from(format!("payload {id}").as_bytes()),
    }
}

fn read(path: &Path) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    Store::open(path, &caches(), |_| true, |record| records.push(record)).map(|_| records)
}

fn filled(folder: &Path, points: u64) -> PathBuf {
    let path = path_of(folder, "a").unwrap();
    let store = Store::create(&path, &settings(), &caches()).unwrap();
    let puts: Vec<Change> = (0..points).map(|id| Change::Put(point(id))).collect();
    store.write(puts.iter().map(|put| (put, 7)), None).unwrap();
    path
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 100);
    {
        let (store, found) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
        assert_eq!(found, settings());
        let changes = [Change::Delete(PointId::Number(5)), Change::Put(point(200))];
        store
            .write(changes.iter().map(|change| (change, 9)), None)
            .unwrap();
    }
    let records = read(&path).unwrap();
    assert_eq!(records.len(), 100);
    let last = records.last().unwrap();
    assert_eq!((last.point.id, last.version), (PointId::Number(200), 9));
    assert_eq!(last.point.vector, [200.0, 1.0, -1.0]);
    assert_eq!(&*last.point.payload, b"payload 200");
}

#[test]
fn a_file_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 1);
    let _open = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
    let second = Store::open(&path, &caches(), |_| true, |_| ())
        .err()
        .unwrap()
        .to_string();
    assert!(second.contains("data_dir"), "{second}");
}

#[test]
fn every_name_has_a_file_of_its_own_and_back() {
    for name in [
        "a",
        "Grüße",
        "a.b",
        "..",
        "%61",
        "a%2fb",
        "with space",
        "-_",
    ] {
        let path = path_of(Path::new("data"), name).unwrap();
        assert_eq!(path.parent(), Some(Path::new("data")));
        assert_eq!(name_of(&path).as_deref(), Some(name));
    }
    assert_eq!(path_of(Path::new("data"), &"x".repeat(251)), None);
    assert_eq!(name_of(Path::new("data/%4.redb")), None);
    assert_eq!(
        name_of(Path::new("data/%61.redb")),
        None,
        "no second file for a name"
    );
    assert_eq!(name_of(Path::new("data/notes.txt")), None);
}

/// Whatever is wrong with a file, opening it says so or gives exactly what was written: no panic, no other answer.
#[test]
fn damage_is_reported_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 300);
    let whole = std::fs::read(&path).unwrap();
    let mut reported = 0;
    let mut seed = 1_u64;
    for round in 0..200 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = whole.clone();
        let at = (seed >> 16) as usize % bytes.len();
        match round % 3 {
            0 => bytes[at] ^= 1 << (seed >> 60 & 7),
            1 => bytes.truncate(at),
            _ => {
                let end = bytes.len().min(at + 512);
                bytes[at..end].fill(0xa5);
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match read(&path) {
            Ok(records) => {
                assert_eq!(
                    records.len(),
                    300,
                    "round {round}: damage at {at} lost points in silence"
                );
            }
            Err(error) => {
                reported += 1;
                assert!(error.to_string().contains("a.redb"), "{error}");
            }
        }
    }
    assert!(reported > 60, "only {reported} of 200 were noticed");
}

#[test]
fn a_creation_that_never_finished_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let draft = draft_of(&path_of(folder.path(), "a").unwrap());
    std::fs::write(&draft, b"half").unwrap();
    let others = ["a.new", "chiplet-draft-", "chiplet-draft-0123", "notes"];
    for other in others {
        std::fs::write(folder.path().join(other), b"somebody else's").unwrap();
    }
    remove_drafts(folder.path()).unwrap();
    assert!(!draft.exists());
    for other in others {
        assert!(folder.path().join(other).exists(), "{other}");
    }
}

#[test]
fn a_new_collection_takes_no_files_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_of(folder.path(), "a").unwrap();
    std::fs::write(&path, b"somebody else's").unwrap();
    let error = Store::create(&path, &settings(), &caches()).err().unwrap();
    assert!(matches!(error, StoreError::Write { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    assert!(!draft_of(&path).exists(), "what was made so far is removed");
}

/// On a full disk each write would read the whole file again. It is tried once there is more room.
#[test]
fn a_full_disk_is_not_tried_again_before_there_is_more_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 10);
    let (store, _) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
    let write = |id: u64| store.write([(&Change::Put(point(id)), 9)].into_iter(), None);
    store.flushes.full.store(true, Ordering::Relaxed);
    for id in 20..25 {
        let error = write(id).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }
    assert_eq!(store.flushes.opened.load(Ordering::Relaxed), 1);
    // There is more now.
    store.flushes.full.store(false, Ordering::Relaxed);
    store.file.lock().full_at = Some(0);
    write(30).unwrap();
    write(31).unwrap();
    assert_eq!(store.flushes.opened.load(Ordering::Relaxed), 2);
    drop(store);
    assert_eq!(read(&path).unwrap().len(), 12);
    for (full_at, free, room) in [
        (None, Some(0), true),
        (Some(5), None, true),
        (Some(5), Some(6), false),
        (Some(5), Some(5 + (1 << 20)), true),
        (Some(u64::MAX), Some(u64::MAX - 1), false),
    ] {
        assert_eq!(has_room(full_at, free), room, "{full_at:?}, {free:?}");
    }
}

/// After a flush that failed nothing is acknowledged, and nothing written, until the file is opened anew.
#[test]
fn a_failed_flush_is_the_last_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 10);
    let (store, _) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
    let write = |id: u64| store.write([(&Change::Put(point(id)), 9)].into_iter(), None);
    write(20).unwrap();
    store.flushes.fail.store(true, Ordering::Relaxed);
    let error = write(30).unwrap_err();
    assert!(matches!(error, StoreError::Unflushed { .. }), "{error}");
    // The disk is well again, and it makes no difference.
    store.flushes.fail.store(false, Ordering::Relaxed);
    let before = std::fs::read(&path).unwrap();
    let error = write(40).unwrap_err();
    assert!(error.to_string().contains("restart"), "{error}");
    drop(store);
    assert!(
        std::fs::read(&path).unwrap() == before,
        "not even in closing"
    );
    let ids: Vec<PointId> = read(&path).unwrap().iter().map(|r| r.point.id).collect();
    assert!(ids.contains(&PointId::Number(20)) && !ids.contains(&PointId::Number(40)));
    let (store, _) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
    let put = Change::Put(point(50));
    store.write([(&put, 10)].into_iter(), None).unwrap();
}

#[test]
fn a_creation_on_a_full_disk_says_so_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_of(folder.path(), "a").unwrap();
    let flushes = Arc::new(Flushes::default());
    flushes.full.store(true, Ordering::Relaxed);
    let create = || Store::create_on(Arc::clone(&flushes), &path, &settings(), &caches());
    let error = create().err().unwrap();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    flushes.full.store(false, Ordering::Relaxed);
    create().unwrap();
}

/// What is written to a file that has lost its name would be lost at the next start.
#[test]
fn a_file_that_was_moved_removed_or_replaced_takes_no_writes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&data).unwrap();
    let path = filled(&data, 10);
    let (store, _) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
    let write = |id: u64| store.write([(&Change::Put(point(id)), 9)].into_iter(), None);
    let refused = |id: u64| {
        let error = write(id).unwrap_err();
        assert!(matches!(error, StoreError::Gone { .. }), "{error}");
        assert!(!store.is_in_place());
    };
    write(20).unwrap();
    std::fs::rename(&data, &elsewhere).unwrap();
    refused(21);
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&path, b"another").unwrap();
    refused(22);
    std::fs::remove_dir_all(&data).unwrap();
    // Put back, it is the same file.
    std::fs::rename(&elsewhere, &data).unwrap();
    write(23).unwrap();
    std::fs::remove_file(&path).unwrap();
    refused(24);
}

#[test]
fn a_file_of_a_later_format_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 10);
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        let later = (FORMAT_NOW + 1).to_le_bytes();
        meta.insert(FORMAT, &later[..]).unwrap();
        // Of which nothing here can be read.
        meta.insert(SETTINGS, &b"other"[..]).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    let error = read(&path).err().unwrap();
    let StoreError::Later { format, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*format, FORMAT_NOW + 1);
    assert!(error.to_string().contains("start that version"), "{error}");
}

#[test]
fn an_empty_file_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_of(folder.path(), "a").unwrap();
    std::fs::write(&path, b"").unwrap();
    let error = read(&path).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// A folder in the file's place, and a file that nobody may open: neither says anything of what was written.
#[test]
fn a_file_that_the_system_does_not_open_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_of(folder.path(), "a").unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = read(&path).err().unwrap();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
    for (kind, contents) in [
        (io::ErrorKind::Other, false),
        (io::ErrorKind::StorageFull, false),
        (io::ErrorKind::InvalidData, true),
        (io::ErrorKind::UnexpectedEof, true),
    ] {
        assert_eq!(is_about_contents(&kind.into()), contents, "{kind}");
    }
}

#[test]
fn settings_that_make_no_sense_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    for (name, dim) in [("a", 0), ("b", usize::MAX)] {
        let path = path_of(folder.path(), name).unwrap();
        Store::create(&path, &Settings { dim, ..settings() }, &caches()).unwrap();
        let error = read(&path).err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

const PAGE: usize = 4_096;

/// What a file's records are, in order.
fn content(records: Vec<Record>) -> Vec<(PointId, u64, Vec<u32>)> {
    let bits = |vector: Vec<f32>| vector.into_iter().map(f32::to_bits).collect();
    let record = |r: Record| (r.point.id, r.version, bits(r.point.vector));
    records.into_iter().map(record).collect()
}

/// A page that was not written, or written in another's place, is whole by itself. The file is refused all the same, or
/// gives exactly what was stored.
#[test]
fn pages_that_are_stale_or_in_anothers_place_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path(), 2_000);
    let mut before = std::fs::read(&path).unwrap();
    let mut tried = [0; 2];
    let mut refused = [0; 2];
    for round in 0..6_u64 {
        {
            let (store, _) = Store::open(&path, &caches(), |_| true, |_| ()).unwrap();
            for commit in 0..3 {
                // Some are written anew and some are deleted, here and there.
                let changes: Vec<Change> = (0..40)
                    .map(|i| (round * 331 + commit * 97 + i * 13) % 2_000)
                    .map(|id| match id % 3 {
                        0 => Change::Delete(PointId::Number(id)),
                        _ => Change::Put(point(id)),
                    })
                    .collect();
                let version = 10 + 3 * round + commit;
                store
                    .write(changes.iter().map(|change| (change, version)), None)
                    .unwrap();
            }
        }
        let now = std::fs::read(&path).unwrap();
        let stored = content(read(&path).unwrap());
        let mut check = |kind: usize, page: usize, bytes: &[u8]| {
            let damaged = folder.path().join("b.redb");
            std::fs::write(&damaged, bytes).unwrap();
            tried[kind] += 1;
            match read(&damaged) {
                Ok(records) => assert!(
                    content(records) == stored,
                    "round {round}, kind {kind}: page {page} changed points in silence"
                ),
                Err(error) => {
                    let damage = matches!(error, StoreError::Damaged { .. });
                    assert!(damage, "page {page}: {error}");
                    refused[kind] += 1;
                }
            }
        };
        let same_size = now.len().min(before.len()) / PAGE;
        let changed: Vec<usize> = (1..same_size)
            .filter(|page| {
                let page = page * PAGE..(page + 1) * PAGE;
                before[page.clone()] != now[page]
            })
            .collect();
        for &page in &changed {
            let mut stale = now.clone();
            let at = page * PAGE..(page + 1) * PAGE;
            stale[at.clone()].copy_from_slice(&before[at]);
            check(0, page, &stale);
        }
        for pages in changed.windows(2).step_by(3) {
            let mut misplaced = now.clone();
            let from = pages[0] * PAGE..(pages[0] + 1) * PAGE;
            misplaced.copy_within(from, pages[1] * PAGE);
            check(1, pages[1], &misplaced);
        }
        before = std::fs::read(&path).unwrap();
    }
    println!("{refused:?} of {tried:?} were refused");
    assert!(tried[0] >= 50 && tried[1] >= 20 && refused[0] > 0 && refused[1] > 0);
}
