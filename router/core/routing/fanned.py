"""What the service that carries groups takes of messages that nobody here reads, by the terms that it has told: in how
many groups, and because of whom. So what it has no room for is refused before somebody is told that it was taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from router.core.neighbours.directory import THROWAWAY

UNJOINED_S = 60.0
"""Seconds after which a group for which such a message was taken is forgotten if the service has not joined it."""


class FanTerms(NamedTuple):
    """What a service takes: messages in at most `groups` groups at once, of which one app or client has made at most
    `groups_of_one` wanted (all apps with throwaway keys count as one), and all clients together `groups_of_clients`;
    none at all while it `is_full`, and none of the groups that are `full`."""

    groups: int
    groups_of_one: int
    groups_of_clients: int
    full: Collection[bytes] = ()
    is_full: bool = False


class _Begun(NamedTuple):
    """Whose message made a group wanted (the service itself: it has joined it anew after a start), and when."""

    publisher: bytes
    is_client: bool
    at_s: float


class FannedGroups:
    """The groups that are wanted only because something is published in them. `is_in(group)`: whether the service has
    joined it."""

    def __init__(self, is_in: Callable[[bytes], bool]) -> None:
        self._is_in = is_in
        self._terms: FanTerms | None = None
        self._groups: dict[bytes, _Begun] = {}
        self._of = Counter[bytes]()
        self._of_clients = 0

    def __repr__(self) -> str:
        return f"<{len(self._groups)} groups are wanted since something is published in them>"

    def agree(self, terms: FanTerms | None) -> None:
        """Hold to these terms from now on; None: there is no such service, and nothing is known of its groups."""
        self._terms = terms
        if terms is None:
            self._groups.clear()
            self._of.clear()
            self._of_clients = 0

    def takes(self, group: bytes, publisher: bytes, is_client: bool) -> bool:
        """Whether the service takes a message of this app or client in a group that nobody here reads."""
        return self._terms is not None and not self.bound(group, publisher, is_client)

    def bound(self, group: bytes, publisher: bytes, is_client: bool) -> str:
        """Return the bound beyond which such a message would be, as a sentence; empty if it is within all."""
        terms = self._terms
        if terms is None:
            return ""
        if terms.is_full or group in terms.full:
            of = "" if terms.is_full else " of this group"
            return f"as many messages{of} as may be kept for readers elsewhere wait for them; publish it again later"
        if group in self._groups or self._is_in(group):
            return ""
        if is_client and self._of_clients >= terms.groups_of_clients:
            return f"clients publish in {self._of_clients} groups that nobody here reads, the most of all together"
        if len(self._groups) >= terms.groups:
            return f"messages are kept in {len(self._groups)} groups that nobody here reads, the most"
        if self._of[publisher] < terms.groups_of_one:
            return ""
        if publisher == THROWAWAY:
            return (
                f"apps with throwaway keys publish in {self._of[publisher]} groups that nobody here reads, the most of "
                "all together; sign on with a kept key (`--as`)"
            )
        return f"you publish in {self._of[publisher]} groups that nobody here reads, the most of one app or client"

    def begin(self, group: bytes, publisher: bytes, is_client: bool, now_s: float) -> bool:
        """Count a group for the app or client whose message was taken; return whether it is new."""
        if self._terms is None or group in self._groups:
            return False
        self._groups[group] = _Begun(publisher, is_client, now_s)
        self._of[publisher] += 1
        self._of_clients += is_client
        return True

    def end(self, group: bytes) -> bool:
        """Forget a group that the service has left, or that is read here; return whether it was counted."""
        if (begun := self._groups.pop(group, None)) is None:
            return False
        self._of[begun.publisher] -= 1
        if not self._of[begun.publisher]:
            del self._of[begun.publisher]
        self._of_clients -= begun.is_client
        return True

    def sweep(self, now_s: float) -> bool:
        """Forget the groups that the service has not joined in time; return whether there were any."""
        late = [one for one, begun in self._groups.items() if now_s - begun.at_s > UNJOINED_S and not self._is_in(one)]
        for one in late:
            self.end(one)
        return bool(late)
