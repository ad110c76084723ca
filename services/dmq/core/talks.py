"""The connections at a node's doors: the limits of their number, those without a handshake, and why some were
closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from router.service import contract as c

from .revision import Revision
from .talk import Talk

LOCAL = "local"
_NAMED = "consumer "
CAUSES_MAX = 50
"""Most different causes that are counted by themselves since the start."""
HELLOS_SHARE = 2
"""One in this many connections may be without a handshake."""


def door_of(consumer: str) -> str:
    """Return the name of a consumer's door."""
    return f"{_NAMED}{consumer}"


class Talks:
    """The open connections, by door and peer. `broken_off`: how many the node has closed, and
    `broken_off_for`: by cause."""

    def __init__(self, revision: Revision, clients_max: int) -> None:
        self._revision = revision
        self._most = clients_max
        self._talks: dict[tuple[str, str], Talk] = {}
        self._strangers: set[Talk] = set()
        self._causes: list[str] = []
        self.broken_off = 0
        self.broken_off_for: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Talks: {len(self)} of {self._most}, {len(self._strangers)} without a handshake>"

    def __len__(self) -> int:
        return len(self._talks)

    def get(self, door: str, peer: str) -> Talk | None:
        return self._talks.get((door, peer))

    def opened(self, door: str, peer: str, now_s: float) -> Iterator[c.Deed]:
        """Take a new connection, or close it if there are too many."""
        cause = ""
        if len(self._talks) >= self._most:
            cause = f"more than {self._most} clients at once (clients_max)"
        elif len(self._strangers) * HELLOS_SHARE >= self._most:
            cause = f"more than {self._most // HELLOS_SHARE} clients without a handshake at once"
        if cause:
            self._count(cause)
            yield c.Write(door, peer, b"")
            return
        consumer = door.removeprefix(_NAMED) if door.startswith(_NAMED) else ""
        talk = self._talks[door, peer] = Talk(door, peer, consumer, self._revision, now_s)
        self._strangers.add(talk)

    def greeted(self, talk: Talk) -> None:
        """Hear that both ends have agreed on a version."""
        self._strangers.discard(talk)

    def closed(self, talk: Talk) -> None:
        """Record the end of a connection, and count it if the node caused it."""
        del self._talks[talk.door, talk.peer]
        self._strangers.discard(talk)
        if talk.fault:
            self._count(talk.fault)

    def overdue(self, now_s: float) -> list[Talk]:
        """Return the connections whose clients have taken too long."""
        found = []
        for talk in self._talks.values():
            if not talk.fault and (cause := talk.overdue(now_s)):
                talk.fault = cause
                found.append(talk)
        return found

    def causes(self) -> list[str]:
        """Return why connections were closed since the last call."""
        found, self._causes = self._causes, []
        return found

    def _count(self, cause: str) -> None:
        self.broken_off += 1
        known = cause in self.broken_off_for or len(self.broken_off_for) < CAUSES_MAX
        self.broken_off_for[cause if known else "other causes"] += 1
        self._causes.append(cause)
