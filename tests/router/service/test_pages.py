"""Pages at a stream door: a request in any pieces has one answer, and nobody can hold one open or ask for too much."""

from __future__ import annotations

import pytest

from router.service import contract as c
from router.service.pages import CONNECTIONS_MAX, FRESH_S, HEAD_BYTES_MAX, HEAD_S, Pages

REQUEST = b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def now(seconds: float = 0.0) -> c.Now:
    return c.Now(1_000.0 + seconds, seconds)


class Site:
    """A page that counts how often it was made, and the deeds at its door."""

    def __init__(self) -> None:
        self.made = 0
        self.pages = Pages("metrics", {"/metrics": self.page})

    def page(self, at: c.Now) -> tuple[str, bytes]:
        self.made += 1
        return "text/plain", b"made %d" % self.made

    def ask(self, *pieces: bytes, peer: str = "1", seconds: float = 0.0) -> bytes:
        """Return what is written before the connection is closed."""
        deeds = list(self.pages.opened(peer, now(seconds)))
        for piece in pieces:
            deeds += self.pages.came(peer, piece, now(seconds))
        written = [one.data for one in deeds if isinstance(one, c.Write)]
        assert all(written[:-1]) and written[-1:] in ([b""], [])
        return b"".join(written)


def test_a_request_in_any_pieces_has_one_answer() -> None:
    for pieces in ([REQUEST], [REQUEST[at : at + 1] for at in range(len(REQUEST))]):
        answer = Site().ask(*pieces)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n")
        assert answer.endswith(b"Connection: close\r\n\r\nmade 1")
    assert Site().ask(REQUEST.replace(b"GET", b"HEAD")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (REQUEST.replace(b"/metrics", b"/other"), 404), (REQUEST.replace(b"GET", b"POST"), 405),
        (b"\xff\xfe\r\n\r\n", 400), (b"GET /metrics\r\n\r\n", 400), (b"x" * (HEAD_BYTES_MAX + 1), 431),
    ],
)  # fmt: skip
def test_what_is_no_get_of_a_page_is_told_so(request_: bytes, status: int) -> None:
    assert Site().ask(request_).startswith(b"HTTP/1.1 %d " % status)


def test_a_page_is_made_once_a_second() -> None:
    site = Site()
    for seconds in (0.0, FRESH_S / 2, FRESH_S):
        assert site.ask(REQUEST, seconds=seconds)
    assert site.made == 2


def test_a_client_that_is_slow_or_one_of_too_many_is_closed() -> None:
    pages = Site().pages
    for peer in range(CONNECTIONS_MAX):
        assert not list(pages.opened(str(peer), now()))
        assert not list(pages.came(str(peer), b"GET", now()))
    assert list(pages.opened("more", now())) == [c.Write("metrics", "more", b"")]
    assert not list(pages.overdue(now(HEAD_S - 0.1)))
    assert len(list(pages.overdue(now(HEAD_S)))) == CONNECTIONS_MAX
    assert not list(pages.came("0", b" /metrics HTTP/1.1\r\n\r\n", now(HEAD_S))), "it is closed"
    assert repr(pages) == "<pages at metrics: 0 requests under way>"
