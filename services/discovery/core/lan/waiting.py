"""New routers that wait for a place, and which of them has the next turn (R-D19).

Each turn costs the router commits and this node a dial, so there are only a few a second. Anybody can make keys, send
from any address, and repeat a signed datagram at no cost but its bytes. So the datagrams of a router count at most once
in `SLOT_S`, and lose weight as time passes: the router goes first that has been speaking for longest without a pause.
Keeping another from that costs an attacker one datagram in each slot for each key that goes before it: at R datagrams a
second there are R * `SLOT_S` such keys, however long it has prepared, and whoever speaks in each slot, as a new node
does in a crowd (`schedule.py`), waits until these had their turns.

Of `CYCLE` turns one goes to who came first of those that go on speaking, in whatever rhythm; and one, over IPv4 and
IPv6 alternately, to a source that had none lately, so a host with few addresses keeps nobody waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Came
from services.discovery.core.lan.neighbours import Source
from services.discovery.core.lan.paces import Pace
from services.discovery.core.lan.schedule import PAUSE_S_MAX

TURNS_PER_S = 10
CYCLE = 8
LATELY_S = 30.0
"""How long a source counts as one that had its turn."""
SLOT_S = 0.4
"""The time in which a router's datagrams count once."""
WEIGHT_S = 4.0
"""The time after which a datagram has lost all but 1/e of its weight: ten slots."""
CROWD = 4 * TURNS_PER_S
"""From so many on that wait, a new node speaks in each slot."""
ONCE_MAX, AGAIN_MAX = 1280, 2560
"""Most routers that wait after one datagram, and after datagrams in several slots, over each of IPv4 and IPv6. Each
takes up to 1.5 KB."""
STALE_S = 30.0
"""After how long a silent router is forgotten: three periods of its datagrams."""
TURN_S = 1 / TURNS_PER_S


class Newcomer(Struct, eq=False):
    """A router that waits: its first datagram with the last signature that was checked, and when it was heard first and
    last.

    `weight`: the logarithm of the weight of its datagrams, as it was at second 0, so that those of all routers compare
    at any time; `settled`: the same without the last slot, `slot`, in which others may not have spoken yet."""

    key: PublicKey
    came: Came
    source: Source
    first_s: float
    heard_s: float
    slot: int
    weight: float
    is_six: bool
    settled: float = -math.inf

    def count(self, now_s: float) -> None:
        """Count a datagram."""
        slot, self.heard_s = int(now_s / SLOT_S), now_s
        if slot > self.slot:
            at = slot * SLOT_S / WEIGHT_S
            self.slot, self.settled = slot, self.weight
            self.weight = at + math.log1p(math.exp(self.weight - at))

    def rank(self, slot: int) -> tuple[float, float]:
        """Return what is greatest for whom goes first in that slot: of several the one that came first."""
        return (self.settled if self.slot == slot else self.weight), -self.first_s


class _Room:
    """Those that wait over one IP version: who was heard in one slot, and who was heard again, each in the order of its
    last datagram. Who has waited longest without a word leaves when there are too many."""

    def __init__(self) -> None:
        self._once: dict[PublicKey, Newcomer] = {}
        self._again: dict[PublicKey, Newcomer] = {}

    def __len__(self) -> int:
        return len(self._once) + len(self._again)

    def __iter__(self) -> Iterator[Newcomer]:
        return chain(self._once.values(), self._again.values())

    @property
    def speakers(self) -> Iterable[Newcomer]:
        """Return those that were heard again, or all if nobody was."""
        return (self._again or self._once).values()

    def get(self, key: PublicKey) -> Newcomer | None:
        return self._once.get(key) or self._again.get(key)

    def pop(self, key: PublicKey) -> Newcomer | None:
        return self._once.pop(key, None) or self._again.pop(key, None)

    def put(self, one: Newcomer) -> None:
        """Record a router's datagram, which it has counted."""
        self.pop(one.key)
        (self._once if one.settled == -math.inf else self._again)[one.key] = one

    def leaving(self, now_s: float) -> Iterator[Newcomer]:
        """Remove those that have fallen silent or are too many."""
        for each, most in ((self._once, ONCE_MAX), (self._again, AGAIN_MAX)):
            while each:
                first = next(iter(each))
                if len(each) <= most and each[first].heard_s > now_s - STALE_S:
                    break
                yield each.pop(first)


class Waiting:
    """The new routers that wait. Their signatures have been checked."""

    def __init__(self) -> None:
        self._rooms = _Room(), _Room()
        self._said: dict[bytes, Newcomer] = {}
        self._left: list[Newcomer] = []
        self._pace = Pace(TURNS_PER_S)
        self._had_turns: dict[
            str, float
        ] = {}  # by source, the latest last: until when it counts as one that had a turn
        self._turns = 0

    def __repr__(self) -> str:
        return f"<waiting: {len(self)}, {self._turns} had their turns>"

    def __len__(self) -> int:
        return len(self._said)

    @property
    def is_crowd(self) -> bool:
        """Whether so many wait that a new node does well to speak in each slot."""
        return len(self) >= CROWD

    def has_turn(self, now_s: float) -> bool:
        """Whether somebody waits and may have a turn now."""
        return len(self) > 0 and self._pace.has_room(now_s)

    def said(self, key: PublicKey) -> bytes:
        """Return the last datagram of a waiting router, b"" if it does not wait."""
        return next((one.came.data for room in self._rooms if (one := room.get(key)) is not None), b"")

    def repeats(self, data: bytes, now_s: float) -> bool:
        """Whether this is what a waiting router said last; if so, it is counted."""
        one = self._said.get(data)
        if one is None:
            return False
        if int(now_s / SLOT_S) > one.slot:
            self._count(one, now_s)
        return True

    def put(self, key: PublicKey, came: Came, source: Source, now_s: float) -> None:
        """Let a router wait, or count it again and keep what it has signed anew."""
        one = next((found for room in self._rooms if (found := room.get(key)) is not None), None)
        if one is not None:
            del self._said[one.came.data]
            one.came, one.source = came, source
        else:
            slot = int(now_s / SLOT_S)
            weight, is_six = slot * SLOT_S / WEIGHT_S, source.ip.version == 6
            one = Newcomer(key, came, source, now_s, now_s, slot, weight, is_six)
        self._said[came.data] = one
        self._count(one, now_s)

    def _count(self, one: Newcomer, now_s: float) -> None:
        one.count(now_s)
        self._rooms[one.is_six].put(one)
        self._forget(self._rooms[one.is_six], now_s)

    def _forget(self, room: _Room, now_s: float) -> None:
        for one in room.leaving(now_s):
            del self._said[one.came.data]
            self._left.append(one)

    def remove(self, key: PublicKey) -> None:
        for room in self._rooms:
            if (one := room.pop(key)) is not None:
                del self._said[one.came.data]

    def clear(self) -> None:
        self._rooms = _Room(), _Room()
        self._said.clear()

    def turns(self, now_s: float) -> Iterator[Newcomer]:
        """Yield the routers whose turns have come; they wait no longer."""
        while len(self) and self._pace.take(self._turns, now_s):
            self._turns += 1
            one = self._next(now_s)
            self.remove(one.key)
            self._had_turns.pop(host := _host(one), None)
            self._had_turns[host] = now_s + LATELY_S
            yield one

    def _next(self, now_s: float) -> Newcomer:
        """Return the router whose turn it is."""
        number, turn = divmod(self._turns, CYCLE)
        slot = int(now_s / SLOT_S)
        if turn == 2:
            return self._from_new_source(number, now_s) or self._first(slot)
        if turn == 6:
            patient = (one for one in self._speakers() if one.heard_s >= now_s - PAUSE_S_MAX)
            return min(patient, key=lambda one: one.first_s, default=None) or self._first(slot)
        return self._first(slot)

    def _first(self, slot: int) -> Newcomer:
        """Return the router that has been speaking for longest without a pause."""
        return max(self._speakers(), key=lambda one: one.rank(slot))

    def _speakers(self) -> Iterator[Newcomer]:
        return (one for room in self._rooms for one in room.speakers)

    def _from_new_source(self, number: int, now_s: float) -> Newcomer | None:
        """Return the first one of those whose source had no turn lately, None if there are none."""
        while self._had_turns and self._had_turns[first := next(iter(self._had_turns))] <= now_s:
            del self._had_turns[first]
        slot, room = int(now_s / SLOT_S), self._rooms[number % 2] or self._rooms[(number + 1) % 2]
        found = (one for one in room if _host(one) not in self._had_turns)
        return max(found, key=lambda one: one.rank(slot), default=None)

    def left(self, now_s: float) -> list[Newcomer]:
        """Return those that had no turn since the last call: they fell silent, or too many wait."""
        for room in self._rooms:
            self._forget(room, now_s)
        left, self._left = self._left, []
        return left


def _host(one: Newcomer) -> str:
    """Return the source of its datagrams without the port."""
    return one.came.peer.rpartition(":")[0]
