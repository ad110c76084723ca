"""The neighbours of a pool: which may connect, which are dialled, and how their connections end.

Exchange    the commands of neighbours, and announcements to them
Dialling    the neighbours that the settings name
Addresses   points, bans, and the allowance of an address
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from router.core.link.allowance import Allowance
from router.core.link.machine import Agency
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons
from services.capd.core.answers import PoolAnswers
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.turned_away import TurnedAway

from .addresses import Addresses, host_of
from .dialling import Dialling
from .envelope import MAGICS
from .exchange import Exchange
from .greeting import Version
from .limits import NexaLimits
from .neighbour import Neighbour, Origin
from .session import Session

DOOR, DIALLED = "nexa", "nexa dialled"
"""The door at which others connect, and the name of the one through which we dial."""
AGENT = b"/capd-pool:1.0/"
EVENTS_PER_S, EVENTS_BURST = 2.0, 50.0
SUM_S = 10.0
UNGREETED = (
    "it closes the connection without a greeting: it has banned this machine's address, for four hours, or has no room"
)
PARTIAL_BYTES = 1 << 17
"""Bytes of an incomplete packet at which the total of all connections is checked."""


class Network(Struct, frozen=True):
    """The settings: the network's name, and the neighbours to dial."""

    name: str
    connect: Sequence[str] = ()
    is_fetching: bool = False


class Neighbours:
    """All connections to neighbours."""

    def __init__(
        self,
        network: Network,
        holdings: Holdings,
        answers: PoolAnswers,
        turned_away: TurnedAway,
        profile: Profile,
        chance: c.Chance,
        limits: NexaLimits,
    ) -> None:
        self._magic = MAGICS[network.name]
        self._limits = limits
        self._chance = chance
        self._nonce = 1 + chance.randrange((1 << 64) - 1)
        self._neighbours: dict[tuple[str, str], Neighbour] = {}
        self._addresses = Addresses(self._limits)
        self._dialling = Dialling(DIALLED, network.connect, chance)
        everybody = self._neighbours.values()
        self._exchange = Exchange(
            holdings, answers, turned_away, everybody, profile, limits, is_fetching=network.is_fetching
        )
        self._events = Allowance(EVENTS_PER_S, EVENTS_BURST)
        self._unsaid: Counter[tuple[str, Reason]] = Counter()
        self._next_sum_s = 0.0
        self.refused: Counter[str] = Counter()
        """Connections that were refused or ended by us, by reason."""

    def __repr__(self) -> str:
        return f"<Neighbours: {len(self._neighbours)} connections>"

    # -- connections ---------------------------------------------------------------------------------------

    def opened(self, opened: c.Opened, now: c.Now) -> Iterator[c.Deed]:
        """Accept a new connection, or refuse it."""
        origin = Origin(opened.door, opened.peer, opened.address, opened.tag)
        own = Version(int(now.wall_s), self._nonce, AGENT)
        side = Agency.INITIATOR if origin.target else Agency.RESPONDER
        session = Session(side, self._magic, own, now.mono_s)
        neighbour = Neighbour(origin, session, self._addresses, self._limits, now.mono_s)
        if not origin.target and (cause := self._refusal(origin, now.mono_s)) is not None:
            self.refused[cause[0].word] += 1
            yield from self._note("capd_parted", origin.address, cause[0], cause[1], now.mono_s)
            yield c.Write(origin.door, origin.peer, b"")
            return
        self._neighbours[origin.door, origin.peer] = neighbour
        self._addresses.opened(neighbour.host, f"{origin.door} {origin.peer}")
        yield from neighbour.write(self._chance, now.mono_s)

    def _refusal(self, origin: Origin, now_s: float) -> tuple[Reason, str] | None:
        host, limits = host_of(origin.address), self._limits
        accepted = [one for one in self._neighbours.values() if not one.target]
        if self._addresses.is_banned(host, now_s):
            return reasons.BANNED, ""
        if len(accepted) >= limits.neighbours_max:
            return reasons.TOO_MANY, f"{limits.neighbours_max} in all"
        if sum(not one.is_greeted for one in accepted) * 2 >= limits.neighbours_max:
            return reasons.TOO_MANY, f"{limits.neighbours_max // 2} without a greeting"
        if self._addresses.connections(host) >= limits.of_address:
            return reasons.TOO_MANY, f"{limits.of_address} of one address"
        return None

    def unconnected(self, failed: c.ConnectionFailed, now: c.Now) -> Iterator[c.Deed]:
        """Log that dialling has failed, and schedule the next attempt."""
        if failed.tag in self._dialling:
            self._dialling.ended(failed.tag, 0.0, failed.text, now.mono_s)
            yield from self._note("capd_parted", failed.tag, reasons.UNREACHED, failed.text, now.mono_s)

    def came(self, came: c.Came, now: c.Now) -> Iterator[c.Deed]:
        """Handle the bytes that a neighbour has sent, or the end of its connection."""
        neighbour = self._neighbours.get((came.door, came.peer))
        if neighbour is None:
            return
        if not came.data:
            yield from self._ended(neighbour, now)
            return
        if neighbour.has_ended:
            return
        for heard in neighbour.feed(came.data, now.mono_s):
            yield from self._greet(neighbour, now)
            if neighbour.is_open:
                yield from self._exchange.said(neighbour, heard, now)
        yield from self._greet(neighbour, now)
        neighbour.fed()
        if neighbour.session.partial_bytes >= PARTIAL_BYTES:
            yield from self._bound_partial(now)
        yield from neighbour.write(self._chance, now.mono_s)

    def _bound_partial(self, now: c.Now) -> Iterator[c.Deed]:
        """Close the connection that holds most bytes of an incomplete packet, if all together hold too many."""
        held = {one: one.session.partial_bytes for one in self._neighbours.values() if not one.has_ended}
        if sum(held.values()) > self._limits.partial_bytes:
            most = max(held, key=held.__getitem__)
            most.stop(reasons.ASKS_TOO_MUCH, f"{held[most]} bytes of a packet that is not whole")
            yield from most.write(self._chance, now.mono_s)

    def _greet(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        if neighbour.is_greeted or not neighbour.is_open:
            return
        neighbour.is_greeted = True
        if neighbour.target:
            self._dialling.opened(neighbour.target)
        self._exchange.greeted(neighbour)
        yield c.MarkKnown(neighbour.door, neighbour.peer)
        if self._events.take(1, now.mono_s):
            fields = {"neighbour": neighbour.name, "direction": neighbour.direction, "agent": neighbour.agent}
            yield c.LogEvent("capd_connected", None, None, fields)

    def _ended(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        del self._neighbours[neighbour.door, neighbour.peer]
        self._addresses.closed(neighbour.host, f"{neighbour.door} {neighbour.peer}")
        yield from self._exchange.closed(neighbour, now)
        reason, text = neighbour.fault or (reasons.GONE, "")
        if neighbour.fault is not None:
            self.refused[reason.word] += 1
        if neighbour.target:
            lasted_s = now.mono_s - neighbour.opened_s
            problem = reason.clause + (f" ({text})" if text else "")
            if neighbour.fault is None and not neighbour.is_greeted:
                problem = UNGREETED
            self._dialling.ended(neighbour.target, lasted_s if neighbour.is_greeted else 0.0, problem, now.mono_s)
        if neighbour.is_greeted or neighbour.fault is not None:
            yield from self._note("capd_parted", neighbour.name, reason, text, now.mono_s)

    # -- time ----------------------------------------------------------------------------------------------

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        """Dial, check deadlines, request and answer what is due, and log sums; called about once a second."""
        yield from self._dialling.due(now.mono_s)
        for neighbour in list(self._neighbours.values()):
            if neighbour.has_ended:
                continue
            neighbour.overdue(now.mono_s)
            yield from self._exchange.due(neighbour, now)
            yield from neighbour.write(self._chance, now.mono_s)
        if now.mono_s >= self._next_sum_s:
            self._next_sum_s = now.mono_s + SUM_S
            for (event, reason), count in self._unsaid.items():
                yield c.LogEvent(f"{event}_many", None, reason, {"count": count})
            self._unsaid.clear()

    def settled(self, now: c.Now) -> Iterator[c.Deed]:
        """Announce to neighbours what was taken and rescinded, and answer the requests that waited for this turn."""
        self._exchange.announce(now)
        waiting = sum(self._exchange.is_held_up(one) for one in self._neighbours.values())
        share = max(1, self._limits.turn_units // max(1, waiting))
        for neighbour in self._neighbours.values():
            yield from self._exchange.take_turn(neighbour, share, now)
            if neighbour.session.queued_bytes:
                yield from neighbour.write(self._chance, now.mono_s)

    @property
    def is_hurried(self) -> bool:
        """Whether any neighbour's requests wait only because the units of its turn are used up."""
        return any(self._exchange.is_held_up(one) for one in self._neighbours.values())

    def _note(self, event: str, name: str, reason: Reason, text: str, now_s: float) -> Iterator[c.Deed]:
        if self._events.take(1, now_s):
            yield c.LogEvent(event, None, reason, {"neighbour": name, "detail": text})
        else:
            self._unsaid[event, reason] += 1

    # -- views ---------------------------------------------------------------------------------------------

    def view(self, now: c.Now) -> dict[str, Any]:
        """Return the connections, targets and refusals as an operator sees them."""
        return {
            "neighbours": [
                {
                    **one.view(self._addresses.points(one.host, now.mono_s), now.mono_s),
                    "prefixes_left": self._exchange.prefixes_left(one),
                }
                for one in self._neighbours.values()
            ],
            "unconnected": [{"target": target, "problem": problem} for target, problem in self._dialling.problems()],
            "refused": dict(self.refused),
            "banned": self._addresses.banned(now.mono_s),
        }
