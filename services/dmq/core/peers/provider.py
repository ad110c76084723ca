"""The provider's side of message submission: the ids that a peer is told, in which order, and the bodies that it gets
(CIP-137, "Message Submission mini-protocol"; docs/dmq.md).

The peer asks for ids, and acknowledges earlier ones; what it has not acknowledged stands in a window, oldest first. A
request that breaks a rule of the window ends the connection, under the name that dmq-node has for it.

Spacing: a deployed node cuts off whoever gives it two messages of one pool within a minute. So a pool's next message is
announced `pause + SPACING_SLACK_S` after the peer was told of one of that pool, has fetched it, or has announced one
itself, and then the newest: oldest first, a peer that was away would only get what is about to expire. What the peer
announces of a pool's past does not put off a message that is newer than all it has: a peer that spaces as well tells
its old ones one after another, and the new one would wait for the last of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from enum import Enum
from heapq import heappop, heappush
from math import inf

from router.core.link.machine import RemoteProtocolError
from router.core.wire.reasons import Reason

from ..mempool import Mempool, Row
from ..messages.authentication import Moment
from ..messages.certificate import PoolId
from ..number_set import NumberSet

WINDOW_MAX = 132
"""Most ids that a peer has been told and has not acknowledged: four requests of 33."""
NO_IDS_S = 17.0
"""Seconds after which a request that blocks is answered without ids; the peer waits for 20 s."""
SPACING_SLACK_S = 2.0
"""Seconds that are added to a pool's pause, for the way and for clocks."""
GATHER_S = 0.1
"""How long after an answer with ids the next request that blocks waits at most for a full answer: each one costs both
sides as much as several ids."""
GIVEN_BYTES_MAX = 97_000
"""Most bytes of bodies in one reply, below the 98,000 that a peer reads; what goes beyond is left out."""


class WindowRule(Enum):
    """What a request for ids or bodies may not do, by dmq-node's names."""

    ACKED_TOO_MANY = "AckedTooManySigIds"
    REQUESTED_TOO_MANY = "RequestedTooManySigIds"
    REQUESTED_NOTHING = "RequestedNothing"
    BLOCKING = "RequestBlocking"
    NON_BLOCKING = "RequestNonBlocking"
    UNAVAILABLE = "RequestedUnavailableSig"


class Spacing:
    """The times from which on one peer may be told the next message of each pool; `pause_s` 0: at once. It outlasts a
    connection, as the peer's own clock does."""

    def __init__(self, pause_s: float) -> None:
        self._spacing_s = pause_s + SPACING_SLACK_S if pause_s else 0.0
        self._clear_s: dict[PoolId, float] = {}

    def __repr__(self) -> str:
        return f"<Spacing of {self._spacing_s:g} s, {len(self._clear_s)} pools>"

    @property
    def is_on(self) -> bool:
        return self._spacing_s > 0

    @property
    def seconds(self) -> float:
        """Return how far apart two messages of one pool are announced; 0: there is no spacing."""
        return self._spacing_s

    def knows(self, pool: PoolId, now_s: float) -> None:
        """Record that the peer has, or is about to have, a message of the pool."""
        if self._spacing_s:
            self._clear_s[pool] = now_s + self._spacing_s

    def knows_each(self, pools: Iterable[PoolId], now_s: float) -> None:
        """Record the same of several pools."""
        if self._spacing_s:
            self._clear_s |= dict.fromkeys(pools, now_s + self._spacing_s)

    def clear_s(self, pool: PoolId) -> float:
        """Return when the peer may be told the next message of the pool."""
        return self._clear_s.get(pool, -inf)

    def forget(self, now_s: float) -> bool:
        """Drop what is over; return whether anything is left."""
        self._clear_s = {pool: clear_s for pool, clear_s in self._clear_s.items() if clear_s > now_s}
        return bool(self._clear_s)


class Spacings:
    """The spacing of each peer, which is kept until it is over."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._of: dict[str, Spacing] = {}

    def __repr__(self) -> str:
        return f"<Spacings of {len(self._of)} peers>"

    @property
    def seconds(self) -> float:
        """Return how far apart two messages of one pool are announced to a peer; 0: there is no spacing."""
        return Spacing(self._pause_s).seconds

    def of(self, peer: str) -> Spacing:
        return self._of.setdefault(peer, Spacing(self._pause_s))

    def forget(self, connected: Collection[str], now_s: float) -> None:
        """Drop what is over, and the peers that are gone."""
        for peer, spacing in list(self._of.items()):
            if not spacing.forget(now_s) and peer not in connected:
                del self._of[peer]


class Provider:
    """What one peer is told and given. `answers_none`: whether a request that blocks is answered after a while without
    ids, as in version 2. `was_asked`: whether the peer fetches from us. `spaced_out`: how many messages expired before
    their turn came."""

    def __init__(self, mempool: Mempool, spacing: Spacing, *, answers_none: bool = True) -> None:
        self._mempool = mempool
        self._spacing = spacing
        self._answers_none = answers_none
        self._window: deque[bytes] = deque()  # ids
        self._numbers: dict[bytes, int] = {}  # those in the window, by id
        self._queued_to = 0  # the pools of messages up to this number stand in a queue, or have nothing to tell
        self._done = NumberSet(mempool.oldest)  # what the peer was told, or has, or does not get
        self._ready: list[tuple[int, PoolId]] = []  # heap of pools whose turn it is
        self._held: list[tuple[float, PoolId]] = []  # heap of pools that wait for their turn
        self._due: dict[PoolId, float] = {}  # the one entry of a pool that counts: -inf in `_ready`, else in `_held`
        self._asked: tuple[int, float] | None = None  # the request that blocks: how many ids, and until when
        self._gathers_until_s = -inf
        self.spaced_out = 0
        self.was_asked = False
        self.told = 0
        self.given = 0

    def __repr__(self) -> str:
        return f"<Provider: {len(self._window)} unacknowledged, {len(self._due)} pools wait>"

    @property
    def is_asked(self) -> bool:
        """Whether a request for ids waits for an answer."""
        return self._asked is not None

    @property
    def due_s(self) -> float:
        """When `wake` has something to say, if nothing is taken until then."""
        if self._asked is None:
            return inf
        return min(self._asked[1], self._held[0][0] if self._held else inf, self._gathered_s)

    @property
    def _gathered_s(self) -> float:
        """When the ids are to be told that wait for a full answer; infinity if none do."""
        waits = self._gathers_until_s > -inf and (self._ready or self._mempool.last > self._queued_to)
        return self._gathers_until_s if waits else inf

    # -- requests ------------------------------------------------------------------------------------------

    def request_ids(self, blocking: bool, acknowledged: int, most: int, now: Moment) -> tuple[Row, ...] | None:
        """Return the messages whose ids answer a request; None: it blocks, and `wake` will answer. Raise
        `RemoteProtocolError`."""
        if (rule := self._broken(blocking, acknowledged, most)) is not None:
            raise _error(rule, f"{len(self._window)} unacknowledged, {acknowledged} acknowledged, {most} requested")
        window, numbers = self._window, self._numbers
        for _ in range(acknowledged):
            numbers.pop(window.popleft(), None)
        self.was_asked = True
        if not blocking:
            return self._next(most, now)
        self._asked = most, now.mono_s + NO_IDS_S if self._answers_none else inf
        return self.wake(now)

    def wake(self, now: Moment) -> tuple[Row, ...] | None:
        """Return the answer to the request that blocks, `()` if there is no id and it has waited long enough; None if
        there is no such request, or it has still to wait."""
        if self._asked is None:
            return None
        most, until_s = self._asked
        if now.mono_s < min(self._gathers_until_s, until_s) and self._few_wait(most):
            return None
        found = self._next(most, now)
        if not found and now.mono_s < until_s:
            return None
        self._asked = None
        if found:
            self._gathers_until_s = now.mono_s + GATHER_S
        return found

    def _few_wait(self, most: int) -> bool:
        """Whether fewer ids than that can be told by now."""
        return self._mempool.last - self._queued_to + len(self._ready) < most

    def request_bodies(self, ids: Iterable[bytes], now: Moment) -> list[Row]:
        """Return the messages that were asked for and are still live; raise `RemoteProtocolError`."""
        found: list[Row] = []
        size = 0
        for own_id in ids:
            number = self._numbers.get(own_id)
            if number is None:
                raise _error(WindowRule.UNAVAILABLE, f"{own_id.hex()[:16]}… is not one of {len(self._window)} told")
            row = self._mempool.get(number)
            if row is None or row.expires_at < now.wall_s or size + row.size > GIVEN_BYTES_MAX:
                continue
            size += row.size
            found.append(row)
            self._spacing.knows(row.pool, now.mono_s)
        self.given += len(found)
        return found

    def _broken(self, blocking: bool, acknowledged: int, most: int) -> WindowRule | None:
        """Return the rule that a request for ids breaks, in dmq-node's order."""
        left = len(self._window) - acknowledged
        if left < 0:
            return WindowRule.ACKED_TOO_MANY
        if left + most > WINDOW_MAX:
            return WindowRule.REQUESTED_TOO_MANY
        if not most and (blocking or not acknowledged):
            return WindowRule.REQUESTED_NOTHING
        if blocking and left:
            return WindowRule.BLOCKING
        return None if blocking or left else WindowRule.NON_BLOCKING

    # -- what changes meanwhile ----------------------------------------------------------------------------

    def peer_has(self, row: Row, now_s: float) -> None:
        """Record that the peer itself has announced a message, which is live here."""
        if not self._is_past(row):
            self._spacing.knows(row.pool, now_s)
        self._done.add(row.number)

    def _is_past(self, row: Row) -> bool:
        """Whether the peer has a newer message of the pool, and still lacks the newest."""
        numbers = self._mempool.of_pool(row.pool)
        if len(numbers) < 3:
            return False
        ends = {number: one.expires_at for number in numbers if (one := self._mempool.get(number)) is not None}
        known = max((end for number, end in ends.items() if number in self._done), default=-inf)
        return row.expires_at < known < max(ends.values())

    def expired(self, rows: Iterable[Row], now_s: float) -> list[Row]:
        """Forget messages that have expired; return those that the peer was not told for their pool's spacing."""
        untold = (row for row in rows if row.number <= self._queued_to and row.number not in self._done)
        spaced = [row for row in untold if self._spacing.clear_s(row.pool) > now_s]
        self.spaced_out += len(spaced)
        self._done.forget_below(self._mempool.oldest)
        return spaced

    # -- the operator --------------------------------------------------------------------------------------

    def turns(self, pool: PoolId, now: Moment) -> dict[int, float]:
        """Return the Unix second at which it will be the turn of each live message of a pool, by its number, if no
        other comes; without those that the peer knows or may be told at once, and nothing if it fetches nothing."""
        if not self.was_asked:
            return {}
        found, at_s = dict[int, float](), now.wall_s + max(self._spacing.clear_s(pool) - now.mono_s, 0.0)
        rows = self._untold(pool)
        while rows:
            at_s = max(at_s, min(row.peers_at for row in rows))
            place = next(place for place, row in enumerate(rows) if row.peers_at <= at_s)
            found[rows.pop(place).number] = at_s
            at_s += self._spacing.seconds
        return {number: turn_s for number, turn_s in found.items() if turn_s > now.wall_s}

    def held_back(self, now: Moment) -> list[PoolId]:
        """Return the pools of which a message waits for its turn."""
        return [pool for pool, due_s in self._due.items() if due_s > now.mono_s] if self.was_asked else []

    def count_untold(self, pools: Iterable[PoolId]) -> int:
        """Return how many live messages of these pools the peer is still to be told."""
        return sum(number not in self._done for pool in pools for number in self._mempool.of_pool(pool))

    # -- the order -----------------------------------------------------------------------------------------

    def _next(self, most: int, now: Moment) -> tuple[Row, ...]:
        while self._held and self._held[0][0] <= now.mono_s:
            until_s, pool = heappop(self._held)
            if self._due.get(pool) == until_s:
                self._queue(pool)
        found = [] if self._ready or self._many_are_new else self._told_at_once(most, now)
        if len(found) < most:
            self._queue_new()
        while self._ready and len(found) < most:
            pool = heappop(self._ready)[1]
            if self._due.get(pool) != -inf:
                continue
            del self._due[pool]
            if (row := self._turn(pool, now)) is not None:
                found.append(row)
                self._spacing.knows(pool, now.mono_s)
                self._hold(pool, self._spacing.clear_s(pool), now)
        self._window += [row.id for row in found]
        self._numbers |= {row.id: row.number for row in found}
        self.told += len(found)
        return tuple(found)

    def _told_at_once(self, most: int, now: Moment) -> list[Row]:
        """Tell new messages in their order, up to one that is not the only live one of a pool whose turn it is; nearly
        all are, and stand in no queue."""
        lone, done, due, spacing, found = self._mempool.lone, self._done, self._due, self._spacing, list[Row]()
        for row in self._mempool.after(self._queued_to):
            if (number := row.number) not in done:
                is_turn = number in lone and (pool := row.pool) not in due and spacing.clear_s(pool) <= now.mono_s
                if not is_turn or row.id in self._numbers or len(found) == most:
                    break
                found.append(row)
                done.add(number)
            self._queued_to = number
        spacing.knows_each([row.pool for row in found], now.mono_s)
        return found

    @property
    def _many_are_new(self) -> bool:
        """Whether there are more new messages than pools."""
        return self._mempool.last - self._queued_to > self._mempool.pools_count

    def _queue_new(self) -> None:
        """Let it be the turn of each pool with a message that was taken since the last time. Nothing is kept of each
        message, and of many ones each pool is looked at once: a peer that connects again and again costs little."""
        mempool, after, many = self._mempool, self._queued_to, self._many_are_new
        self._queued_to = mempool.last
        if many:
            for pool in mempool.pools:
                self._queue(pool)
            return
        for row in mempool.after(after):
            if row.number in self._done:
                continue
            if len(mempool.of_pool(row.pool)) > 1 or row.pool in self._due:
                self._queue(row.pool)
            else:  # nearly all: it is the pool's only one
                self._due[row.pool] = -inf
                heappush(self._ready, (row.number, row.pool))

    def _turn(self, pool: PoolId, now: Moment) -> Row | None:
        """Return the message of the pool that is told now; None: none, or not yet."""
        if (clear_s := self._spacing.clear_s(pool)) > now.mono_s:
            self._hold(pool, clear_s, now)
            return None
        later_s = inf
        for row in self._untold(pool):
            if row.peers_at > now.wall_s:
                later_s = min(later_s, row.peers_at)
                continue
            self._done.add(row.number)
            if row.id not in self._numbers and self._mempool.served(row.id) == row.number:
                return row
        if later_s < inf:
            self._hold(pool, now.mono_s + (later_s - now.wall_s), now)
        return None

    def _untold(self, pool: PoolId) -> list[Row]:
        """Return the pool's messages that the peer is still to be told, in their order: with spacing, the one that
        lives longest is the newest, whenever it came here."""
        numbers = [one for one in self._mempool.of_pool(pool) if one not in self._done]
        rows = [row for one in numbers if (row := self._mempool.get(one)) is not None]
        if len(rows) > 1 and self._spacing.is_on:
            rows.sort(key=lambda row: (row.expires_at, row.number), reverse=True)
        return rows

    def _queue(self, pool: PoolId) -> None:
        """Let it be the turn of a pool, unless it is already."""
        if self._due.get(pool) == -inf:
            return
        numbers = self._mempool.of_pool(pool)
        ordered = reversed(numbers) if self._spacing.is_on else numbers
        first = next((one for one in ordered if one not in self._done), None)
        if first is None:
            self._due.pop(pool, None)
        else:
            self._due[pool] = -inf
            heappush(self._ready, (first, pool))

    def _hold(self, pool: PoolId, until_s: float, now: Moment) -> None:
        """Let a pool with further messages wait for its turn."""
        if until_s <= now.mono_s:
            self._queue(pool)
        elif not all(map(self._done.__contains__, self._mempool.of_pool(pool))):
            self._due[pool] = until_s
            heappush(self._held, (until_s, pool))


def _error(rule: WindowRule, text: str) -> RemoteProtocolError:
    return RemoteProtocolError(Reason.WINDOW_EXCEEDED, f"{rule.value}: {text}")
