"""What can go wrong, by what a caller can do about it."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of chiplet."""


class Overloaded(Error):
    """A queue is full: shed the request, or retry after ``expected_wait``."""

    expected_wait: float | None
    """Seconds that the query would have waited, had it been accepted; ``None`` where that is not known,
    and for a table that takes no searches (``queue_limit=0``)."""

    def __init__(self, message: str, expected_wait: float | None = None) -> None:
        super().__init__(message)
        self.expected_wait = expected_wait


class Expired(Error, TimeoutError):
    """The deadline passed before there was an answer."""


class Closed(Error, RuntimeError):
    """The executor is closed, or was closed before the task began."""


class Forked(Error, RuntimeError):
    """This process is a fork of the one that built the executor, whose threads it does not have."""


class UnknownTable(Error, KeyError):
    """The executor has no table of that name."""

    def __str__(self) -> str:
        # A KeyError shows its argument's repr.
        return str(self.args[0]) if self.args else ""


class NameTaken(Error, ValueError):
    """The executor has a table of that name already."""


class QueryError(Error, ValueError):
    """The query cannot be answered as it is: its vector, or what it asks for."""


class BuildError(Error, ValueError):
    """A table or an executor cannot be built of what was given."""


class FileError(Error, OSError):
    """A file cannot be read or written, or is not what it should be. ``errno`` and ``filename`` are set if the system said so."""

    def __str__(self) -> str:
        # An OSError with a file's name shows its own text.
        return str(self.args[0]) if self.args else ""


class MissingFile(FileError, FileNotFoundError):
    """There is no such file."""


class Failed(Error, RuntimeError):
    """A search or a callable failed for a reason that is not the caller's."""


class TopologyWarning(UserWarning):
    """What chiplet could not find out about the machine, or does not believe."""
