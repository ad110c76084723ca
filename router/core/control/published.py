"""Ids in place of messages: the pub/sub service is told which messages apps at this node have published (R-C33).

Apps at this node are those of its own and its clients, not routers. The service asks for this in a group in which it
has nobody to send them on to. It needs no bytes then, and is no recipient: the messages are kept as history, and their
ids are told a thousand at once, or once a second.
"""

from __future__ import annotations

from array import array
from itertools import groupby

from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.routing.parcel import Parcel
from router.core.service.roles import Role
from router.core.wire.crypto import ID_BYTES, PublicKey
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now
from router.service.verbs.published import Published

from .part import Part

IDS_MAX = 10_000
"""Most ids that wait for the service; of more, it is told how many are left out."""
TOLD_MAX = 1_000
"""Most ids in one message to the service."""


class _Waiting:
    """What is to be told of one group: ids, and runs of (expiry minute, number of ids)."""

    __slots__ = ("expiries", "ids", "left_out")

    def __init__(self) -> None:
        self.ids = bytearray()
        self.expiries: list[list[int]] = []
        self.left_out = 0

    def add(self, parcel: Parcel, start: int, stop: int, room: int) -> int:
        """Add as many of messages start..stop-1 as there is room for; return how many."""
        end = min(start + room, stop)
        self.ids += parcel.ids[start * ID_BYTES : end * ID_BYTES]
        for minute, times in _runs(parcel.expiries[start:end]):
            if self.expiries and self.expiries[-1][0] == minute:
                self.expiries[-1][1] += times
            else:
                self.expiries.append([minute, times])
        self.left_out += stop - end
        return end - start

    def cut(self, count: int) -> _Waiting:
        """Remove the first `count` ids and return them, with the number of those left out."""
        first = _Waiting()
        first.ids, self.ids = self.ids[: count * ID_BYTES], self.ids[count * ID_BYTES :]
        first.left_out, self.left_out = self.left_out, 0
        while count and self.expiries:
            minute, times = self.expiries[0]
            first.expiries.append([minute, min(times, count)])
            if times > count:
                self.expiries[0][1] -= count
            else:
                self.expiries.pop(0)
            count -= min(times, count)
        return first

    def said(self, group: bytes) -> Published:
        runs = tuple([(minute, times) for minute, times in self.expiries])
        return Published(PublicKey(group), bytes(self.ids), runs, self.left_out)


class PublishedIds(Part):
    """The ids that the pub/sub service has yet to be told."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._say = kernel.speaker.say
        self._waiting: dict[bytes, _Waiting] = {}
        self._count = 0
        self._is_due = False

    def __repr__(self) -> str:
        return f"<{self._count} published ids that the pub/sub service is to be told>"

    def wish(self, group: PublicKey, ids: bool) -> None:
        """Handle the service's wish for a group: to be told ids, or given whole messages."""
        self._is_due |= not ids
        self._groups.tell_ids(group, ids)

    def takes(self, parcel: Parcel, link: Link) -> bool:
        """Whether the service is told of these messages by their ids; the parcel is then kept as history."""
        if parcel.kind != MULTICAST or not (link.app and parcel.stored and parcel.indexed):
            return False
        service = self._groups.told_ids(parcel.signer)
        return service is not None and service not in parcel.recipients

    @property
    def has_room(self) -> bool:
        """Whether as many more ids may wait as are told at once."""
        return self._count + TOLD_MAX <= IDS_MAX

    def note(self, parcel: Parcel, start: int = 0, stop: int | None = None) -> None:
        """Tell the service of messages start..stop-1, or of all, when they are on disk."""
        waiting = self._waiting.setdefault(parcel.signer, _Waiting())
        self._count += waiting.add(parcel, start, parcel.count if stop is None else stop, IDS_MAX - self._count)

    def tick(self, now: Now) -> None:
        """Tell all that waits: once a second."""
        self._is_due = True
        self.tell(now)

    def tell(self, now: Now) -> None:
        """Tell as much as the service has room for, if enough waits, or it is time."""
        if not (self._is_due or self._count >= TOLD_MAX):
            return
        self._is_due = False
        service = self._directory.with_role(Role.OVERLAY)
        link = None if service is None else self._links.to(service)
        while self._waiting and link is not None and link.outgoing.room()[0] > 0:
            group = next(iter(self._waiting))
            waiting = self._waiting[group]
            first = waiting.cut(TOLD_MAX)
            if not self._say(link, first.said(group).inquiry(), now):
                waiting.ids[:0] = first.ids
                waiting.expiries[:0] = first.expiries
                waiting.left_out += first.left_out
                return
            self._count -= len(first.ids) // ID_BYTES
            if not waiting.ids:
                del self._waiting[group]


def _runs(minutes: array[int]) -> list[tuple[int, int]]:
    """Return equal neighbours together, each run with its length."""
    if minutes and minutes.count(minutes[0]) == len(minutes):
        return [(minutes[0], len(minutes))]
    return [(minute, sum(1 for _ in run)) for minute, run in groupby(minutes)]
