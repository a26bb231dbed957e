"""Versions on shared storage: whole or not there, and no damage goes further than its own collection."""

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from chiplet_serve.errors import StorageError
from chiplet_serve.storage import Manifest, Shard, Storage, checked, key


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def fields(*names: str) -> dict[str, object]:
    shards = [Shard(file=name, rows=3, bytes=len(name)) for name in names or ("a.chiplet",)]
    return {"dim": 4, "metric": "l2", "copies": 2, "shards": shards}


def build(storage: Storage, collection: str = "songs", **change: object) -> Manifest:
    with storage.building() as folder:
        (folder / "a.chiplet").write_bytes(b"a.chiplet")
        return storage.finish(folder, collection, **(fields() | change))


def entries(storage: Storage, collection: str = "songs") -> list[str]:
    return sorted(entry.name for entry in (storage.root / collection).iterdir())


def test_versions_are_numbered_from_one_and_read_as_they_were_written(storage: Storage) -> None:
    assert storage.versions("songs") == []
    built = [build(storage) for _ in range(3)]
    assert [each.version for each in built] == storage.versions("songs") == [1, 2, 3]
    assert [storage.manifest("songs", number) for number in (1, 2, 3)] == built
    assert storage.shard(built[1], 0).read_bytes() == b"a.chiplet"
    assert built[1].key(0) == key("songs", 2, 0) == "songs@2/0"
    assert built[1].rows == 3


def test_numbers_go_on_after_a_million(storage: Storage) -> None:
    build(storage)
    (storage.root / "songs" / "v000001").rename(storage.root / "songs" / "v999999")
    assert build(storage).version == 1_000_000
    assert storage.versions("songs") == [999_999, 1_000_000]


def test_nothing_of_a_build_is_seen_before_its_end_or_after_it_fails(storage: Storage) -> None:
    with pytest.raises(RuntimeError, match="half-way"), storage.building() as folder:
        (folder / "a.chiplet").write_bytes(b"half")
        (folder / "manifest.json").write_text("{}")
        assert storage.versions("songs") == storage.collections() == []
        raise RuntimeError("half-way")
    assert list(storage.root.iterdir()) == []


@pytest.mark.parametrize("change", [{"dim": 0}, {"metric": "l3"}, {"copies": 0}, {"shards": []}, {"unknown": 1}])
def test_a_build_with_fields_out_of_range_leaves_nothing(storage: Storage, change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        build(storage, **change)
    assert entries(storage) == []


def test_of_collections_built_together_all_get_a_version_or_none(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(storage, "a")
    finish = storage.finish

    def full(folder: Path, collection: str, **given: object) -> Manifest:
        if collection == "c":
            raise OSError(errno.ENOSPC, "No space left on device")
        return finish(folder, collection, **given)

    def both() -> list[Manifest]:
        with storage.building() as folder:
            for name in "abc":
                (folder / name).mkdir()
                (folder / name / "a.chiplet").write_bytes(b"a.chiplet")
            return storage.finish_all(folder, dict.fromkeys("cba", fields()))

    with monkeypatch.context() as patch:
        patch.setattr(storage, "finish", full)
        with pytest.raises(OSError, match="No space"):
            both()
    assert [storage.versions(name) for name in "abc"] == [[1], [], []]
    assert not list(storage.root.glob("building-*"))
    assert [(each.collection, each.version) for each in both()] == [("a", 2), ("b", 1), ("c", 1)]


def test_builds_that_end_at_once_get_a_number_each(storage: Storage) -> None:
    together = threading.Barrier(8)
    numbers: list[int] = []

    def one() -> None:
        with storage.building() as folder:
            (folder / "a.chiplet").write_bytes(b"a.chiplet")
            together.wait(30)
            numbers.append(storage.finish(folder, "songs", **fields()).version)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(numbers) == list(range(1, 9))
    assert entries(storage) == [f"v{number:06d}" for number in range(1, 9)]
    assert all(storage.manifest("songs", number).version == number for number in numbers)


def test_what_is_left_of_a_version_keeps_its_number(storage: Storage) -> None:
    build(storage)
    (storage.root / "songs" / "v000001" / "manifest.json").unlink()
    assert storage.versions("songs") == []
    assert build(storage).version == 2
    (storage.root / "songs" / "v000003").write_text("a file in the way")
    assert build(storage).version == 4


def test_other_names_are_no_versions(storage: Storage) -> None:
    build(storage)
    for name in ("v000000", "v0000002", "v٠٠٠٠٠٣", "v1", "w000004", "v000005.old"):
        (storage.root / "songs" / name).mkdir()
        (storage.root / "songs" / name / "manifest.json").write_text("{}")
    assert storage.versions("songs") == [1]
    assert build(storage).version == 2


def test_live_is_what_was_set(storage: Storage) -> None:
    build(storage)
    with pytest.raises(StorageError, match="no version that serves"):
        storage.live("songs")
    assert storage.collections() == []
    storage.set_live("songs", 1, None)
    assert storage.live("songs") == (1, None)
    storage.set_live("songs", 2, 1)
    assert storage.live("songs") == (2, 1)
    assert storage.collections() == ["songs"]
    assert entries(storage) == ["LIVE", "v000001"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"2", b"null", b'"x"', b"{}", b'{"version": 1}', b'{"previous": 1}',
        b'{"version": null, "previous": null}', b'{"version": "1", "previous": null}',
        b'{"version": 1.5, "previous": null}', b'{"version": true, "previous": null}',
        b'{"version": Infinity, "previous": null}', b'{"version": 1e400, "previous": null}',
        b'{"version": 0, "previous": null}', b'{"version": 2, "previous": -1}', b'{"version": 1, "previous": []}',
        b"[" * 100_000,
    ],
    ids=lambda content: content[:30].decode(errors="replace"),
)  # fmt: skip
def test_a_damaged_live_is_a_storage_error(storage: Storage, content: bytes) -> None:
    build(storage)
    (storage.root / "songs" / "LIVE").write_bytes(content)
    with pytest.raises(StorageError, match="LIVE cannot be read"):
        storage.live("songs")


def test_a_live_that_is_a_folder_is_not_served(storage: Storage) -> None:
    (storage.root / "songs" / "LIVE").mkdir(parents=True)
    assert storage.collections() == []
    with pytest.raises(StorageError, match="cannot be read"):
        storage.live("songs")


DAMAGE: list[tuple[str, object]] = [
    ("collection", None), ("collection", "other"), ("collection", 7),
    ("version", None), ("version", 2), ("version", 0), ("version", "x"),
    ("dim", None), ("dim", 0), ("dim", -4), ("dim", "four"), ("dim", 4.5),
    ("metric", None), ("metric", ""), ("metric", "L2"), ("metric", "l2\n"), ("metric", ["l2"]),
    ("copies", None), ("copies", 0), ("copies", 101),
    ("shards", None), ("shards", []), ("shards", {}), ("shards", [{}]), ("shards", ["a.chiplet"]),
    ("shards", [{"file": "a.chiplet", "rows": 0, "bytes": 9}]),
    ("shards", [{"file": "a.chiplet", "rows": 3, "bytes": 0}]),
    ("shards", [{"file": "a.chiplet", "rows": 3, "bytes": 10**400}]),
    ("shards", [{"file": "a.chiplet", "rows": 10**400, "bytes": 9}]),
    ("shards", [{"file": "a.chiplet", "rows": 3, "bytes": 9, "more": 1}]),
    ("shards", [{"file": "a.chiplet", "rows": 3, "bytes": 9}] * 2),
    ("built", "yesterday"), ("more", 1),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), DAMAGE, ids=lambda each: repr(each)[:40])
def test_a_manifest_damaged_in_a_field_is_a_storage_error(storage: Storage, field: str, value: object) -> None:
    build(storage)
    path = storage.root / "songs" / "v000001" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(StorageError, match="manifest.json"):
        storage.manifest("songs", 1)


@pytest.mark.parametrize("field", ["collection", "version", "dim", "metric", "copies", "shards"])
def test_a_manifest_without_a_field_is_a_storage_error(storage: Storage, field: str) -> None:
    build(storage)
    path = storage.root / "songs" / "v000001" / "manifest.json"
    said = json.loads(path.read_text())
    del said[field]
    path.write_text(json.dumps(said))
    with pytest.raises(StorageError, match="cannot be read"):
        storage.manifest("songs", 1)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\x00", b"\xff\xff", b"[" * 100_000, b"null"], ids=lambda c: repr(c[:8])
)
def test_a_manifest_that_is_no_json_is_a_storage_error(storage: Storage, content: bytes) -> None:
    build(storage)
    (storage.root / "songs" / "v000001" / "manifest.json").write_bytes(content)
    with pytest.raises(StorageError, match="cannot be read"):
        storage.manifest("songs", 1)


def test_a_manifest_cut_at_any_byte_is_a_storage_error(storage: Storage) -> None:
    build(storage)
    path = storage.root / "songs" / "v000001" / "manifest.json"
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(StorageError):
            storage.manifest("songs", 1)


@pytest.mark.parametrize("file", ["../a", "..", ".", "/etc/passwd", "", "a/b", "a\\b", "a\n", "a\x00", ".a", "ä"])
def test_a_shard_stays_in_its_folder(storage: Storage, file: str) -> None:
    build(storage)
    path = storage.root / "songs" / "v000001" / "manifest.json"
    path.write_text(path.read_text().replace('"a.chiplet"', json.dumps(file)))
    with pytest.raises(StorageError, match="cannot be read"):
        storage.manifest("songs", 1)


@pytest.mark.parametrize("version", [2, 0, -1, 10**30, 10**300])
def test_a_version_that_is_not_there_is_named_with_those_that_are(storage: Storage, version: int) -> None:
    with pytest.raises(StorageError, match="none|cannot be read"):
        storage.manifest("songs", version)
    build(storage)
    with pytest.raises(StorageError, match="it has 1$|cannot be read"):
        storage.manifest("songs", version)


HOSTILE = [
    "../x",
    "",
    "x" * 101,
    "x" * 200,
    "building-x",
    ".",
    "..",
    ".x",
    "-x",
    "a/b",
    "a\x00b",
    "a\n",
    "ä",
    "a b",
    "songs@1",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_touch_nothing(tmp_path: Path, name: str) -> None:
    storage = Storage(tmp_path / "root")
    storage.root.mkdir()
    for use in (
        lambda: checked(name),
        lambda: storage.versions(name),
        lambda: storage.manifest(name, 1),
        lambda: storage.live(name),
        lambda: storage.set_live(name, 1, None),
        lambda: storage.finish(storage.root, name, **fields()),
    ):
        with pytest.raises(ValueError, match="no name of a collection"):
            use()
    assert list(tmp_path.rglob("*")) == [storage.root]


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "_x", "v000001", "LIVE", "x" * 100])
def test_ordinary_names_work(storage: Storage, name: str) -> None:
    assert checked(name) == name
    build(storage, name)
    storage.set_live(name, 1, None)
    assert storage.collections() == [name]


def test_folders_of_others_are_no_collections(storage: Storage) -> None:
    build(storage)
    storage.set_live("songs", 1, None)
    for name in ("lost+found", ".snapshot", "my songs", "building-x", "empty"):
        (storage.root / name).mkdir()
    for name in ("lost+found", ".snapshot", "my songs", "building-x"):
        (storage.root / name / "LIVE").write_text("{}")
    (storage.root / "file").write_text("")
    assert storage.collections() == ["songs"]


def test_a_folder_that_may_not_be_looked_into_hides_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those who are not root see a folder that root alone may read."""
    build(storage)
    storage.set_live("songs", 1, None)
    (storage.root / "private").mkdir()
    stat = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if path.parent.name == "private":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refused)
        patch.setattr(Path, "read_bytes", lambda path: path.stat() and path.open("rb").read())
        assert storage.collections() == ["private", "songs"]
        with pytest.raises(StorageError, match="private/LIVE cannot be read: .*Permission denied"):
            storage.live("private")
        assert storage.live("songs") == (1, None)


def test_storage_that_is_not_mounted_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="mount the shared storage"):
        Storage(tmp_path / "nowhere").collections()


def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(storage)
    storage.set_live("songs", 1, None)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left: '.*/songs/LIVE'"):
        storage.set_live("songs", 2, 1)
    with pytest.raises(OSError, match="no space left: '.*/manifest.json'"):
        build(storage)
    assert storage.live("songs") == (1, None)
    assert entries(storage) == ["LIVE", "v000001"]
