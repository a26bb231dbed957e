"""What can go wrong with a search, and how HTTP and gRPC say it. Each error is one line of this table:

| error | HTTP | gRPC | then |
| --- | --- | --- | --- |
| `UnknownCollection` | 404 | NOT_FOUND | mend the name |
| `BadQuery` | 400 | INVALID_ARGUMENT | mend the query |
| `DeadlinePassed` | 504 | DEADLINE_EXCEEDED | allow more time |
| `Overloaded` | 429 | RESOURCE_EXHAUSTED | come back after `retry_after` seconds |
| `ShardsMissing` | 503 | UNAVAILABLE | come back, or allow a partial answer |
| `Failed` | 500 | INTERNAL | read the log of the node that is named |
"""


class SearchError(Exception):
    """A search that was not answered. `retry_after` is in seconds; None says that coming back does not help."""

    code = "failed"
    http = 500
    grpc = "INTERNAL"
    retry_after: float | None = None

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[type, tuple[str, float | None]]:
        return type(self), (str(self), self.retry_after)

    @classmethod
    def of_code(cls, code: str) -> type["SearchError"]:
        """The error with that code; `Failed` for one that is not known."""
        return next((each for each in SearchError.__subclasses__() if each.code == code), Failed)

    def as_json(self) -> dict[str, object]:
        """The body of an HTTP response."""
        said: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.retry_after is not None:
            said["retry_after_s"] = self.retry_after
        return {"error": said}


class UnknownCollection(SearchError):
    code, http, grpc = "unknown_collection", 404, "NOT_FOUND"


class BadQuery(SearchError):
    code, http, grpc = "bad_query", 400, "INVALID_ARGUMENT"


class DeadlinePassed(SearchError):
    code, http, grpc = "deadline_passed", 504, "DEADLINE_EXCEEDED"


class Overloaded(SearchError):
    code, http, grpc = "overloaded", 429, "RESOURCE_EXHAUSTED"


class ShardsMissing(SearchError):
    code, http, grpc = "shards_missing", 503, "UNAVAILABLE"


class Failed(SearchError):
    pass


class StorageError(Exception):
    """The shared storage does not hold what it should: no such version, a damaged manifest, a shard that is not there."""


class PublishError(Exception):
    """A version that could not be loaded everywhere. The one before it goes on serving."""
