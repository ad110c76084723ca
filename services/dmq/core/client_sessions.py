"""The connections at a node's doors: their places, those without a handshake, and why some were closed.

A client takes a place when it agrees on a version, so one for which there is none is told so. The places of each
consumer's door are its own: whoever fills another door keeps no consumer away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from router.core.wire.text import counted
from router.service import contract as c

from .client_session import ClientSession
from .handshake import NO_PLACE
from .revision import Revision

LOCAL = "local"
_NAMED = "consumer "
CAUSES_MAX = 50
"""Most different causes that are counted by themselves since the start."""
OTHER_CAUSES = "other causes"
HELLOS_SHARE = 2
"""For this many places one connection more may be without a handshake."""
FULL_S = 60.0
"""Least seconds between two warnings that a door has no place left."""


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
    `broken_off_for`: by cause; `without_place`: how many of them found no place."""

    def __init__(self, revision: Revision, places: Places) -> None:
        self._revision = revision
        self._places = places
        self._clients: dict[tuple[str, str], ClientSession] = {}
        self._strangers: Counter[str] = Counter()  # connections without a handshake, by door
        self._taken: Counter[str] = Counter()  # places, by door
        self._causes: list[str] = []
        self._full: Counter[str] = Counter()  # those without a place since the door's last warning
        self._warned_s: dict[str, float] = {}
        self.broken_off = 0
        self.broken_off_for: Counter[str] = Counter()
        self.without_place = 0

    def __repr__(self) -> str:
        return f"<ClientSessions: {len(self)}, {self._strangers.total()} without a handshake>"

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def taken(self) -> int:
        """How many places of the common door are taken."""
        return self._taken[LOCAL]

    @property
    def places(self) -> int:
        """How many places the common door has."""
        return self._places.clients_max

    def get(self, door: str, peer: str) -> ClientSession | None:
        return self._clients.get((door, peer))

    def opened(self, door: str, peer: str, now_s: float) -> Iterator[c.Deed]:
        """Take a new connection, or close it if too many wait for their handshake."""
        setting, most = self._setting(door)
        if self._strangers[door] >= (most_waiting := most // HELLOS_SHARE):
            self._lacks_place(door, f"{setting} ({most}) allows {most_waiting} without a handshake")
            yield c.Write(door, peer, b"")
            return
        consumer = door.removeprefix(_NAMED) if door.startswith(_NAMED) else ""
        self._clients[door, peer] = ClientSession(door, peer, consumer, self._revision, now_s)
        self._strangers[door] += 1

    def fullness(self, client: ClientSession) -> str:
        """Return why there is no place for a client that would be accepted, and count it; "" if there is one."""
        setting, most = self._setting(client.door)
        if self._taken[client.door] < most:
            return ""
        where = f" at the socket of {client.consumer}" if client.consumer else ""
        return self._lacks_place(client.door, f"{setting} ({most}) are connected{where}")

    def greeted(self, client: ClientSession) -> None:
        """Hear that both ends have agreed on a version."""
        self._strangers[client.door] -= 1
        self._taken[client.door] += 1

    def closed(self, client: ClientSession) -> None:
        """Record the end of a connection, and count it if the node caused it."""
        del self._clients[client.door, client.peer]
        (self._taken if client.is_open else self._strangers)[client.door] -= 1
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
        ranked = sorted(self.broken_off_for.items(), key=lambda one: (not one[0].startswith(NO_PLACE), -one[1]))
        shown = dict([one for one in ranked if one[0] != OTHER_CAUSES][:most])
        return shown, self.broken_off - sum(shown.values())

    def warnings(self, service: str, now_s: float) -> Iterator[str]:
        """Yield a warning for each door that had no place for a client, each at most once in `FULL_S`."""
        for door, count in list(self._full.items()):
            if now_s - self._warned_s.get(door, -inf) < FULL_S:
                continue
            self._warned_s[door] = now_s
            del self._full[door]
            setting, most = self._setting(door)
            where = "local_socket" if door == LOCAL else f"the socket of {door}"
            said = f"{counted(count, 'client')} found no place at {where}, which has {most}"
            yield f"{said}: raise services.{service}.{setting}, or look who holds them, as with `ss -xp`"

    def _setting(self, door: str) -> tuple[str, int]:
        """Return the name and value of the setting that bounds a door's places."""
        name = "consumer_clients_max" if door.startswith(_NAMED) else "clients_max"
        return name, getattr(self._places, name)

    def _lacks_place(self, door: str, why: str) -> str:
        cause = f"{NO_PLACE}: {why}"
        self.without_place += 1
        self._full[door] += 1
        self._count(cause)
        return cause

    def _count(self, cause: str) -> None:
        self.broken_off += 1
        is_known = cause in self.broken_off_for or len(self.broken_off_for) < CAUSES_MAX
        self.broken_off_for[cause if is_known or cause.startswith(NO_PLACE) else OTHER_CAUSES] += 1
        self._causes.append(cause)
