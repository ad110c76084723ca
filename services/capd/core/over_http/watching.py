"""Clients that watch for messages over HTTP: each new match comes once, as a JSON line or a server-sent event.

One standing query for each pattern is left at the pool for all who watch for it. The pool holds what came while one was
away, so a client that comes again with the last hash that it has seen is first told what is newer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from router.service.http import EVENTS, LINES, HttpDeed, HttpFlow, HttpPiece, HttpRequest, event, refused
from services.capd import reasons

from .. import messages as m
from ..limits import Standing
from ..message import ID_BYTES, read_message, shown_id
from ..pattern import Pattern
from .forms import id_of, pattern_of, shown
from .limits import OverHttpLimits
from .questions import NOBODY, PoolQuestions
from .search_turns import SearchTurns

GIVES_WAY = "all places of those who watch are taken, and your address has most: this one gives way to another address"
GAP = "that message is not among the latest matches any more, so some may be missing before these"


FROM_THE_FIRST = bytes(ID_BYTES)
"""Stands for the message before the first: who begins behind it is told of all matches."""


class _Watcher(Struct):
    """`since`: the id behind which it begins, b"" if it begins now; `active_s`: when it began, or was told of a match;
    `is_begun`: whether it is told of matches."""

    pattern: Pattern
    kind: str
    caller: str
    since: bytes
    active_s: float
    is_begun: bool = False


class Watching:
    """The watchers, by the numbers of their requests."""

    def __init__(self, questions: PoolQuestions, turns: SearchTurns, limits: OverHttpLimits) -> None:
        self._questions = questions
        self._turns = turns
        self._limits = limits
        self._watchers: dict[int, _Watcher] = {}
        self._renew_s: dict[Pattern, float] = {}
        self._beat_s = 0.0

    def __repr__(self) -> str:
        return f"<{counted(len(self._watchers), 'watcher')} of {counted(len(self._renew_s), 'pattern')}>"

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        """Leave a standing query for this watcher. Raise `BadRequest`."""
        pattern, caller = pattern_of(request.parameters), request.caller
        since = request.headers.get("last-event-id") or request.parameters.get("since", "")
        watcher = _Watcher(
            pattern, EVENTS if request.accepts(EVENTS) else LINES, caller, id_of(since) if since else b"", now.mono_s
        )
        held = Counter(one.caller for one in self._watchers.values())
        if held[caller] >= self._limits.watchers_of_one:
            yield _full(request.number, 429, f"{held[caller]} watch from your address already")
            return
        if len(self._watchers) >= self._limits.watchers_max:
            if max(held.values()) < held[caller] + 2:
                yield _full(request.number, 503, f"{self._limits.watchers_max} watch here already")
                return
            yield from self._give_way(held, now)
        self._watchers[request.number] = watcher
        yield from self._leave(pattern, request.number, now)

    def _give_way(self, held: Counter[str], now: c.Now) -> Iterator[HttpDeed]:
        """End the watcher that is idle for longest, of the caller with most."""
        most = max(held.values())
        own = [number for number, one in self._watchers.items() if held[one.caller] == most]
        number = min(own, key=lambda one: self._watchers[one].active_s)
        one = self._watchers[number]
        self._questions.drop(number)
        self._turns.drop(number)
        yield from self.gone(number, now)
        if one.is_begun:
            yield HttpPiece(
                number, event("end", {"reason": "watchers-full", "text": GIVES_WAY}, one.kind), is_last=True
            )
        else:
            yield _full(number, 503, GIVES_WAY)

    def _leave(self, pattern: Pattern, number: int, now: c.Now) -> Iterator[HttpDeed]:
        """Leave the standing query of a pattern at the pool, also in place of one that is there."""
        self._renew_s[pattern] = now.mono_s + self._limits.watch_life_s / 4
        then = partial(self._left, number)
        yield from self._questions.ask(m.Watch, pattern, self._limits.watch_life_s, number=number, then=then, now=now)

    def _left(self, number: int, said: m.Done, now: c.Now) -> Iterator[HttpDeed]:
        watcher = self._watchers.get(number)
        if watcher is None:
            return
        if said.result:
            reason = reasons.of(said.result)
            yield from self.gone(number, now)
            yield refused(number, 503, reason.word, said.text or reason.sentence, ("Retry-After", "60"))
        else:
            then = partial(self._begin, number)
            limit = m.PAGE_MESSAGES_MAX if watcher.since else 1
            question = partial(m.Query, pattern=watcher.pattern, limit=limit)
            yield from self._turns.ask(question, caller=watcher.caller, number=number, then=then, now=now)

    def _begin(self, number: int, said: m.Found, now: c.Now) -> Iterator[HttpDeed]:
        """Begin with the matches that are newer than the last one seen, or with the hash of the newest, behind which
        one that comes again begins. What the pool takes after this answer comes after it."""
        watcher = self._watchers.get(number)
        if watcher is not None:
            watcher.is_begun = True
            first = self._missed(watcher, said, now) if watcher.since else _newest(watcher, said)
            yield HttpFlow(number, watcher.kind, first or _beat(watcher.kind, now))

    def _missed(self, watcher: _Watcher, said: m.Found, now: c.Now) -> bytes:
        """Return the events of the matches that are newer than the last one seen, the oldest first."""
        newer, has_gap = list[bytes](), watcher.since != FROM_THE_FIRST or said.count > len(said.messages)
        for standing, wire in said.messages:
            message = read_message(wire)
            own_id = message.own_id()
            if own_id == watcher.since:
                has_gap = False
                break
            newer.append(event("message", shown(message, standing, int(now.wall_s)), watcher.kind, shown_id(own_id)))
        gap = [event("gap", {"text": GAP}, watcher.kind)] if has_gap else []
        return b"".join([*gap, *reversed(newer)])

    # -- telling -------------------------------------------------------------------------------------------

    def match(self, standing: Standing, wire: bytes, now: c.Now) -> Iterator[HttpDeed]:
        """Tell those who watch for this message of it."""
        message = read_message(wire)
        own = {number: one for number, one in self._watchers.items() if one.is_begun}
        own = {number: one for number, one in own.items() if one.pattern.matches(message.data)}
        told = [(number, one.kind) for number, one in own.items()]
        for one in own.values():
            one.active_s = now.mono_s
        if not told:
            return
        value, id = shown(message, standing, int(now.wall_s)), shown_id(message.own_id())
        said = {kind: event("message", value, kind, id) for kind in {kind for _, kind in told}}
        for number, kind in told:
            yield HttpPiece(number, said[kind])

    def tick(self, now: c.Now) -> Iterator[HttpDeed]:
        """Give a sign of life now and then; renew standing queries before they end."""
        for pattern in [one for one, renew_s in self._renew_s.items() if renew_s <= now.mono_s]:
            yield from self._leave(pattern, NOBODY, now)
        if now.mono_s - self._beat_s >= self._limits.heartbeat_s:
            self._beat_s = now.mono_s
            for number, one in self._watchers.items():
                if one.is_begun:
                    yield HttpPiece(number, _beat(one.kind, now))

    def gone(self, number: int, now: c.Now) -> Iterator[HttpDeed]:
        """Forget a watcher; end the standing query that nobody needs any more."""
        watcher = self._watchers.pop(number, None)
        if watcher is None or any(one.pattern == watcher.pattern for one in self._watchers.values()):
            return
        del self._renew_s[watcher.pattern]
        yield from self._questions.ask(m.Unwatch, watcher.pattern, number=NOBODY, then=_nothing, now=now)

    def forget(self, number: int) -> None:
        """Forget a watcher that has been refused; its standing query, if it was left, ends by itself."""
        watcher = self._watchers.pop(number, None)
        if watcher is not None and all(one.pattern != watcher.pattern for one in self._watchers.values()):
            self._renew_s.pop(watcher.pattern, None)


def _full(number: int, status: int, said: str) -> HttpDeed:
    return refused(number, status, "watchers-full", f"{said}, the most; end one, or ask again", ("Retry-After", "60"))


def _newest(watcher: _Watcher, said: m.Found) -> bytes:
    own_id = read_message(said.messages[0][1]).own_id() if said.messages else FROM_THE_FIRST
    return event("begin", {"since": shown_id(own_id)}, watcher.kind, shown_id(own_id))


def _beat(kind: str, now: c.Now) -> bytes:
    return event("heartbeat", {"at": round(now.wall_s, 3)}, kind)


def _nothing(said: object, now: c.Now) -> Iterator[HttpDeed]:
    yield from ()
