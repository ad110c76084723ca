"""A CAPD pool: wallets post messages that are paid for by work, and find those of others by their first bytes.

Holdings     the messages, the standing queries, and their rows on disk
PoolAnswers  the answers to requests, which come as unicasts
TurnedAway   the log events about rejections
Pools        our own pools at other nodes, which reconcile with this one over routers
Neighbours   Nexa nodes and other pools, by the protocol between Nexa nodes
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from router.core.wire.codec import Malformed
from router.core.wire.forms import UnknownMessage
from router.core.wire.reasons import Reason
from router.core.wire.text import parse_key
from router.service import contract as c
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core import notes
from services.capd.core.answers import PoolAnswers
from services.capd.core.between_pools import BetweenPools, Bring, Held
from services.capd.core.full_disk import FullDisk
from services.capd.core.holdings import Holdings, data_bytes_max
from services.capd.core.limits import PoolLimits, Profile
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DOOR, Neighbours, Network
from services.capd.core.peer import TAG
from services.capd.core.pools import Pools
from services.capd.core.turned_away import TurnedAway
from services.capd.settings import Settings

TICK_S = 1.0


class CapdPool:
    """A pool with an address of its own. `limits`: the limits of its neighbours."""

    limits = NexaLimits()

    def __init__(self, setup: c.Setup) -> None:
        settings: Settings = setup.settings
        limits = PoolLimits(settings.pool_bytes, settings.data_bytes_max)
        self._bytes_max = limits.bytes_max
        self._data_bytes_max = data_bytes_max(limits, Profile(settings.profile))
        self._key = setup.key
        self._holdings = Holdings(setup.kept, limits, Profile(settings.profile))
        self._disk = FullDisk(setup.kept)
        self._is_hurried, self._tick_at_s = False, 0.0
        self._turned_away = TurnedAway()
        self._answers = PoolAnswers(self._holdings, self._turned_away)
        peers = [parse_key(one, "addr") for one in settings.peers]
        self._pools = Pools(
            [one for one in peers if one != setup.key],
            self._holdings,
            self._answers,
            self._turned_away,
        )
        self._listen = settings.listen
        network = Network(settings.network, settings.connect, settings.fetch)
        self._neighbours = Neighbours(
            network,
            self._holdings,
            self._answers,
            self._turned_away,
            Profile(settings.profile),
            setup.chance,
            self.limits,
        )

    def doors(self) -> dict[str, str]:
        return {DOOR: f"tcp://{self._listen}" if self._listen else ""}

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        self._holdings.begin()
        looked = self._look_at_disk() if isinstance(heard, c.Started | c.Tick) else []
        earlier = () if isinstance(heard, c.Message) else self._answers.accepted(now)
        return [*looked, *self._disk.fit([*earlier, *self._heard(heard, now)])]

    def _look_at_disk(self) -> list[c.Deed]:
        found = list(self._disk.look())
        self._holdings.has_room = not self._disk.is_full
        return found

    def settled(self, now: c.Now) -> list[c.Deed]:
        """Announce to neighbours and peers what was taken, whoever brought it, and answer the requests that waited for
        this turn."""
        self._holdings.begin()
        turns = *self._answers.accepted(now), *self._neighbours.settled(now), *self._answers.take_turn(now)
        return self._disk.fit([*turns, *self._pools.settled(now), *self._woken(now)])

    def _woken(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask to be woken at once while requests wait for their turn, and after that at the next tick."""
        was_hurried, self._is_hurried = self._is_hurried, self._neighbours.is_hurried or self._answers.is_held_up
        if self._is_hurried:
            yield c.Wake(now.wall_s)
        elif was_hurried:
            yield c.Wake(now.wall_s + max(0.0, self._tick_at_s - now.mono_s))

    def _heard(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard:
            case c.Started():
                yield from self._holdings.restore(int(now.wall_s))
                yield from self._neighbours.tick(now)
                yield from self._pools.tick(now)
                yield c.Wake(now.wall_s + TICK_S)
            case c.Message(source=source) if source is not None:
                yield from self._asked(heard, now)
            case c.Opened():
                yield from self._neighbours.opened(heard, now)
            case c.Came():
                yield from self._neighbours.came(heard, now)
            case c.ConnectionFailed():
                yield from self._neighbours.unconnected(heard, now)
            case c.Sent(tag) | c.HopOutcome(tag) if tag.startswith(TAG):
                self._pools.came_through(heard, now)
            case c.Asked():
                yield c.Answer(heard.number, self._told(heard, now))
            case c.Tick() if self._is_hurried and now.mono_s < self._tick_at_s:
                pass  # `settled` answers the requests that wait for their turn
            case c.Tick():
                self._tick_at_s = now.mono_s + TICK_S
                yield c.Wake(now.wall_s + TICK_S)
                yield from self._tick(now)

    def _told(self, asked: c.Asked, now: c.Now) -> dict[str, Any]:
        """Return the answer to an operator's question."""
        match asked.word:
            case "status":
                return self._status(now)
            case "peers":
                return {**self._neighbours.view(now), "pools": self._pools.view(now)}
            case "why":
                return self._answers.how_it_stands(asked.argument, int(now.wall_s))
            case "address":
                return {"address": self._key.hex(), "data_bytes_max": self._data_bytes_max}
            case "read":
                return self._read(asked.argument, now)
        said = f"a CAPD pool tells its status, address and peers, and why; it has no answer to {asked.word}"
        return {"error": said}

    def _status(self, now: c.Now) -> dict[str, Any]:
        """Return what metrics.py makes metrics of: counts, and no keys."""
        pool, view = self._holdings.pool, self._neighbours.view(now)
        lines = pool.lines(int(now.wall_s))
        return {
            "messages": len(pool),
            "bytes": pool.bytes,
            "bytes_max": self._bytes_max,
            "lines": {"relay": lines.relay, "local": lines.local},
            "neighbours": sum(bool(one["open"]) for one in view["neighbours"]),
            "pools": sum(one["present"] for one in self._pools.view(now)),
            "refused": view["refused"],
        }

    def _asked(self, message: c.Message, now: c.Now) -> Iterator[c.Deed]:
        assert message.source is not None
        try:
            said = m.decode_message(message.body)
        except UnknownMessage as error:
            yield c.Refuse(Reason.UNSUPPORTED, str(error))
        except Malformed as error:
            yield c.Refuse(Reason.MALFORMED, str(error))
        else:
            if not isinstance(said, m.Post | m.PostMany):
                yield from self._answers.accepted(now)
            if isinstance(said, BetweenPools):
                if self._disk.is_full and isinstance(said, Held | Bring):
                    yield c.Refuse(Reason.DISK_FULL)
                else:
                    yield from self._pools.hear(said, message.source, now)
            elif isinstance(said, m.Request):
                yield from self._answers.answer(said, message.source, now)
            else:
                yield c.Refuse(Reason.UNSUPPORTED, f"a CAPD pool hears no {type(said).__name__}")

    def _read(self, argument: str, now: c.Now) -> dict[str, str]:
        """Answer a request of a command of this node that could not send it as a message."""
        try:
            request = m.decode_message(b64decode(argument, validate=True))
        except (Malformed, ValueError) as error:
            return {"error": f"the request cannot be read: {error}"}
        if not isinstance(request, m.Query | m.Get | m.Info):
            return {"error": "a CAPD pool is asked so for what needs no disk: to query, to get, and for its info"}
        answer = self._answers.read(request, self._key, now)
        if answer is None:
            return {"error": f"{reasons.TOO_FAST.word}: {reasons.TOO_FAST.clause}"}
        return {"answer": b64encode(m.encode_message(answer)).decode()}

    def _tick(self, now: c.Now) -> Iterator[c.Deed]:
        now_s = int(now.wall_s)
        ended, deeds = self._holdings.expire_messages(now_s)
        yield from deeds
        yield from notes.expired(ended)
        yield from self._holdings.expire(now_s)
        yield from self._turned_away.due(now)
        yield from self._neighbours.tick(now)
        if not self._disk.is_full:
            yield from self._pools.tick(now)
