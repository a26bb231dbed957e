"""Errors travel between processes, and say the same by HTTP and gRPC as the table in `errors` says."""

import pickle
import re

import grpc
import pytest

from chiplet_serve import errors
from chiplet_serve.batch import Lost, NoHolder

KINDS = [
    errors.UnknownCollection,
    errors.BadQuery,
    errors.DeadlinePassed,
    errors.Overloaded,
    errors.ShardsMissing,
    errors.Failed,
]


@pytest.mark.parametrize("kind", [*KINDS, NoHolder])
@pytest.mark.parametrize("retry_after", [None, 0.25])
def test_an_error_arrives_as_it_left(kind: type[errors.SearchError], retry_after: float | None) -> None:
    there = pickle.loads(pickle.dumps(kind("why 'so'", retry_after)))
    assert (type(there), str(there), there.retry_after) == (kind, "why 'so'", retry_after)
    said = {"code": kind.code, "message": "why 'so'"} | ({} if retry_after is None else {"retry_after_s": retry_after})
    assert there.as_json() == {"error": said}


@pytest.mark.parametrize("kind", [Lost, errors.StorageError, errors.PublishError])
def test_others_do_too(kind: type[Exception]) -> None:
    there = pickle.loads(pickle.dumps(kind("why")))
    assert (type(there), str(there)) == (kind, "why")


def test_the_table_is_true() -> None:
    rows = re.findall(r"\| `(\w+)` \| (\d+) \| (\w+) \|", errors.__doc__ or "")
    assert rows == [(kind.__name__, str(kind.http), kind.grpc) for kind in KINDS]
    assert len({kind.code for kind in KINDS}) == len(KINDS)
    assert all(hasattr(grpc.StatusCode, kind.grpc) for kind in KINDS)
