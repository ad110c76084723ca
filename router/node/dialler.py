"""Dialling: one connection for each key, with back-off and jitter; uplinks always, others when messages wait for them.

Its addresses are dialled by `transport/dialling.py`; those known from advertisements, hints or datagrams alone are
judged again once they are resolved, and dialled within a budget, of which those of the LAN have one of their own
(R-D12, R-D22).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import trio

from router.core.neighbours.dial_budget import DialBudgets, WhoAnswered
from router.core.neighbours.directory import CONFIG, HINT, INVITED, LAN, Neighbour
from router.core.neighbours.whereabouts import why_not_dialled
from router.core.routing.admission import TOGETHER_S
from router.core.service.back_off import BackOff
from router.core.wire.address import AddressSource, IpAddress, ip_address_of, refusal_of
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import BadText, key_text, short
from router.node.dial_pauses import DialPauses
from router.node.successor_dials import Answerer, SuccessorDials
from router.node.superseded import Formers, explained
from router.settings.config import Link
from router.transport import contract as transport
from router.transport.contract import ConnectFailed, Stream
from router.transport.dialling import Approach, DialTarget, problems_text

log = logging.getLogger(__name__)

HURRIED_S = 2.0
"""The longest pause between two dials of a neighbour whose answer a command waits for."""
LOGGED_MAX = 8
"""The most problems of a neighbour that are remembered as logged: addresses that rest or answer by turns have several.
"""
ASKS_SUCCESSOR = Reason.CONNECT_FAILED, "the key that answered is asked first whether it has followed that one"
OnFailed = Callable[[Neighbour, str, bool], None]
"""Callback that gets why a neighbour was not connected to, and whether the cause was other than its refusal."""


class LastWords(NamedTuple):
    """The other end's last words about this node when the connection ended.

    `text`: a sentence for the operator, "" if nothing is wrong; `lets_in`: False if this node is refused there;
    `is_displaced`: another connection of this node's key took over there, maybe one that the other end dialled;
    `is_logged`: the log has the cause, as the neighbour gave it before it ended the connection; `is_other`: another key
    answered than the one that was dialled, and has not shown that it followed that one; `is_superseded`: another key
    has the place of this node's there."""

    text: str = ""
    lets_in: bool = True
    is_displaced: bool = False
    is_logged: bool = False
    is_other: bool = False
    is_superseded: bool = False


class Dialler:
    """Keeps one dialling task per key. `run(stream, expect)` serves a connection until it ends.

    `waiting(key)` asks the message router whether messages are queued for the key; `draw()` returns a number in [0, 1)
    for the jitter; `on_loopback()` whether this node is reached on its own machine only; `formers(key)` the keys that a
    neighbour has had before.
    """

    def __init__(
        self,
        key: SigningKey,
        neighbours: Iterable[Neighbour],
        link: Link,
        nursery: trio.Nursery,
        run: Callable[[Stream, PublicKey], Awaitable[LastWords]],
        waiting: Callable[[bytes], Awaitable[bool]],
        draw: Callable[[], float],
        on_loopback: Callable[[], bool],
        budgets: DialBudgets,
        on_failed: OnFailed = lambda neighbour, text, let_in: None,
        formers: Formers = lambda key: (),
    ) -> None:
        self._key = key
        self._link = link
        self._nursery = nursery
        self._run = run
        self._waiting = waiting
        self._draw = draw
        self._on_loopback = on_loopback
        self._budgets = budgets
        self._on_failed = on_failed
        self._formers = formers
        self._neighbours = {one.key: one for one in neighbours}
        self._attempts: dict[bytes, trio.CancelScope] = {}  # around the present dial or pause of each task
        self._pauses: dict[bytes, tuple[float, trio.CancelScope]] = {}  # when each began, and what ends it
        self._refused_by: set[bytes] = set()  # neighbours that did not let us in the last time
        self._asked: set[bytes] = set()  # wanted again while their task ran, which may have found nothing waiting
        self._moved: set[bytes] = set()  # had a task when the network changed: earlier failures no longer count
        self._approaches: dict[bytes, Approach] = {}
        self._answered_by_others: dict[bytes, tuple[PublicKey, str]] = {}  # the key that may be a neighbour's successor
        self._successors = SuccessorDials()
        back_off = BackOff(pause_s_min=self._link.dial_backoff_s_min, pause_s_max=self._link.dial_backoff_s_max)
        self._lengths = DialPauses(back_off)
        self._logged: dict[bytes, deque[str]] = {}  # the last problems of a neighbour that were logged
        self._rests = False
        self._room = trio.Semaphore(self._link.dials_max)
        self._room_of_doubted = trio.Semaphore(max(1, self._link.dials_max // 2))
        self.problems: dict[bytes, str] = {}  # of the last attempt, for `router peers`

    def __repr__(self) -> str:
        return f"<dialler: {len(self._attempts)} keys being dialled or connected>"

    def reconcile(self, neighbours: Iterable[Neighbour]) -> None:
        """Take the neighbours as they are configured now, at the start and after each change.

        A changed neighbour's dial or pause ends, and its task decides again whether and where to dial. Connections are
        not touched: the message router closes those that may not stay.
        """
        before = self._neighbours
        self._neighbours = {one.key: one for one in neighbours}
        self._refused_by &= self._neighbours.keys()
        self._approaches = {key: one for key, one in self._approaches.items() if key in self._neighbours}
        self._successors.keep({key for key, one in self._neighbours.items() if before.get(key) == one})
        for key in before:
            if before[key] != self._neighbours.get(key):
                self.problems.pop(key, None)
                self._logged.pop(key, None)
                if key in self._attempts:
                    self._attempts[key].cancel()
        for key, one in self._neighbours.items():
            if one.uplink:
                self.want(key)

    def want(self, key: bytes) -> None:
        """Dial this key, for which messages wait, unless a dial is under way, no address is known, or the node
        stops."""
        if self._rests or self._nursery.cancel_scope.cancel_called:
            return
        if key in self._attempts:
            self._asked.add(key)
        elif self._to_dial(key) is not None:
            self._attempts[key] = trio.CancelScope()
            self._nursery.start_soon(self._keep, key)

    def rest(self) -> None:
        """Dial nobody from now on."""
        self._rests = True

    def hurry(self, keys: Iterable[bytes]) -> None:
        """Have these keys dialled within `HURRIED_S` of their last attempt, because a command waits for their
        answer."""
        for began_s, scope in [self._pauses[key] for key in keys if key in self._pauses]:
            scope.deadline = min(scope.deadline, began_s + HURRIED_S)

    def network_changed(self) -> None:
        """Dial soon whoever is being waited for, as if for the first time: where nobody was reached, somebody may be
        now."""
        self._moved |= self._attempts.keys()
        self.hurry(self._pauses)

    def _to_dial(self, key: bytes) -> Neighbour | None:
        """Return the neighbour of that key as configured now, None if it is blocked or has no address."""
        found = self._neighbours.get(key)
        return found if found is not None and found.urls and not found.blocked else None

    async def _keep(self, key: bytes) -> None:
        failures, asked = 0, True
        try:
            while (asked or await self._is_wanted(key)) and (neighbour := self._to_dial(key)) is not None:
                failures = self._failures_here(key, await self._connect(neighbour, failures), 1)
                asked = self._attempts[key].cancelled_caught  # it has changed, so where it is now is dialled at once
                if asked:
                    continue
                if not await self._is_wanted(key):
                    return
                if self._neighbours.get(key) == neighbour:
                    await self._pause(neighbour, failures)
                failures = self._failures_here(key, failures, 0)
                if self._neighbours.get(key) != neighbour:
                    failures = 0
        finally:
            del self._attempts[key]
            self._lengths.forget(key)
            self._asked.discard(key)
            self._moved.discard(key)

    def _failures_here(self, key: bytes, failures: int, most: int) -> int:
        """Return how many failures in a row count: at most `most` if the network has changed since the last call."""
        if key in self._moved:
            self._moved.discard(key)
            return min(failures, most)
        return failures

    async def _pause(self, neighbour: Neighbour, failures: int) -> None:
        key, now_s = neighbour.key, trio.current_time()
        approach = self._approaches.get(key)
        has_moved = bool(neighbour.said_urls) and (approach is None or approach.last_url != neighbour.said_urls[0])
        with self._attempt(key) as scope:
            self._pauses[key] = now_s, scope
            try:
                await trio.sleep(self._lengths.pause_s(key, failures, self._draw(), now_s, has_moved=has_moved))
            finally:
                del self._pauses[key]

    async def _is_wanted(self, key: bytes) -> bool:
        self._asked.discard(key)
        known = self._neighbours.get(key)
        return known is not None and (known.uplink or await self._waiting(key) or key in self._asked)

    def _attempt(self, key: bytes) -> trio.CancelScope:
        scope = self._attempts[key] = trio.CancelScope()
        return scope

    async def _connect(self, neighbour: Neighbour, failures: int) -> int:
        """Dial, and serve the connection to its end; return how many attempts in a row have failed."""
        stream = None
        self._lengths.begin(neighbour.key, trio.current_time())
        with self._attempt(neighbour.key):
            stream = await self._dial(neighbour)
            if stream is None:
                self._on_failed(neighbour, self.problems.get(neighbour.key, ""), True)
        if stream is not None:
            began = trio.current_time()
            words = await self._run(stream, PublicKey(neighbour.key))
            other = self._answered_by_others.pop(neighbour.key, None)
            if words.is_other and other is not None:
                self._successors.turn_down(neighbour.key, other[0], trio.current_time())
                words = LastWords(other[1])
            if words.is_displaced and self._may_have_crossed(neighbour, trio.current_time() - began):
                words = LastWords()
            if words.text:
                self._on_failed(neighbour, words.text, words.lets_in)
            self._note(neighbour, words.text, is_logged=words.is_logged)
            if trio.current_time() - began > self._link.dial_backoff_s_max or self._is_let_in_now(neighbour, words):
                failures = 0
                self._lengths.lost(neighbour.key, trio.current_time())
        return min(failures + 1, 32)

    def _is_let_in_now(self, neighbour: Neighbour, last_words: LastWords) -> bool:
        """Whether a neighbour that refused this node the last time lets it in now; then it ends only a stranger's
        connection."""
        was_refused = neighbour.key in self._refused_by
        if last_words.lets_in:
            self._refused_by.discard(neighbour.key)
        else:
            self._refused_by.add(neighbour.key)
        return was_refused and last_words.lets_in

    def _may_have_crossed(self, neighbour: Neighbour, lasted_s: float) -> bool:
        """Whether the other end may have dialled as well, in which case the connection dialled by the lower key
        stays."""
        return not neighbour.uplink and neighbour.key < self._key.public and lasted_s < TOGETHER_S

    async def _dial(self, neighbour: Neighbour) -> Stream | None:
        """Dial its addresses; keep the reason for each failure, even if another address is reached."""
        approach = self._approaches.setdefault(neighbour.key, Approach())
        urls = (*neighbour.urls, *neighbour.said_urls)
        doubted = urls if neighbour.doubted else neighbour.said_urls
        others: list[Answerer] = []
        attempt = partial(self._dial_at, neighbour, others)
        resolve = partial(transport.resolve, timeout_s=self._link.dial_timeout_s)
        try:
            stream, problems = await approach.dial(urls, resolve, attempt, doubted=doubted)
        except ConnectFailed as error:
            successor = await self._dial_successor(neighbour, others, error)
            if successor is None:
                self._note(neighbour, error.text)
            return successor
        if problems:
            self._note(neighbour, problems_text(problems))
        return stream

    async def _dial_successor(
        self, neighbour: Neighbour, others: Sequence[Answerer], failed: ConnectFailed
    ) -> Stream | None:
        """Dial the first address where another key answered, now or before, as that key, which may have followed the
        one that was dialled; its hello must show that. None if there is none, or it does not answer any more."""
        one = self._successors.take(neighbour.key, others, trio.current_time())
        if one is None:
            return None
        with suppress(ConnectFailed):
            stream = await transport.dial(one.address, self._key, one.key, timeout_s=self._link.dial_timeout_s)
            self._answered_by_others[neighbour.key] = one.key, failed.text
            return stream
        return None

    def _may_succeed(self, neighbour: Neighbour, other: PublicKey | None) -> bool:
        """Whether a key that answered at an address may have followed the neighbour's: of those that were chosen."""
        if other is None or neighbour.doubted:
            return False
        return self._successors.may_succeed(neighbour.key, other, trio.current_time())

    async def _dial_at(self, neighbour: Neighbour, others: list[Answerer], one: DialTarget) -> Stream:
        """Dial an address; add it to `others` if another key answers there that may have followed the neighbour's.

        While one of the configuration has such an answer, those that the neighbour has said are not dialled: a thief of
        the old key may have said them."""
        try:
            if one.url in neighbour.said_urls and others:
                raise ConnectFailed(*ASKS_SUCCESSOR)
            if neighbour.doubted or one.url in neighbour.said_urls:
                return await self._dial_doubted(neighbour, one)
            async with self._room:
                return await self._connect_to(neighbour, one)
        except ConnectFailed as error:
            if error.answered_by is not None and self._may_succeed(neighbour, error.answered_by):
                others.append(Answerer(one.address, error.answered_by))
            raise

    async def _connect_to(self, neighbour: Neighbour, one: DialTarget) -> Stream:
        expect, timeout_s = PublicKey(neighbour.key), self._link.dial_timeout_s
        try:
            return await transport.dial(one.address, self._key, expect, timeout_s=timeout_s)
        except ConnectFailed as error:
            raise explained(error, neighbour.key, self._formers) from None

    async def _dial_doubted(self, neighbour: Neighbour, one: DialTarget) -> Stream:
        """Dial an address of an advertised neighbour if it counts and the budget allows. An attempt that is given up
        because another address answered stays counted.

        A hint was judged by its source when it came (R-C28), but not the address that a name in it resolves to."""
        try:
            at = ip_address_of(one.address)
        except BadText as error:
            raise ConnectFailed(Reason.UNSUPPORTED, str(error)) from None
        if at is None:
            raise ConnectFailed(Reason.UNSUPPORTED, f"{one.address} is of a kind that this version does not dial")
        source = _source(neighbour, one)
        budget = self._budgets.of(source)
        async with self._room_of_doubted, self._room:  # the others are dialled, however many of these do not answer
            refused = _why_not(neighbour, at, source, on_loopback=self._on_loopback())
            refused = refused or budget.begin(neighbour.key, at, trio.current_time())
            if refused is not None:
                if (until_s := budget.rests_until_s(at)) > trio.current_time():
                    self._lengths.skipped(neighbour.key, until_s)
                raise ConnectFailed(*refused)
            try:
                stream = await self._connect_to(neighbour, one)
            except ConnectFailed as error:
                found = WhoAnswered.NO_MACHINE if error.is_unassigned else WhoAnswered.NOBODY
                found = WhoAnswered.OTHER if error.has_answered else found
                budget.end(neighbour.key, at, trio.current_time(), found, bytes(error.answered_by or b""))
                raise
            budget.end(neighbour.key, at, trio.current_time(), WhoAnswered.EXPECTED)
            return stream

    def _note(self, neighbour: Neighbour, problem: str, *, is_logged: bool = False) -> None:
        """Keep why the last attempt failed, "" if it did not; log each new reason once, until an attempt succeeds.

        It is a warning only for a neighbour that the operator has chosen, since others come and go."""
        if self._neighbours.get(neighbour.key) != neighbour:
            return  # the configuration has changed since
        level = logging.WARNING if neighbour.learned in (CONFIG, INVITED) else logging.INFO
        logged = self._logged.setdefault(neighbour.key, deque(maxlen=LOGGED_MAX))
        if not problem:
            logged.clear()
        elif not is_logged and problem not in logged and log.isEnabledFor(level):
            logged.append(problem)
            log.log(level, "%s: %s", neighbour.name or short(key_text("addr", neighbour.key)), problem)
        self.problems[neighbour.key] = problem


def _why_not(
    neighbour: Neighbour, at: IpAddress, source: AddressSource, *, on_loopback: bool
) -> tuple[Reason, str] | None:
    if source is AddressSource.NEIGHBOUR:
        return why_not_dialled(at, neighbour.urls, on_loopback=on_loopback)
    return refusal_of(at, source, on_loopback=on_loopback)


def _source(neighbour: Neighbour, one: DialTarget) -> AddressSource:
    """Return who names a doubted address of a neighbour.

    A hint was judged by its source when it came (R-C28), a datagram's sender by its interface (R-D19), but not the
    address that a name resolves to. What a neighbour says itself is judged alike before and after that."""
    if one.url in neighbour.said_urls:
        return AddressSource.NEIGHBOUR
    if neighbour.learned in (HINT, LAN) and one.address == one.url:
        return AddressSource.HINT if neighbour.learned == HINT else AddressSource.SENDER
    return AddressSource.ANYBODY
