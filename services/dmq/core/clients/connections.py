"""The connections at a node's doors: their places, those without a handshake, and why some were closed.

A client takes a place when it agrees on a version, so one for which there is none is told so. The places of each
consumer's door are its own: whoever fills another door keeps no consumer away. If all are taken, one gives way as
`who_gives_way` says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from typing import NamedTuple

from router.service import contract as c

from ..protocols.handshake import NO_PLACE
from ..protocols.revision import Revision
from .connection import ClientSession
from .place_warnings import Bound, PlaceWarnings
from .places import who_gives_way

LOCAL = "local"
_NAMED = "consumer "
CAUSES_MAX = 50
"""Most different causes that are counted by themselves since the start."""
OTHER_CAUSES = "other causes"
HELLOS_SHARE = 2
"""For this many places one connection more may be without a handshake."""
GAVE_WAY = "gave way to a new client"
_ABOUT_PLACES = (NO_PLACE, GAVE_WAY)


class Places(NamedTuple):
    """How many clients may be connected at the common door, and at that of each consumer, under the names of their
    settings."""

    clients_max: int
    consumer_clients_max: int


def door_of(consumer: str) -> str:
    """Return the name of a consumer's door."""
    return f"{_NAMED}{consumer}"


class ClientSessions:
    """The open connections, by door and peer. `broken_off`: how many the node has closed, and
    `broken_off_for`: by cause; `without_place`: how many of them found no place, `gave_way`: how many had one, and
    were closed for a new client."""

    def __init__(self, revision: Revision, places: Places) -> None:
        self._revision = revision
        self._places = places
        self._clients: dict[tuple[str, str], ClientSession] = {}
        self._strangers: defaultdict[str, dict[ClientSession, None]] = defaultdict(dict)  # without a handshake, by door
        self._seated: defaultdict[str, dict[ClientSession, None]] = defaultdict(dict)  # with a place, by door
        self._causes: list[str] = []
        self.warnings = PlaceWarnings()
        self.broken_off = 0
        self.broken_off_for: Counter[str] = Counter()
        self.without_place = 0
        self.gave_way = 0

    def __repr__(self) -> str:
        return f"<ClientSessions: {len(self)}, {sum(map(len, self._strangers.values()))} without a handshake>"

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def taken(self) -> int:
        """How many places of the common door are taken."""
        return len(_remaining(self._seated[LOCAL]))

    @property
    def places(self) -> int:
        """How many places the common door has."""
        return self._places.clients_max

    def get(self, door: str, peer: str) -> ClientSession | None:
        return self._clients.get((door, peer))

    def opened(self, door: str, peer: str, user: int | None, now_s: float) -> Iterator[c.Deed]:
        """Take a new connection; if too many wait for their handshake, close the one that gives way."""
        bound, strangers = self._bound(door), self._strangers[door]
        most = bound.most // HELLOS_SHARE
        if len(strangers) >= most and len(remaining := _remaining(strangers)) >= most:
            why = f"{bound.setting} ({bound.most}) allows {most} without a handshake"
            if (gives_way := who_gives_way(remaining, user, now_s)) is None:
                self._lacks_place(bound, why)
                yield c.Write(door, peer, b"")
                return
            yield from self._closed_for_another(gives_way, bound, why, now_s)
        consumer = door.removeprefix(_NAMED) if door.startswith(_NAMED) else ""
        client = ClientSession(door, peer, consumer, self._revision, now_s, user)
        self._clients[door, peer] = client
        strangers[client] = None

    def make_place(self, client: ClientSession, now_s: float) -> Generator[c.Deed, None, str]:
        """Close the client that gives way to one that would be accepted, if all places are taken; return why there is
        no place, "" if there is one."""
        bound, seated = self._bound(client.door), self._seated[client.door]
        if len(seated) < bound.most or len(remaining := _remaining(seated)) < bound.most:
            return ""
        where = f" at the socket of {client.consumer}" if client.consumer else ""
        why = f"{bound.setting} ({bound.most}) are connected{where}"
        if (gives_way := who_gives_way(remaining, client.user, now_s)) is None:
            return self._lacks_place(bound, why)
        yield from self._closed_for_another(gives_way, bound, why, now_s)
        return ""

    def greeted(self, client: ClientSession) -> None:
        """Record that both ends have agreed on a version."""
        self._strangers[client.door].pop(client, None)
        self._seated[client.door][client] = None

    def closed(self, client: ClientSession) -> None:
        """Record the end of a connection, and count it if the node caused it."""
        del self._clients[client.door, client.peer]
        self._strangers[client.door].pop(client, None)
        self._seated[client.door].pop(client, None)
        if client.fault:
            self._count(client.fault)

    def overdue(self, now_s: float) -> list[ClientSession]:
        """Return the connections whose clients have taken too long."""
        found = []
        for client in self._clients.values():
            if not client.fault and (cause := client.overdue(now_s)):
                client.fault = cause
                found.append(client)
        return found

    def causes(self) -> list[str]:
        """Return why connections were closed since the last call."""
        found, self._causes = self._causes, []
        return found

    def frequent_causes(self, most: int) -> tuple[dict[str, int], int]:
        """Return the causes for which most connections were closed, a lack of places first, and how many were closed
        for others."""
        ranked = sorted(self.broken_off_for.items(), key=lambda one: (not one[0].startswith(_ABOUT_PLACES), -one[1]))
        shown = dict([one for one in ranked if one[0] != OTHER_CAUSES][:most])
        return shown, self.broken_off - sum(shown.values())

    def _bound(self, door: str) -> Bound:
        """Return what bounds a door's places."""
        name = "consumer_clients_max" if door.startswith(_NAMED) else "clients_max"
        return Bound(name, getattr(self._places, name), "local_socket" if door == LOCAL else f"the socket of {door}")

    def _closed_for_another(self, client: ClientSession, bound: Bound, why: str, now_s: float) -> list[c.Deed]:
        """Return what closes a client that gives way; its place is free at once."""
        client.fault = f"{GAVE_WAY}: {why}"
        self.gave_way += 1
        self.warnings.gave_way(bound, client.user)
        return client.written(now_s)

    def _lacks_place(self, bound: Bound, why: str) -> str:
        cause = f"{NO_PLACE}: {why}"
        self.without_place += 1
        self.warnings.refused(bound)
        self._count(cause)
        return cause

    def _count(self, cause: str) -> None:
        self.broken_off += 1
        is_known = cause in self.broken_off_for or len(self.broken_off_for) < CAUSES_MAX
        self.broken_off_for[cause if is_known or cause.startswith(_ABOUT_PLACES) else OTHER_CAUSES] += 1
        self._causes.append(cause)


def _remaining(clients: dict[ClientSession, None]) -> list[ClientSession]:
    """Return the clients that the node is not closing."""
    return [one for one in clients if not one.fault]
