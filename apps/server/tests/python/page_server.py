"""Serves the page's files and a made-up state, as the admin port does: same paths, same headers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "src" / "admin" / "page"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:"


class PageServer:
    """`state` is what the next request is answered with; `asked` counts the requests for it."""

    def __init__(self, state):
        self.state = state
        self.status = 200
        self.asked = 0
        # Cleared: requests for the state are taken and not answered.
        self.answering = threading.Event()
        self.answering.set()
        self._port = 0
        self.start()

    def start(self):
        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), _handler_of(self))
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self):
        """From here on connections are refused; `start` takes the same port again."""
        self.answering.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}/"


def _handler_of(server):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/api/state":
                server.asked += 1
                server.answering.wait(timeout=60)
                self._answer(server.status, "application/json", json.dumps(server.state).encode())
            elif self.path in FILES:
                file, kind = FILES[self.path]
                self._answer(200, kind, (PAGE / file).read_bytes())
            else:
                self._answer(404, "text/plain", b"no such page")

        def _answer(self, status, kind, body):
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # The page gave up waiting; that is what some tests are about.

        def log_message(self, *_):
            pass

    return Handler
