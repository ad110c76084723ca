"""One neighbour: its session, its line and ours, its waiting requests, and how much it has read.

A neighbour's answers to our pings show what it has read: one that never reads holds no more than a window of answers,
and is then closed, without any help of the network between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.link.machine import RemoteProtocolError
from router.core.wire.reasons import Reason
from router.core.wire.text import clean
from router.service import contract as c
from services.capd import reasons
from services.capd.core.priority import RELAY_PRIORITY
from services.capd.core.view import number

from .addresses import Addresses, host_of
from .coverage import Coverage
from .limits import UNIT_BYTES, NexaLimits
from .packets import Message, Ping
from .sent_lines import SentLines
from .session import Heard, Session

AGENT_BYTES_MAX = 64
PAGES_PER_S, PAGES_BURST = 10.0, 50.0
"""Pages of the ids that a neighbour holds, of 2,000 ids each, for which it is asked."""


class Origin(NamedTuple):
    """The origin of a connection: its door and its stream there, the other end's HOST:PORT, and the target that was
    dialled, "" if the other side has dialled."""

    door: str
    peer: str
    address: str
    target: str = ""


class Lacking(Struct):
    """The messages that a neighbour has and we lack. `wanted`: ids that it has announced and that may be requested from
    it."""

    wanted: dict[bytes, None] = field(default_factory=dict)
    later: dict[bytes, float] = field(default_factory=dict)
    """Ids that it has announced and that were requested from another first, each with the time at which it is asked
    itself."""
    asked: dict[bytes, float] = field(default_factory=dict)
    """Ids that were requested from it and that it has not sent, each with the time of the request."""
    is_listing: bool = False
    """Whether it is listing the ids that it holds."""
    next_page: int = 0
    """The number from which to ask for more of them, 0 if there are no more."""
    pages: Allowance = field(default_factory=lambda: Allowance(PAGES_PER_S, PAGES_BURST))


class Neighbour:
    """A connection to a neighbour. `line`: the least priority of messages to send to it. `requests`: its requests that
    wait. `fault`: why we close the connection."""

    def __init__(
        self, origin: Origin, session: Session, addresses: Addresses, limits: NexaLimits, now_s: float
    ) -> None:
        self.door, self.peer, self.address, self.target = origin
        self.host = host_of(origin.address)
        self.session = session
        self.line = RELAY_PRIORITY
        self.has_told_line = self.is_of_ours = False
        """Whether it has told its line; whether it has used a command of ours, as no Nexa node does."""
        self.sent_lines = SentLines()
        self.lines_asked_s = self.lines_told_s = now_s
        """When it was asked for its lines, and told ours, for the last time."""
        self.coverage = Coverage()
        self.requests: deque[Heard] = deque()
        self.lacking = Lacking()
        self.told: dict[tuple[int, bytes], None] = {}
        """The matches that were sent to it: the cookie of its query, and the message's id."""
        self.subscriptions = 0
        """Its standing queries."""
        self.turn_left = limits.turn_units
        """Units of searches that are left of its current turn."""
        self.waiting_ids = 0
        """Ids in its waiting requests."""
        self.counts: Counter[str] = Counter()
        self.fault: tuple[Reason, str] | None = None
        self._broken: RemoteProtocolError | None = None
        self.has_ended = False
        self.is_greeted = False
        """Whether the end of its greeting has been handled."""
        self._limits = limits
        self._addresses = addresses
        self._allowance = Allowance(limits.units_per_s, limits.units_burst)
        self._paid = 0, 0  # packets and skipped bytes that are paid for
        self._written = self._read_upto = 0
        self._ping: tuple[int, int, float] | None = None  # its number, the bytes written up to it, and when
        self._pinged_s = now_s
        self.opened_s = now_s

    def __repr__(self) -> str:
        return f"<Neighbour {self.name}: {self.session!r}>"

    @property
    def name(self) -> str:
        """Return the name under which people see it."""
        return self.target or self.address or f"stream {self.peer}"

    @property
    def is_open(self) -> bool:
        """Whether both sides have greeted, and the connection has no fault."""
        return self.session.is_open and self.fault is None

    @property
    def agent(self) -> str:
        """Return the name of its program, made printable."""
        version = self.session.version
        return "" if version is None else clean(version.agent.decode("utf-8", "replace"), AGENT_BYTES_MAX)

    @property
    def direction(self) -> str:
        """Return "out" if we have dialled, "in" if the other side has."""
        return "out" if self.target else "in"

    # -- in ------------------------------------------------------------------------------------------------

    def feed(self, data: bytes, now_s: float) -> list[Heard]:
        """Return the messages that the bytes complete; the caller handles them, and then calls `fed`."""
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
        """Close the connection if the last bytes broke the protocol."""
        if self._broken is not None:
            self.stop(self._broken.reason, self._broken.text)

    def pay(self, units: int, now_s: float) -> bool:
        """Charge units of work to the connection and its address; close the connection, and return False, if one has
        too few."""
        if self.fault is None and not self._allowance.take(units, now_s):
            self.stop(reasons.ASKS_TOO_MUCH, f"more than {self._limits.units_per_s:g} units a second")
        elif self.fault is None and not self._addresses.take(self.host, units, now_s):
            self.stop(
                reasons.ASKS_TOO_MUCH, f"its address asks for more than {self._addresses.units_per_s:g} units a second"
            )
        return self.fault is None

    def refund(self, units: int, now_s: float) -> None:
        """Return units to the connection and its address, for a message or a secret that was of use."""
        self._allowance.charge(-units, now_s)
        self._addresses.take(self.host, -units, now_s)

    def charge(self, points: int, text: str, now_s: float) -> None:
        """Add points to its address; close the connection if these are too many, which also bans the address."""
        self.counts["points_given"] += points
        if self._addresses.charge(self.host, points, now_s):
            self.stop(reasons.MISBEHAVED, text)

    def may_subscribe(self, count: int) -> bool:
        """Add to the standing queries of its address, or subtract; return False if they would be too many."""
        return self._addresses.subscribe(self.host, count)

    def stop(self, reason: Reason, text: str = "") -> None:
        """Close the connection once the queued data has been written; the first reason stays."""
        self.fault = self.fault or (reason, text)

    def ponged(self, nonce: int) -> None:
        """Record the answer to a ping: all that was written before the ping has been read."""
        if self._ping is not None and self._ping[0] == nonce:
            self._read_upto, self._ping = self._ping[1], None

    # -- out -----------------------------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes that were written and that it may not have read."""
        return self._written - self._read_upto

    @property
    def has_room(self) -> bool:
        """Whether it has read enough of what was written that more requests may be answered."""
        return self.is_open and self.unread_bytes + self.session.queued_bytes < self._limits.unread_bytes

    def say(self, message: Message, cookie: int = 0) -> None:
        """Queue a message, unless the connection has a fault."""
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
        """Close the connection if a greeting, a packet or the answer to a ping is late."""
        if late := self.session.overdue(now_s):
            self.stop(*late)
        elif self._ping is not None and now_s - self._ping[2] >= self._limits.pong_s:
            said = f"{self.unread_bytes} bytes wait, no answer to a ping within {self._limits.pong_s:g} s"
            self.stop(reasons.DOES_NOT_READ, said)

    def view(self, points: float, now_s: float) -> dict[str, Any]:
        """Return the neighbour as an operator sees it."""
        return {
            "address": self.address,
            "direction": self.direction,
            "target": self.target,
            "agent": self.agent,
            "open": self.is_open,
            "seconds": int(now_s - self.opened_s),
            "line": number(self.line),
            "ban_line": number(self.sent_lines.ban_line(now_s)),
            "points": round(points, 1),
            "unread_bytes": self.unread_bytes,
            **self.counts,
        }
