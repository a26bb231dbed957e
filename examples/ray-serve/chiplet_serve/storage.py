"""Collections on shared storage: what a version consists of, and which one serves.

```text
ROOT/songs/LIVE                       the version that serves, and the one before it
ROOT/songs/v000002/manifest.json      dimension, metric, shards; written last
ROOT/songs/v000002/shard-00000.chiplet
ROOT/building-.../songs/              a build that has not ended; nobody reads it
```

A version never changes once its folder has its name. All files are written beside their place and renamed, so that a
reader sees the whole of a file or none, and a build that fails leaves nothing that could be taken for a version.
"""

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .errors import StorageError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_VERSION = re.compile(r"v([0-9]{6,})")
_BUILDING = "building-"
#: Of a collection.
MOST_SHARDS = 10_000
MOST_COPIES = 100
#: Of rows and bytes: more is damage, and arithmetic with it may overflow.
_MOST = 2**60


class Shard(BaseModel):
    """One table file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Within the version's folder: no "/", and no "." in front.
    file: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")
    rows: int = Field(ge=1, le=_MOST)
    bytes: int = Field(ge=1, le=_MOST)


class Manifest(BaseModel):
    """A version of a collection."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    collection: str
    version: int = Field(ge=1)
    dim: int = Field(ge=1)
    metric: str = Field(pattern="^(l2|cosine|ip)$")
    #: Nodes that hold each shard at least, as far as there are nodes.
    copies: int = Field(ge=1, le=MOST_COPIES)
    shards: list[Shard] = Field(min_length=1, max_length=MOST_SHARDS)
    #: Seconds since 1970, for people.
    built: float = 0.0

    @field_validator("shards")
    @classmethod
    def _each_file_once(cls, shards: list[Shard]) -> list[Shard]:
        if len({shard.file for shard in shards}) < len(shards):
            raise ValueError("a file stands twice: its rows would be found twice")
        return shards

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def key(self, shard: int) -> str:
        """Under this name the shard is a table of an executor."""
        return key(self.collection, self.version, shard)


class Live(BaseModel):
    """What a collection's file LIVE says."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: int = Field(ge=1)
    previous: int | None = Field(ge=1)


def key(collection: str, version: int, shard: int) -> str:
    """`songs@2/0`: shard 0 of version 2 of songs."""
    return f"{collection}@{version}/{shard}"


def parts(key: str) -> tuple[str, int, int]:
    """The collection, version and shard of a `key`."""
    collection, _, rest = key.rpartition("@")
    version, _, shard = rest.partition("/")
    return collection, int(version), int(shard)


def checked(collection: str) -> str:
    """The name, if it can be a folder's: ValueError otherwise."""
    if not _is_name(collection):
        raise ValueError(
            f"{collection!r} is no name of a collection: use letters, digits, '_', '-' and '.', at most 100, and no '.' or "
            "'-' in front"
        )
    return collection


def _is_name(collection: str) -> bool:
    return (
        isinstance(collection, str) and NAME.fullmatch(collection) is not None and not collection.startswith(_BUILDING)
    )


class Storage:
    """A folder that each node mounts."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def collections(self) -> list[str]:
        """The collections that have a version which serves, by name."""
        self._must_be_there()
        # Others' folders, such as lost+found, are not looked into: perhaps they must not be.
        names = (entry.name for entry in self.root.iterdir() if _is_name(entry.name))
        return sorted(name for name in names if self._serves(name))

    def versions(self, collection: str) -> list[int]:
        """The versions that are whole, the oldest first."""
        folder = self.root / checked(collection)
        self._must_be_there()
        if not folder.is_dir():
            return []
        return [
            number
            for number in self._numbers(collection)
            if (self._folder(collection, number) / "manifest.json").is_file()
        ]

    def manifest(self, collection: str, version: int) -> Manifest:
        folder = self._folder(collection, version)
        try:
            manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
        except FileNotFoundError:
            have = ", ".join(map(str, self.versions(collection))) or "none"
            raise StorageError(f"{collection} has no version {version}; it has {have}") from None
        except (OSError, ValueError) as why:
            raise StorageError(f"{folder / 'manifest.json'} cannot be read: {why}") from None
        if (manifest.collection, manifest.version) != (collection, version):
            raise StorageError(f"{folder / 'manifest.json'} is that of {manifest.collection} {manifest.version}")
        return manifest

    def shard(self, manifest: Manifest, shard: int) -> Path:
        return self._folder(manifest.collection, manifest.version) / manifest.shards[shard].file

    def live(self, collection: str) -> tuple[int, int | None]:
        """The version that serves, and the one that served before it."""
        path = self.root / checked(collection) / "LIVE"
        try:
            said = Live.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise StorageError(f"{collection} has no version that serves") from None
        except (OSError, ValueError) as why:
            raise StorageError(f"{path} cannot be read: {why}") from None
        return said.version, said.previous

    def set_live(self, collection: str, version: int, previous: int | None) -> None:
        path = self.root / checked(collection) / "LIVE"
        _write(path, Live(version=version, previous=previous).model_dump_json().encode())

    @contextlib.contextmanager
    def building(self) -> Iterator[Path]:
        """A folder to write into. It is removed in the end, with all that `finish` has not made a version of."""
        self.root.mkdir(parents=True, exist_ok=True)
        folder = self.root / f"{_BUILDING}{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def finish(self, folder: Path, collection: str, **fields: Any) -> Manifest:
        """Gives a folder of shards the next version's number and name. Two builds that end at once get two numbers."""
        (self.root / checked(collection)).mkdir(exist_ok=True)
        while True:
            # The next of all, whole or not: what is left of a damaged version keeps its number.
            version = max(self._numbers(collection), default=0) + 1
            manifest = Manifest(collection=collection, version=version, built=time.time(), **fields)
            _write(folder / "manifest.json", manifest.model_dump_json(indent=1).encode())
            try:
                # Fails if the name is taken: a folder with files in it is not replaced.
                folder.rename(self._folder(collection, version))
            except OSError:
                if not self._folder(collection, version).exists():
                    raise
                continue
            return manifest

    def finish_all(self, folder: Path, collections: dict[str, dict[str, Any]]) -> list[Manifest]:
        """`finish` for the folder of each collection in `folder`, by name: of all, or where one fails of none."""
        finished: list[Manifest] = []
        try:
            for name in sorted(collections):
                finished.append(self.finish(folder / name, name, **collections[name]))
        except BaseException:
            # Nobody has been told of these versions. Without their names they go with the folder of the build.
            for each in finished:
                self._folder(each.collection, each.version).rename(folder / each.collection)
            raise
        return finished

    def _serves(self, collection: str) -> bool:
        try:
            return (self.root / collection / "LIVE").is_file()
        except OSError:
            # It may not be looked into, or the disk fails. `live` says so, of this one alone.
            return True

    def _must_be_there(self) -> None:
        if not self.root.is_dir():
            raise StorageError(f"{self.root} is no folder: mount the shared storage there, or name another with root=")

    def _numbers(self, collection: str) -> list[int]:
        """Those that stand in the collection's folder, whole or not, the lowest first."""
        found = (_VERSION.fullmatch(entry.name) for entry in (self.root / collection).iterdir())
        numbers = {int(match[1]) for match in found if match and int(match[1]) > 0}
        return sorted(number for number in numbers if self._folder(collection, number).exists())

    def _folder(self, collection: str, version: int) -> Path:
        return self.root / checked(collection) / f"v{version:06d}"


def _write(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as why:
        # Where the storage is full, Python does not say which.
        raise OSError(why.errno, why.strerror, str(path)) from None
    finally:
        beside.unlink(missing_ok=True)
