"""The operator's pages over HTTP: who is logged in sees them, and an open page is told what has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from spark_analytics.report.page.markup import Markup

from ..http.door import HttpDoor
from ..http.pages import Pages
from ..http.request import Answer, Flow, Later, Reply, Request, refusal
from ..scripts.spans import seconds_of
from .board import QUIET_S, Board
from .logins import HOW, LOGIN_S, SECRET_BYTES, Login, Logins, NotLoggedIn
from .page import entered, page, parts, shut
from .why_page import fate_of, not_told, why_page

HTML = "text/html; charset=utf-8"
EVENTS = "text/event-stream"
STREAMS_MAX = 128
"""Most pages that are kept up to date at once."""
WAITING_MAX = 64
"""Most requests that wait for the router's answers."""
PATIENCE_S = 15.0
"""Seconds after which a question about a message counts as unanswered."""
HEARTBEAT_S = 15.0
"""Seconds between two signs of life: proxies cut what is silent for a minute, some for less."""
ID_CHARS_MAX = 80
WHY = "operator-why/"
_FORMS = ("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
          "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")  # fmt: skip
"""The policy of pages with a form: that of all pages, but a form may ask this door."""


class _Stream(Struct, frozen=True):
    """A page that is open: its connection, and whose it is."""

    peer: str
    login: str


class _Waiting(Struct, frozen=True):
    """A request that waits. `tag`: that of its question about a message, "" if it wants the page."""

    peer: str
    login: Login
    by_s: float
    tag: str = ""


class OperatorPages:
    """The logins, what is known of the node, and who looks at it. `files`: styles and scripts; `is_tls`: whether the
    door speaks TLS, so that cookies must never go without."""

    def __init__(self, setup: c.Setup, files: Mapping[str, bytes], *, is_tls: bool) -> None:
        self._randbytes = setup.chance.randbytes
        self._logins = Logins(setup.kept)
        self._board = Board()
        self._files = Pages(files)
        self._cookie = f"operator-{setup.key.hex()[:8]}"  # browsers send a host's cookies to all its ports
        self._attributes = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_tls else "")
        self._streams: list[_Stream] = []
        self._waiting: list[_Waiting] = []
        self._shown: Mapping[str, Markup] = {}
        self._numbers = count(1)
        self._beat_s = 0.0

    def __repr__(self) -> str:
        return f"<operator's pages: {counted(len(self._streams), 'page')} open, {self._logins!r}>"

    def __len__(self) -> int:
        """Return how many look or wait, so that the clock is needed each second."""
        return len(self._streams) + len(self._waiting)

    # -- requests ------------------------------------------------------------------------------------------

    def reply(self, request: Request, door: HttpDoor, now: c.Now) -> Reply | None:
        """Return the answer to a request at the operator's door; None if there is nothing at its path."""
        if request.path == "/login":
            return self._enter(request, door, now)
        if request.path not in ("/", "/events", "/why"):
            return self._files.answer(request)
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method", "this is a page, which is there to GET", ("Allow", "GET, HEAD"))
        try:
            login = self._logins.judge(_cookies(request, self._cookie), now)
        except NotLoggedIn as error:
            return _shut(request, str(error))
        self._prune(door)
        match request.path:
            case "/events":
                return self._follow(request, login, now)
            case "/why":
                return self._ask_why(request, login, now)
            case _:
                return self._show(request, login, now)

    def _enter(self, request: Request, door: HttpDoor, now: c.Now) -> Reply:
        """Log in by a link, once. A browser that fetches ahead of its user, and who asks for the head alone, uses it up
        for nobody."""
        is_ahead = "prefetch" in (request.header(b"sec-purpose") + request.header(b"purpose")).lower()
        if request.method != "GET" or is_ahead:
            return refusal(405, "method", "a link that logs in is there to GET, by who opens it", ("Allow", "GET"))
        try:
            text = request.parameters().get("link", "")
            found = self._logins.redeem(
                text, self._randbytes(SECRET_BYTES), request.caller, request.header(b"user-agent"), now
            )
        except ValueError:
            return _shut(request, "this address cannot be read; `router web open` prints another")
        except NotLoggedIn as error:
            return _shut(request, str(error))
        login, cookie, put = found
        answer = _html(200, entered(login)).with_headers(
            ("Set-Cookie", f"{self._cookie}={cookie}{self._attributes}; Max-Age={login.lasts_s}")
        )
        return Later((put, *door.answer(request.peer, answer, now)))

    def _show(self, request: Request, login: Login, now: c.Now) -> Reply:
        if self._board.is_fresh(now):
            if not self._streams:  # else open pages have been told what is shown
                self._shown = parts(self._board.view(now))
            return _html(200, self._page(login))
        return self._wait(
            _Waiting(request.peer, login, now.mono_s + PATIENCE_S), *self._board.ask(now, is_watched=True)
        )

    def _ask_why(self, request: Request, login: Login, now: c.Now) -> Reply:
        try:
            id = request.parameters().get("id", "").strip()
        except ValueError:
            id = ""
        if not id or len(id) > ID_CHARS_MAX or not id.isalnum():
            said = "that is no id of a message: it has digits and letters, and `router pub` prints it"
            return _html(400, not_told(said))
        tag = f"{WHY}{next(self._numbers)}"
        return self._wait(_Waiting(request.peer, login, now.mono_s + PATIENCE_S, tag), c.Inquire("why", id, tag))

    def _wait(self, waiting: _Waiting, *deeds: c.Deed) -> Reply:
        if len(self._waiting) >= WAITING_MAX:
            said = f"{WAITING_MAX} wait for the router already; ask again"
            return refusal(503, "busy", said, ("Retry-After", "1"))
        self._waiting.append(waiting)
        return Later(deeds)

    def _follow(self, request: Request, login: Login, now: c.Now) -> Reply:
        """Keep a page up to date: it gets all parts now, and later those that have changed."""
        if len(self._streams) >= STREAMS_MAX:
            said = f"{STREAMS_MAX} pages are kept up to date already, the most; close some, or load this one again"
            return refusal(503, "pages-full", said, ("Retry-After", "60"))
        if request.method == "GET":
            self._streams.append(_Stream(request.peer, login.id))
        return Flow(EVENTS, first=_event("parts", self._shown), is_known=True)

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        """Act on what concerns these pages."""
        match heard:
            case c.Started():
                yield from self._logins.forget(now)
                self._board.begin(now)
            case c.Told(tag=tag) if tag.startswith(WHY):
                yield from self._tell_why(heard, door, now)
            case c.Told() if self._board.told(heard, now):
                yield from self._tell(door, now)
            case c.Tick():
                yield from self._tick(door, now)

    def _tick(self, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        self._prune(door)
        yield from self._logins.forget(now)
        yield from self._end_those_over(door, now)
        late = [one for one in self._waiting if one.by_s <= now.mono_s]
        self._waiting = [one for one in self._waiting if one.by_s > now.mono_s]
        for one in late:
            said = f"the router has not answered within {PATIENCE_S:g} s; `router status` may say why"
            yield from door.answer_later(one.peer, _html(503, not_told(said)), now)
        problem = self._board.facts.problem
        yield from self._board.ask(now, is_watched=len(self) > 0)
        if self._board.facts.problem != problem:
            yield from self._tell(door, now)
        if self._streams and now.mono_s - self._beat_s >= HEARTBEAT_S:
            yield from self._send(_event("heartbeat", {}), door, now)

    @property
    def pause_s(self) -> float:
        """Return how long the clock may rest while nobody looks."""
        return QUIET_S

    def _tell(self, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        """Answer those who wait for the page, and tell open pages what has changed."""
        waiting = [one for one in self._waiting if not one.tag]
        if not (waiting or self._streams):
            return
        before = self._shown
        self._shown = parts(self._board.view(now))
        self._waiting = [one for one in self._waiting if one.tag]
        for one in waiting:
            yield from door.answer_later(one.peer, _html(200, self._page(one.login)), now)
        changed = {name: text for name, text in self._shown.items() if before.get(name) != text}
        if changed:
            yield from self._send(_event("parts", changed), door, now)

    def _tell_why(self, heard: c.Told, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        one = next((one for one in self._waiting if one.tag == heard.tag), None)
        if one is None:
            return
        self._waiting.remove(one)
        if heard.error:
            answer = _html(404, not_told(heard.error))
        else:
            try:
                answer = _html(200, why_page(fate_of(heard.answer), self._board.facts))
            except msgspec.ValidationError as error:
                answer = _html(503, not_told(f"the router's answer is of another version ({error})"))
        yield from door.answer_later(one.peer, answer, now)

    def _send(self, data: bytes, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        self._beat_s = now.mono_s
        for one in self._streams:
            yield from door.send(one.peer, data)

    def _prune(self, door: HttpDoor) -> None:
        self._streams = [one for one in self._streams if one.peer in door]
        self._waiting = [one for one in self._waiting if one.peer in door]

    def _end_those_over(self, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        """End the open pages whose login is over, and the requests that wait with one."""
        over = [one for one in self._streams if not self._logins.is_open(one.login, now)]
        late = [one for one in self._waiting if not self._logins.is_open(one.login.id, now)]
        self._streams = [one for one in self._streams if one not in over]
        self._waiting = [one for one in self._waiting if one not in late]
        for stream in over:
            yield from door.send(stream.peer, _event("over", {}))
            yield from door.finish(stream.peer, now)
        for one in late:
            answer = msgspec.structs.replace(_html(403, shut(f"this login is over; {HOW}")), reason="no-login")
            yield from door.answer_later(one.peer, answer, now)

    def _page(self, login: Login) -> Markup:
        return page(self._shown, self._board.facts.status.title, login)

    # -- the operator's commands ---------------------------------------------------------------------------

    def answer(self, asked: c.Asked, door: HttpDoor, now: c.Now) -> Iterator[c.Deed]:
        """Answer a command about logins."""
        try:
            match asked.word:
                case "open":
                    lasts_s = seconds_of(asked.argument) if asked.argument else LOGIN_S
                    login, text, puts = self._logins.make(self._randbytes(SECRET_BYTES), lasts_s, now)
                    yield from puts
                    yield c.Answer(asked.number, {"id": login.id, "link": text, "until_s": login.until_s})
                case "end-login":
                    yield self._logins.end(asked.argument, now)
                    yield from self._end_those_over(door, now)
                    yield c.Answer(asked.number, {"ended": asked.argument})
                case _:
                    yield c.Answer(asked.number, [one.as_row(now.wall_s) for one in self._logins])
        except ValueError as error:
            yield c.Answer(asked.number, {"error": str(error)})


def _html(status: int, text: Markup) -> Answer:
    return Answer(status=status, body=text.encode(), kind=HTML, headers=(_FORMS,))


def _shut(request: Request, text: str) -> Answer:
    """Return the answer to who is not logged in: a page for a browser, a sentence for others."""
    if not request.accepts("text/html"):
        return refusal(403, "no-login", text)
    return msgspec.structs.replace(_html(403, shut(text)), reason="no-login")


def _cookies(request: Request, name: str) -> list[str]:
    """Return the values of the cookies of this name."""
    pairs = (one.strip().partition("=") for one in request.header(b"cookie").replace(",", ";").split(";"))
    return [value for found, _, value in pairs if found == name and value]


def _event(name: str, value: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
