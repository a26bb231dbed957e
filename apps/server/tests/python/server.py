"""Runs the real server for a test: on free loopback ports, with a data folder and settings of the test's choice.

`CHIPLET_GRPC_SERVER` names the binary. Without it a test that needs the server fails; none is left out silently."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

# Bounds for what takes milliseconds on an idle machine; they only end tests that would hang.
START_SECONDS = 120
STOP_SECONDS = 30
LOG_LINES = 2_000
TAIL_LINES = 40

ADDRESSES = re.compile(r"gRPC on 127\.0\.0\.1:(\d+), admin page on http://127\.0\.0\.1:(\d+)/")
READY = re.compile(r"server: ready ")


def binary():
    path = os.environ.get("CHIPLET_GRPC_SERVER")
    if not path:
        raise RuntimeError("CHIPLET_GRPC_SERVER is not set; it names the chiplet-server binary to test")
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"CHIPLET_GRPC_SERVER={path} cannot be run")
    return path


def environment(data_dir, settings):
    """The inherited environment, but with no settings other than the test's own.

    `limits__batch=4` is the setting `limits.batch`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHIPLET_")}
    ours = {"grpc_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0", "data_dir": data_dir, **settings}
    return kept | {f"CHIPLET_{name.upper()}": str(value) for name, value in ours.items()}


class Server:
    """One process of the server, as soon as it is `ready`, or else as it has begun. `log` holds the last lines it wrote."""

    def __init__(self, data_dir, ready=True, **settings):
        self.data_dir = data_dir
        self.log = deque(maxlen=LOG_LINES)
        self._clients = []
        self._written = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [binary()],
            env=environment(data_dir, settings),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Python ignores SIGXFSZ, and so the server does too: a file that meets its limit is a write that fails, as on a
            # full disk (`limit_files`).
            restore_signals=False,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            self.grpc_port, self.admin_port = map(int, self.logged(ADDRESSES).groups())
            if ready:
                self.logged(READY)
                # Collections that are not served are told after that.
                status, body = self.get("/readyz")
                assert status == 200 and body.startswith("ready\n"), body
        except BaseException:
            self.kill()
            self.show_log()
            raise

    def _read_log(self):
        for line in self._process.stderr:
            with self._written:
                self.log.append(line.rstrip("\n"))
                self._written.notify_all()
        with self._written:
            self._ended = True
            self._written.notify_all()

    def logged(self, pattern, within=START_SECONDS):
        """Waits until the server has written a line in which `pattern` is found, and returns the match."""
        pattern = re.compile(pattern)

        def match():
            return next(filter(None, map(pattern.search, self.log)), None)

        with self._written:
            self._written.wait_for(lambda: match() or self._ended, timeout=within)
            found = match()
        assert found, f"the server {'ended before it' if self._ended else 'never'} logged {pattern.pattern!r}"
        return found

    @property
    def admin_url(self):
        return f"http://127.0.0.1:{self.admin_port}"

    def get(self, path):
        """Status and text of a path of the admin port."""
        try:
            with urllib.request.urlopen(self.admin_url + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def metrics(self):
        """The metrics as a scraper sees them: {family: {sample's name: {labels: value}}}."""
        status, text = self.get("/metrics")
        assert status == 200 and text.endswith("# EOF\n")
        found = {}
        for family in text_string_to_metric_families(text):
            samples = found.setdefault(family.name, {})
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                assert labels not in samples.setdefault(sample.name, {}), f"{sample} twice"
                samples[sample.name][labels] = sample.value
        return found

    def client(self, **options):
        """A new client with a connection of its own, closed at the end of the block that the server runs in.

        What a client sends by REST goes to the admin port, which has no such path, and to nobody else's server."""
        settings = {"prefer_grpc": True, "https": False, "timeout": 60, "check_compatibility": False,
                    "grpc_options": {"grpc.enable_http_proxy": 0}, **options}
        client = QdrantClient(host="127.0.0.1", port=self.admin_port, grpc_port=self.grpc_port, **settings)
        self._clients.append(client)
        return client

    def limit_files(self, size):
        """From now on no file of the server may grow beyond `size` bytes; `None` lifts that."""
        endless = resource.RLIM_INFINITY
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (endless if size is None else size, endless))

    @property
    def running(self):
        return self._process.poll() is None

    def stop(self):
        """SIGTERM, as an orchestrator would; the server has to end by itself, and in good order."""
        self.terminate()
        self.wait()

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def wait(self):
        """Until the server has ended after SIGTERM."""
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server still ran {STOP_SECONDS} s after SIGTERM") from None
        self._reader.join(STOP_SECONDS)
        assert code == 0, f"the server ended with {code} after SIGTERM"

    def kill(self):
        """SIGKILL: no chance to finish anything."""
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)

    def close_clients(self):
        for client in self._clients:
            client.close()
        self._clients.clear()

    def log_tail(self):
        with self._written:
            return "\n".join(list(self.log)[-TAIL_LINES:])

    def show_log(self):
        print("--- the end of the server's log ---", self.log_tail(), sep="\n", file=sys.stderr)


@contextmanager
def running(data_dir, **settings):
    """A server that is ready, and that has to end in good order unless the block has ended it."""
    server = Server(data_dir, **settings)
    try:
        yield server
        if server.running:
            server.stop()
    except BaseException:
        server.show_log()
        raise
    finally:
        if server.running:
            server.kill()
        server.close_clients()


def eventually(check, within=300, every=0.02):
    """Asks until `check` returns something true, and returns it; for what the server reports only when asked. The bound
    is for index builds, whose threads have the lowest priority and get next to nothing beside other work."""
    deadline = time.monotonic() + within
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not so within {within} s; the last answer was {answer!r}"
        time.sleep(every)


def flood(client, name, vector, at_once=64):
    """Asks so much at once that a queue of one overflows; returns the refusals."""

    def ask(_):
        try:
            client.query_points(name, vector, search_params=models.SearchParams(exact=True))
            return None
        except ResourceExhaustedResponse as refusal:
            return refusal

    with ThreadPoolExecutor(at_once) as pool:
        return [refusal for refusal in pool.map(ask, range(8 * at_once)) if refusal]
