"""A cluster whose users make mistakes, and whose parts fail at the wrong moment."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import World


def chiplet_serve(world: World, *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it says on standard error."""
    env = {**os.environ, "RAY_ADDRESS": world.cluster.address}
    done = subprocess.run(
        [sys.executable, "-m", "chiplet_serve", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).resolve().parent.parent,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["publish", "nothing"], "nothing has no version that is whole; build one first"),
        (
            ["versions", "/nowhere", "x"],
            "/nowhere is no folder: mount the shared storage there, or name another with root=",
        ),
        (["--application", "nope", "status"], "no application 'nope' runs there; `serve deploy serve.yaml` starts it"),
    ],
)
def test_a_command_that_fails_says_why_in_one_line(world: World, words: list[str], says: str) -> None:
    code, said = chiplet_serve(world, *words)
    assert code == 1
    assert [line for line in said.splitlines() if line.startswith("chiplet_serve:")] == [f"chiplet_serve: {says}"]
    assert "Traceback" not in said


def test_a_client_that_never_ends_its_body_is_sent_away(world: World) -> None:
    """It has one of the ingress's places, which searches wait for."""
    with socket.create_connection(("127.0.0.1", world.cluster.http), timeout=60) as slow:
        slow.sendall(
            b"POST /collections/words-00/search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 1000\r\n\r\n{"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 400 ")
