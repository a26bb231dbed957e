"""A session (`session.py`) with the newest client, and with those whose interpreters `CHIPLET_CLIENTS` names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("python", [sys.executable, *os.environ.get("CHIPLET_CLIENTS", "").split()])
def test_a_session(server, python):
    script = Path(__file__).with_name("session.py")
    session = subprocess.run([python, script, str(server.grpc_port)], capture_output=True, text=True, timeout=300)
    assert session.returncode == 0, session.stderr
    print(session.stdout)
