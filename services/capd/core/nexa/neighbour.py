"""One neighbour: its session, its line and ours, what it waits for, and how much it has read.

What a neighbour has read is known by its answers to our pings: so one that never reads holds no more than a window of
answers, and then is closed, without a word of the network between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from router.core.link.allowance import Allowance
from router.core.link.machine import RemoteProtocolError
from router.core.wire.reasons import Reason
from router.core.wire.text import clean
from router.service import contract as c
from services.capd import reasons
from services.capd.core.priority import RELAY_PRIORITY
from services.capd.core.view import number

from .addresses import Addresses, host_of
from .limits import UNIT_BYTES, NexaLimits
from .packets import Message, Ping
from .session import Heard, Session
from .told_line import ToldLine

AGENT_BYTES_MAX = 64


class Origin(NamedTuple):
    """A connection: its door and stream there, the other end's HOST:PORT, and what it was dialled by, "" if the other
    side has dialled."""

    door: str
    peer: str
    address: str
    target: str = ""


class Neighbour:
    """A connection. `line`: the least priority that it wants to be sent. `requests`: what it asked for and waits for.
    `fault`: why we close the connection."""

    def __init__(
        self, origin: Origin, session: Session, addresses: Addresses, limits: NexaLimits, now_s: float
    ) -> None:
        self.door, self.peer, self.address, self.target = origin
        self.host = host_of(origin.address)
        self.session = session
        self.line = RELAY_PRIORITY
        self.told_line = ToldLine()
        self.requests: deque[Heard] = deque()
        self.wanted: dict[bytes, None] = {}
        """Ids that it has announced and that it may be asked for."""
        self.later: dict[bytes, float] = {}
        """Ids that it has announced and that were asked of another first; when it is its turn."""
        self.asked: dict[bytes, float] = {}
        """Ids that it was asked for and has not sent, and since when."""
        self.is_listing, self.next_page = False, 0
        """Whether it was asked which messages it holds, and the number to ask on with."""
        self.told: dict[tuple[int, bytes], None] = {}
        """The matches that it was told of, by the cookie of its query."""
        self.subscriptions = 0
        """Its standing queries."""
        self.turn_left = limits.turn_units
        """Units of searches that are left of its present turn."""
        self.waiting_ids = 0
        """Ids in its requests."""
        self.counts: Counter[str] = Counter()
        self.fault: tuple[Reason, str] | None = None
        self._broken: RemoteProtocolError | None = None
        self.has_ended = False
        self.is_greeted = False
        """Whether its greeting has been heard of."""
        self._limits = limits
        self._addresses = addresses
        self._allowance = Allowance(limits.units_per_s, limits.units_burst)
        self._paid = 0, 0  # packets and skipped bytes that are paid for
        self._written = self._read_upto = 0
        self._ping: tuple[int, int, float] | None = None  # its number, bytes written with it, and when
        self._pinged_s = now_s
        self.opened_s = now_s

    def __repr__(self) -> str:
        return f"<Neighbour {self.name}: {self.session!r}>"

    @property
    def name(self) -> str:
        """Return how people see it."""
        return self.target or self.address or f"stream {self.peer}"

    @property
    def is_open(self) -> bool:
        """Whether both sides may speak of messages."""
        return self.session.is_open and self.fault is None

    @property
    def agent(self) -> str:
        """Return what it calls itself, made printable."""
        version = self.session.version
        return "" if version is None else clean(version.agent.decode("utf-8", "replace"), AGENT_BYTES_MAX)

    @property
    def direction(self) -> str:
        """Return who has dialled: "out" if we have, "in" if the other side has."""
        return "out" if self.target else "in"

    # -- in ------------------------------------------------------------------------------------------------

    def feed(self, data: bytes, now_s: float) -> list[Heard]:
        """Return what the bytes complete; `fed` is to be called when that is dealt with."""
        try:
            found = self.session.hear(data, now_s)
        except RemoteProtocolError as error:
            self._broken = error
            found = list(error.before)
        packets, skipped = self.session.packets, self.session.skipped
        units = packets - self._paid[0] + (skipped - self._paid[1]) // UNIT_BYTES
        self._paid = packets, skipped - (skipped - self._paid[1]) % UNIT_BYTES
        self.pay(units, now_s)
        return found

    def fed(self) -> None:
        """Close the connection if what came last was wrong."""
        if self._broken is not None:
            self.stop(self._broken.reason, self._broken.text)

    def pay(self, units: int, now_s: float) -> bool:
        """Take units of work from the allowances of connection and address; without enough the connection ends."""
        if self.fault is None and not self._allowance.take(units, now_s):
            self.stop(reasons.ASKS_TOO_MUCH, f"more than {self._limits.units_per_s:g} units a second")
        elif self.fault is None and not self._addresses.take(self.host, units, now_s):
            self.stop(
                reasons.ASKS_TOO_MUCH, f"its address asks for more than {self._addresses.units_per_s:g} units a second"
            )
        return self.fault is None

    def refund(self, units: int, now_s: float) -> None:
        """Give units back: what they were for has been paid for by work."""
        self._allowance.charge(-units, now_s)
        self._addresses.take(self.host, -units, now_s)

    def may_subscribe(self, count: int) -> bool:
        """Count standing queries of its address, or fewer; return whether it may have so many."""
        return self._addresses.subscribe(self.host, count)

    def stop(self, reason: Reason, text: str = "") -> None:
        """Close the connection, once what is queued has been written; the first cause holds."""
        self.fault = self.fault or (reason, text)

    def ponged(self, nonce: int) -> None:
        """Hear an answer to a ping: all that was written before it has been read."""
        if self._ping is not None and self._ping[0] == nonce:
            self._read_upto, self._ping = self._ping[1], None

    # -- out -----------------------------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        """Return how many bytes were written that it may not have read."""
        return self._written - self._read_upto

    @property
    def has_room(self) -> bool:
        """Whether it has read enough of what was written that more may be answered."""
        return self.is_open and self.unread_bytes + self.session.queued_bytes < self._limits.unread_bytes

    def say(self, message: Message, cookie: int = 0) -> None:
        """Queue something to say."""
        if self.fault is None:
            self.session.say(message, cookie)

    def write(self, chance: c.Chance, now_s: float) -> Iterator[c.Deed]:
        """Write what is queued, and close the connection if it has a fault."""
        data = self.session.take()
        self._written += len(data)
        if self.is_open and self._ping is None:
            is_due = self.unread_bytes >= self._limits.ping_bytes or now_s - self._pinged_s >= self._limits.ping_s
            if is_due:
                nonce = 1 + chance.randrange((1 << 64) - 1)
                self.session.say(Ping(nonce))
                more = self.session.take()
                data += more
                self._written += len(more)
                self._ping, self._pinged_s = (nonce, self._written, now_s), now_s
        if data:
            yield c.Write(self.door, self.peer, data)
        if self.fault is not None and not self.has_ended:
            self.has_ended = True
            yield c.Write(self.door, self.peer, b"")

    def overdue(self, now_s: float) -> None:
        """Judge what it has not done in time."""
        if late := self.session.overdue(now_s):
            self.stop(reasons.TOO_SLOW, late)
        elif self._ping is not None and now_s - self._ping[2] >= self._limits.pong_s:
            said = f"{self.unread_bytes} bytes wait, no answer to a ping within {self._limits.pong_s:g} s"
            self.stop(reasons.DOES_NOT_READ, said)

    def view(self, points: float, now_s: float) -> dict[str, Any]:
        """Return what is shown of it."""
        return {
            "address": self.address,
            "direction": self.direction,
            "target": self.target,
            "agent": self.agent,
            "open": self.is_open,
            "seconds": int(now_s - self.opened_s),
            "line": number(self.line),
            "ban_line": number(self.told_line.ban_line(now_s)),
            "points": round(points, 1),
            "unread_bytes": self.unread_bytes,
            **self.counts,
        }
