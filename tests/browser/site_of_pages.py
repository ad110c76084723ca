"""The files of pages over HTTP, as the web side sends them, and the pages of these tests beside them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

TREE = Path(__file__).parents[2]
STATIC = TREE / "services" / "web" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; manifest-src 'self';"
    " connect-src 'self' ws: wss: http://127.0.0.1:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ROOMS = {"test": Path(__file__).parent / "pages", "vectors": TREE / "tests" / "vectors"}


class Site(ThreadingHTTPServer):
    """The server of the pages. `edition`: what the pages are told of their version, as a node tells it; "": nothing.
    `sends_worker`: while it is not set, the script of the shared worker does not come."""

    edition = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sends_worker = Event()
        self.sends_worker.set()


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012

    def translate_path(self, path: str) -> str:
        room, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        found = (_ROOMS[room] / rest) if room in _ROOMS else STATIC / f"{room}/{rest}"
        return str(found)

    def do_GET(self) -> None:
        assert isinstance(self.server, Site)
        if self.path == "/router/worker.js":
            self.server.sends_worker.wait()
        if self.path == "/router/edition.js" and self.server.edition:
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript")
            self.end_headers()
            self.wfile.write(f"export const EDITION = '{self.server.edition}';\n".encode())
        else:
            super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _serve(server: Site) -> None:
    """Serve until the shutdown, also while another test lets this process have hardly any descriptors, which poll(2)
    refuses."""
    while True:
        try:
            return server.serve_forever(0.05)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise


@contextmanager
def served() -> Iterator[Site]:
    """Yield the server of the files, which serves with the block."""
    with Site() as server:
        server.daemon_threads = True
        thread = Thread(target=_serve, args=(server,))
        thread.start()
        try:
            yield server
        finally:
            server.sends_worker.set()
            server.shutdown()
            thread.join()
