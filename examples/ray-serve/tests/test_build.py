"""What a build refuses before it starts Ray's tasks, and what its tasks refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chiplet_serve.build import _cause, _draw_shards, build
from chiplet_serve.errors import StorageError


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros(5, np.float32),
        np.zeros((2, 3, 4), np.float32),
        np.float32(1),
        np.zeros((2, 3), complex),
        np.array([["1", "2"]]),
    ],
    ids=["1d", "3d", "0d", "complex", "strings"],
)
def test_a_npy_file_that_holds_no_rows_of_numbers(tmp_path: Path, rows: Any) -> None:
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(StorageError, match=r"rows of numbers are needed, \[n\]\[dim\]"):
        build(str(tmp_path / "root"), str(tmp_path / "rows.npy"), collection="c")
    assert not any((tmp_path / "root").glob("*"))


def test_a_npy_file_that_is_empty(tmp_path: Path) -> None:
    (tmp_path / "rows.npy").touch()
    with pytest.raises(StorageError, match="cannot be read"):
        build(str(tmp_path / "root"), str(tmp_path / "rows.npy"), collection="c")


@pytest.mark.parametrize("ids", [np.array([1, 2**63], np.uint64), np.array([-1, 2]), np.array([1.0, np.nan])])
def test_ids_that_no_answer_could_name(ids: Any) -> None:
    """Negative ones are fillers of answers. 2^63 would become one."""
    with pytest.raises(ValueError, match="ids must be integers"):
        _draw_shards({"id": ids, "vector": np.zeros((2, 4))}, shards=2, collection="c")


def test_the_highest_id_is_one() -> None:
    drawn = _draw_shards({"id": np.array([0, 2**63 - 1]), "vector": np.zeros((2, 4))}, shards=2, collection="c")
    assert len(drawn["shard"]) == 2


@pytest.mark.parametrize("step", [1, 3, 64, 1000, 2**22, 2**32, 2**34, 2**40, 2**53])
@pytest.mark.parametrize("shards", [2, 3, 8])
def test_ids_with_a_common_step_are_spread_evenly(step: int, shards: int) -> None:
    drawn = _draw_shards({"id": np.arange(1000) * step}, shards=shards, collection="c")["shard"]
    assert np.bincount(drawn, minlength=shards).min() > 0.5 * 1000 / shards


def test_the_cause_is_found_in_a_wrapped_remote_stack() -> None:
    """As Ray Data 2.60 reports what a batch's function raises."""
    why = RuntimeError(
        'ray::MapBatches()\\n  File "build.py", line 1, in f\\nsome.module.OddError: 3: no good\\n\\n'.replace(
            "\\n", "\n"
        )
        + "The above exception was the direct cause of the following exception:\n\n"
        + "ray.exceptions.UserCodeException: UDF failed to process a data block.\nTo change retry attempts, configure it."
    )
    assert _cause(why) == "OddError: 3: no good"


def test_the_cause_is_told_from_what_ray_data_adds_to_it() -> None:
    advice = "To change retry attempts, backoff, or which errors are retried, configure this."
    applied = "Failed to apply UDF transform after 1/1 attempts (total backoff 0.0s)."
    assert _cause(ValueError(f"id 1 stands twice\n{applied}\n{advice}")) == "ValueError: id 1 stands twice"
    read = "Failed to read fragment /in/a.parquet after 1/10 attempts (total backoff 0.0s)."
    why = OSError(f"Corrupt data.\n{read}\n{advice}\n{applied}\n{advice}")
    assert _cause(why) == f"OSError: Corrupt data. {read}"
