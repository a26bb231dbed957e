"""The commands, where no cluster is."""

import socket

import pytest
import ray

from chiplet_serve.__main__ import main


def _closed() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("port", [_closed(), 99_999])
def test_nobody_listens(port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for over a minute"))
    assert main(["--address", f"127.0.0.1:{port}", "status"]) == 1
    assert f"no cluster answers at 127.0.0.1:{port}" in capsys.readouterr().err
