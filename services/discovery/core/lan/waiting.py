"""New routers that wait for a place, and which of them has the next turn (D19).

Each turn costs the router commits and this node a dial, so there are only a few a second. Anybody can make keys, and
send from any address; what a forger cannot make are datagrams at no cost. So the router that was heard most often goes
first: at R datagrams a second an attacker keeps a newcomer waiting until that was heard R / `TURNS_PER_S` times, and by
keys that it names once each for no longer than its second datagram. Every other turn goes to sources that had none
lately, so a host with few addresses keeps nobody waiting. Whoever had its turn starts again from the first datagram.

Those that come over IPv4 and over IPv6 wait apart and have turns alternately: an IPv6 host has any number of addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Came
from services.discovery.core.lan.neighbours import Source
from services.discovery.core.lan.paces import Pace

TURNS_PER_S = 10
LATELY_S = 30.0
"""How long a source counts as one that had its turn."""
ONCE_MAX = AGAIN_MAX = 1280
"""Most routers that wait after one datagram, and after several, over each of IPv4 and IPv6: as many as
send 100 datagrams a second, each one in the longest pause of the schedule. Each takes up to 1.5 KB."""
STALE_S = 30.0
"""After how long a silent router is forgotten: three periods of its datagrams."""
TURN_S = 1 / TURNS_PER_S


class Newcomer(Struct, eq=False):
    """A router that waits: its first datagram with the last signature that was checked, how often it was heard, and
    when it was first and last."""

    key: PublicKey
    came: Came
    source: Source
    first_s: float
    heard_s: float
    times: int = 1


class _Room:
    """Those that wait over one IP version: who was heard once, and who was heard again, each in the order of its last
    datagram. Who has waited longest without a word leaves when there are too many."""

    def __init__(self) -> None:
        self._once: dict[PublicKey, Newcomer] = {}
        self._again: dict[PublicKey, Newcomer] = {}

    def __len__(self) -> int:
        return len(self._once) + len(self._again)

    def get(self, key: PublicKey) -> Newcomer | None:
        return self._once.get(key) or self._again.get(key)

    def pop(self, key: PublicKey) -> Newcomer | None:
        return self._once.pop(key, None) or self._again.pop(key, None)

    def put(self, key: PublicKey, one: Newcomer) -> None:
        """Record a router's datagram."""
        self.pop(key)
        (self._once if one.times == 1 else self._again)[key] = one

    def leaving(self, now_s: float) -> Iterator[Newcomer]:
        """Remove those that have fallen silent or are too many."""
        for each, most in ((self._once, ONCE_MAX), (self._again, AGAIN_MAX)):
            while each:
                first = next(iter(each))
                if len(each) <= most and each[first].heard_s > now_s - STALE_S:
                    break
                yield each.pop(first)

    def first(self, had_turns: Pace | None, now_s: float) -> Newcomer:
        """Return the one that was heard most often, of several the one that came first; `had_turns`: but if there are
        any whose source had no turn lately, one of these."""
        often = sorted([*self._once.values(), *self._again.values()], key=lambda one: (-one.times, one.first_s))
        if had_turns is None:
            return often[0]
        return next((one for one in often if had_turns.allows(one.source, now_s)), often[0])


class Waiting:
    """The new routers that wait. Their signatures have been checked."""

    def __init__(self) -> None:
        self._rooms = _Room(), _Room()
        self._left: list[Newcomer] = []
        self._pace = Pace(TURNS_PER_S)
        self._had_turns = Pace(int(TURNS_PER_S * LATELY_S) + 1, LATELY_S, each_s=LATELY_S)
        self._turns = 0

    def __repr__(self) -> str:
        return f"<waiting: {len(self)}, {self._turns} had their turns>"

    def __len__(self) -> int:
        return sum(map(len, self._rooms))

    def has_turn(self, now_s: float) -> bool:
        """Whether somebody waits and may have a turn now."""
        return len(self) > 0 and self._pace.has_room(now_s)

    def said(self, key: PublicKey) -> bytes:
        """Return the last datagram of a waiting router, b"" if it does not wait."""
        return next((one.came.data for room in self._rooms if (one := room.get(key)) is not None), b"")

    def repeats(self, key: PublicKey, data: bytes, now_s: float) -> bool:
        """Whether this is what a waiting router said last; if so, it is counted."""
        for room in self._rooms:
            one = room.get(key)
            if one is not None and one.came.data == data:
                self._count(room, one, now_s)
                return True
        return False

    def put(self, key: PublicKey, came: Came, source: Source, now_s: float) -> None:
        """Let a router wait, or count it again and keep what it has signed anew."""
        for room in self._rooms:
            one = room.get(key)
            if one is not None:
                one.came, one.source = came, source
                return self._count(room, one, now_s)
        room = self._rooms[source.ip.version == 6]
        room.put(key, Newcomer(key, came, source, now_s, now_s))
        self._left += room.leaving(now_s)
        return None

    def _count(self, room: _Room, one: Newcomer, now_s: float) -> None:
        one.times, one.heard_s = one.times + 1, now_s
        room.put(one.key, one)
        self._left += room.leaving(now_s)

    def remove(self, key: PublicKey) -> None:
        for room in self._rooms:
            room.pop(key)

    def clear(self) -> None:
        self._rooms = _Room(), _Room()

    def turns(self, now_s: float) -> Iterator[Newcomer]:
        """Yield the routers whose turns have come; they wait no longer."""
        while len(self) and self._pace.take(self._turns, now_s):
            self._turns += 1
            room = self._rooms[self._turns % 2] or self._rooms[(self._turns + 1) % 2]
            one = room.first(self._had_turns if self._turns // 2 % 2 else None, now_s)
            room.pop(one.key)
            self._had_turns.take(one.source, now_s)
            yield one

    def left(self, now_s: float) -> list[Newcomer]:
        """Return those that had no turn since the last call: they fell silent, or too many wait."""
        left, self._left = self._left, []
        return [*left, *(one for room in self._rooms for one in room.leaving(now_s))]
