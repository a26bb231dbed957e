"""The commands, where no cluster is."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.serve.exceptions import DeploymentUnavailableError, RayServeException

from chiplet_serve import __main__ as commands
from chiplet_serve.__main__ import main
from chiplet_serve.errors import PublishError


def _closed() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("port", [_closed(), 99_999])
def test_nobody_listens(port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for over a minute"))
    assert main(["--address", f"127.0.0.1:{port}", "status"]) == 1
    assert f"no cluster answers at 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: None)


@pytest.mark.parametrize(
    "why", [RayServeException("gone"), DeploymentUnavailableError("gone"), ray.exceptions.RayActorError()], ids=repr
)
@pytest.mark.usefixtures("connected")
def test_an_application_that_goes_away_is_said_in_a_line(
    why: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_map(*_: Any, **__: Any) -> None:
        raise why

    monkeypatch.setattr(commands, "ask_map", ask_map)
    assert main(["status"]) == 1
    assert "; ask again, and look at" in capsys.readouterr().err


@pytest.mark.usefixtures("connected")
def test_of_many_that_are_built_it_is_said_which_serve(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_map(method: str, collection: str, version: int, *_: Any, **__: Any) -> dict[str, Any]:
        if collection == "b":
            raise PublishError("n1 cannot load b@7/0")
        return {"collection": collection, "version": version}

    monkeypatch.setattr(commands, "ask_map", ask_map)
    built = [SimpleNamespace(collection=name, version=7) for name in "abc"]
    monkeypatch.setattr(commands, "build", lambda *_, **__: built)
    assert main(["build", "root", "rows", "--collection-column", "kind", "--publish"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "chiplet_serve: built and not published: b 7",
        "chiplet_serve: built and not published: c 7",
        "chiplet_serve: published: a 7",
        "chiplet_serve: n1 cannot load b@7/0",
    ]
