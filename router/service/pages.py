"""Answers GET requests at a stream door of a service, one for each connection, as scrapers of metrics make them.

It is as little of HTTP/1.1 as that takes: a request is read up to the end of its head, answered, and the connection
closed. A head that is too long, takes too long or is no GET has its own answer. A page is made at most once a second,
however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from router.service.contract import Deed, Now, Write

HEAD_BYTES_MAX = 8192
HEAD_S = 10.0
"""How long a client may take for its request."""
CONNECTIONS_MAX = 16
FRESH_S = 1.0
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Head Too Large"}

Page = Callable[[Now], tuple[str, bytes]]
"""Makes a page: its media type and its bytes."""


class Pages:
    """The connections at one door, and the pages by path."""

    def __init__(self, door: str, pages: Mapping[str, Page]) -> None:
        self._door = door
        self._pages = pages
        self._heads: dict[str, tuple[bytes, float]] = {}
        self._made: dict[str, tuple[float, str, bytes]] = {}

    def __repr__(self) -> str:
        return f"<pages at {self._door}: {len(self._heads)} requests under way>"

    def opened(self, peer: str, now: Now) -> Iterator[Deed]:
        """Take a connection, or close it if there are too many."""
        if len(self._heads) >= CONNECTIONS_MAX:
            yield Write(self._door, peer, b"")
        else:
            self._heads[peer] = b"", now.mono_s + HEAD_S

    def came(self, peer: str, data: bytes, now: Now) -> Iterator[Deed]:
        """Hear bytes of a client, b"" if it has gone; answer a request that is whole."""
        if peer not in self._heads:
            return
        head, by_s = self._heads.pop(peer)
        head += data
        if not data:
            return
        if b"\r\n\r\n" not in head and len(head) <= HEAD_BYTES_MAX:
            self._heads[peer] = head, by_s
            return
        yield Write(self._door, peer, self._answer(head, now))
        yield Write(self._door, peer, b"")

    def overdue(self, now: Now) -> Iterator[Deed]:
        """Close the connections whose client has taken too long."""
        for peer in [peer for peer, (_, by_s) in self._heads.items() if by_s <= now.mono_s]:
            del self._heads[peer]
            yield Write(self._door, peer, b"")

    def _answer(self, head: bytes, now: Now) -> bytes:
        if len(head) > HEAD_BYTES_MAX:
            return _said(431, f"a request's head may have {HEAD_BYTES_MAX} bytes")
        words = head.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _said(400, "this is no request of HTTP/1.1")
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _said(405, "there are only pages to GET")
        if path not in self._pages:
            return _said(404, f"there are {', '.join(self._pages)}")
        kind, page = self._page(path, now)
        return _response(200, kind, page, with_body=method == "GET")

    def _page(self, path: str, now: Now) -> tuple[str, bytes]:
        made_s, kind, page = self._made.get(path, (-FRESH_S, "", b""))
        if now.mono_s - made_s >= FRESH_S:
            kind, page = self._pages[path](now)
            self._made[path] = now.mono_s, kind, page
        return kind, page


def _said(status: int, text: str) -> bytes:
    return _response(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _response(status: int, kind: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + (body if with_body else b"")
