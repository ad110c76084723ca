"""Scripts that read a group: what was said lately, and then each message as it comes (JSON lines, or server-sent
events)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from ..http.door import HttpDoor
from ..http.request import Answer, Flow, Reply, Request, refusal, shown
from .past import MISSED, Entry, Gap
from .pasts import Pasts
from .shares import has_share
from .spans import span_of
from .tokens import Token

WATCHERS_MAX = 128
"""Most scripts that read at once; each keeps its connection, and each token has its share (`has_share`)."""
HEARTBEAT_S = 20.0
"""Seconds between two signs of life: proxies cut what is silent for a minute, some for less."""
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
ENDED = "the token of this request has ended; the operator makes another by `router web token`"
_ID = re.compile(r"[0-9a-f]{64}\Z")


class _Watcher(Struct):
    """A script that reads. `token`: the digest of the token that permits it."""

    door: str
    peer: str
    group: str
    kind: str
    token: str


class Watchers:
    """The readers of groups, which are named by their keys in hexadecimal digits, from the `pasts` on."""

    def __init__(self, pasts: Pasts) -> None:
        self._pasts = pasts
        self._watchers: list[_Watcher] = []
        self._beat_s = 0.0

    def __repr__(self) -> str:
        return f"<{counted(len(self._watchers), 'watcher')} of {self._pasts!r}>"

    def __len__(self) -> int:
        return len(self._watchers)

    # -- asking --------------------------------------------------------------------------------------------

    def reply(self, request: Request, token: Token, group: str, doors: Mapping[str, HttpDoor], now: c.Now) -> Reply:
        """Return the answer to who wants to read a group."""
        try:
            parameters = request.parameters()
            ends_after_past = is_poll(parameters.get("poll", "0"))
        except ValueError as error:
            return refusal(400, "poll", str(error))
        try:
            entries, gap = self._begin_with(request, group, parameters, now)
        except ValueError as error:
            return refusal(400, "since", str(error))
        kind = EVENTS if request.accepts(EVENTS) else LINES
        first = b"".join((*([_gap(gap, kind)] if gap else []), *(_message(one, kind) for one in entries)))
        if ends_after_past:
            return Answer(status=200, body=first, kind=kind)
        self._prune(doors)
        own = sum(one.token == token.digest for one in self._watchers)
        if not has_share(own, len(self._watchers), WATCHERS_MAX):
            full = f'{counted(own, "script")} read by the token "{token.name}" already, of {len(self._watchers)} in all'
            said = f"{full}, and no more by it may; end some, or ask with ?poll"
            return refusal(503, "watchers-full", said, ("Retry-After", "60"))
        if request.method == "GET":
            self._watchers.append(_Watcher(request.door, request.peer, group, kind, token.digest))
        return Flow(kind, first=first or _beat(kind, now), is_known=True)

    def _begin_with(
        self, request: Request, group: str, parameters: Mapping[str, str], now: c.Now
    ) -> tuple[Sequence[Entry], Gap | None]:
        """Return what is sent at first. Raises `ValueError` with a sentence."""
        past = self._pasts.of(group)
        since = request.header(b"last-event-id") or parameters.get("since", "")
        if past is None or not since:
            return [], None
        if _ID.match(since):
            return past.after(since)
        if not since[:1].isdigit():
            raise ValueError(f'since is "{shown(since)}": write the id of a message, or a span of time as 10m')
        return past.since(now.wall_s - span_of(since))

    # -- telling -------------------------------------------------------------------------------------------

    def add(self, group: str, entry: Entry, doors: Mapping[str, HttpDoor]) -> Iterator[c.Deed]:
        """Remember a message, and send it to all who read its group, unless it came before."""
        past = self._pasts.of(group)
        if past is None or entry.id in past:
            return
        yield from self._pasts.add(group, entry)
        said = {kind: _message(entry, kind) for kind in (LINES, EVENTS)}
        for one in self._watchers:
            if one.group == group:
                yield from doors[one.door].send(one.peer, said[one.kind])

    def miss(self, group: str, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Say a gap to all who read a group, now and later: a message of it is not known here."""
        yield from self._pasts.miss(group, now)
        for one in self._watchers:
            if one.group == group:
                yield from doors[one.door].send(one.peer, _gap(Gap(MISSED), one.kind))

    def tick(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Give a sign of life now and then."""
        if now.mono_s - self._beat_s < HEARTBEAT_S:
            return
        self._beat_s = now.mono_s
        self._prune(doors)
        for one in self._watchers:
            yield from doors[one.door].send(one.peer, _beat(one.kind, now))

    def end(self, tokens: frozenset[str], doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End all reading but that by these tokens, given by their digests."""
        ended = [one for one in self._watchers if one.token not in tokens]
        self._watchers = [one for one in self._watchers if one.token in tokens]
        for one in ended:
            yield from doors[one.door].send(one.peer, _event("end", {"text": ENDED}, one.kind))
        for one in ended:  # each may have asked for more already, which is answered here
            yield from doors[one.door].finish(one.peer, now)

    def _prune(self, doors: Mapping[str, HttpDoor]) -> None:
        self._watchers = [one for one in self._watchers if one.peer in doors[one.door]]


def _message(entry: Entry, kind: str) -> bytes:
    return b"id: %s\ndata: %s\n\n" % (entry.id.encode(), entry.line) if kind == EVENTS else entry.line + b"\n"


def _gap(gap: Gap, kind: str) -> bytes:
    return _event("gap", {"text": gap.text}, kind)


def _beat(kind: str, now: c.Now) -> bytes:
    return _event("heartbeat", {"at": round(now.wall_s, 3)}, kind)


def _event(name: str, value: Mapping[str, object], kind: str) -> bytes:
    text = json.dumps({"event": name, **value})
    return (f"event: {name}\ndata: {text}\n\n" if kind == EVENTS else f"{text}\n").encode()


def is_poll(text: str) -> bool:
    """Return whether the value of the parameter `poll` means yes. Raises `ValueError` with a sentence."""
    if text not in ("", "1", "true", "0", "false"):
        raise ValueError(f'poll stands alone, or is 1 or true, 0 or false, not "{shown(text)}"')
    return text in ("", "1", "true")
