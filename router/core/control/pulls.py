"""PULL in both directions: sent in this router's own name for its services and apps, and answered for neighbours.

An app or service that lacks a message gives its own router the id and the router to ask; no id is asked for that this
router knows. The message comes as a carried multicast, or not at all (R-C17, R-C30). A PULL beyond its asker's rate
waits, since one that asks for as much as it may have open would wait for seconds before it asks again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Protocol

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.neighbours.directory import Standing
from router.core.routing.effects import LookUpPulled, LookUpPulls
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.routing.parcel import Parcel
from router.core.wire.control import Carried, Pull
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now
from router.service.verbs.pull_from import PullsFrom

from .as_history import AsHistory
from .membership import Membership
from .part import Hears, Part
from .pull_meter import PullMeters
from .speaker import SEALED_BYTES

READ_COST = 32
"""Number of bytes of its parcel that cost as much as one byte of the message that is carried."""
CARRIED_BYTES = 8
"""Bytes that a message has more when it is carried, at most."""
MISS_COST = 50
"""Number of PULLs that one for a missing message counts as, because it is looked for in every minute."""
ASKERS_MAX = 1024
"""Most askers whose rates and open PULLs are remembered; beyond it all are forgotten."""
WAITING_MAX, WAITING_LOCAL_MAX = 128, 1_024
"""Most PULLs that wait to be answered on one link, and on that of an app or service of this node; further ones are not
answered."""


class Queued(Protocol):
    """The part of a store that knows which messages wait for whom (`router.disk.store.store.Store`)."""

    def message(self, identity: bytes, /) -> tuple[Parcel, int] | None: ...
    def owes(self, recipient: bytes, first: int, index: int) -> bool: ...


class _Asker:
    """The rate of one service or app, and its open PULLs: by id, the monotonic second at which each is given up."""

    def __init__(self, per_s: float) -> None:
        self.rate = Allowance(per_s, max(1.0, per_s))
        self.open: dict[bytes, float] = {}


class _Waiting(Struct):
    """The PULLs of one link that wait, in their order: the group by the id of its message. `size`: the bytes of the
    first of these messages, if it was read and has no room yet."""

    groups: dict[bytes, bytes] = field(default_factory=dict)
    size: int = 0


class Pulls(Part):
    """Decides which PULLs are sent and answered."""

    def __init__(self, kernel: Kernel, membership: Membership, as_history: AsHistory) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._seen = kernel.seen
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._limits = kernel.limits.pulls
        self._speaker = kernel.speaker
        self._membership = membership
        self._as_history = as_history
        self._askers: dict[bytes, _Asker] = {}
        self._waiting: dict[int, _Waiting] = {}  # by link; links take turns
        self._is_reading = False  # a message is being looked up: its bytes are charged before the next one is
        self._meters = PullMeters(kernel.limits.pulls)

    def __repr__(self) -> str:
        return f"<{sum(len(one.open) for one in self._askers.values())} PULLs that are not answered>"

    # -- asked for services and apps of this node ------------------------------------------------------------

    def ask(self, link: Link, said: PullsFrom, now: Now, number: int | None) -> dict[str, Any] | None:
        """Take a request of a service or an app of this node for missing messages; return the answer if it is an error.

        Otherwise the duplicate index is searched first; then `asked` decides and answers."""
        group = bytes(PublicKey.checked(said.group))
        if link.key not in self._directory.services and self._groups.get(group, link.key) is None:
            return {"error": f"{said.WORD}: join the group first"}
        ids = said.ids
        expiries = said.expiries if len(said.expiries) == len(ids) else (0,) * len(ids)
        counts = said.minutes if len(said.minutes) == len(ids) else (1,) * len(ids)
        minutes = [range(first, first + count) for first, count in zip(expiries, counts, strict=True)]
        messages = tuple(zip(minutes, ids, strict=True))
        self._pending.effects.append(LookUpPulls(link.id, said.router, group, messages, number))
        made = [id for id, old in zip(ids, said.history, strict=False) if self._as_history.asked(link.key, id, old)]
        if made:
            fields = (("service", "router"), ("router", bytes(said.router)), ("group", group))
            self._pending.changes.events.append(
                ev.Noted(now.wall_ns, now.mono_ns, ev.HISTORY_ASKED, self._directory.me, b"".join(made), None, fields)
            )
        return None

    def look_up(self, asked: LookUpPulls) -> list[tuple[int, bytes]]:
        """Return the ids to look up on disk, with each minute of expiry that was named, or 0."""
        return [
            (minute, id)
            for minutes, id in asked.messages
            if id not in self._seen
            for minute in (minutes if minutes.start else (0,))
        ]

    def asked(self, asked: LookUpPulls, on_disk: Collection[bytes], now: Now, queues: Queued) -> None:
        """Ask the named router for the messages that this router does not know, and answer for each what was done.

        An app is told which messages are in its queue, so it need not guess whether a known message will come to it as
        well."""
        link, to = self._links.get(asked.asker), self._links.to(asked.router)
        if link is None:
            return
        states = [self._state(link, to, asked.group, id, on_disk, now) for _, id in asked.messages]
        if link.key not in self._directory.services:
            found = zip(states, asked.messages, strict=True)
            states = ["owed" if one == "known" and _is_owed(queues, link.key, id) else one for one, (_, id) in found]
        self._speaker.answer(link, asked.number, {"states": states}, now)

    def _state(self, link: Link, to: Link | None, group: bytes, id: bytes, on_disk: Collection[bytes], now: Now) -> str:
        asker = self._asker(link.key)
        if id in self._seen or id in on_disk:
            asker.open.pop(id, None)
            return "known"
        if to is None or to.app or to.shut:
            return "away"
        if not self._has_room(asker, link, id, now) or not asker.rate.take(1, now.mono_s):
            return "later"
        if not self._speaker.say(to, Pull(PublicKey(group), MessageId(id)), now):
            return "later"
        asker.open[id] = now.mono_s + self._limits.open_s
        return "asked"

    def _has_room(self, asker: _Asker, link: Link, id: bytes, now: Now) -> bool:
        limits = self._limits
        most = limits.open_max if link.key in self._directory.services else limits.open_of_app_max
        if id in asker.open or len(asker.open) < most:
            return True
        asker.open = {
            one: until_s for one, until_s in asker.open.items() if until_s > now.mono_s and one not in self._seen
        }
        return len(asker.open) < most

    def _asker(self, key: bytes) -> _Asker:
        asker = self._askers.get(key)
        if asker is None:
            if len(self._askers) >= ASKERS_MAX:
                self._askers.clear()
            asker = self._askers[key] = _Asker(self._limits.asked_per_s)
        return asker

    # -- answered to neighbours ------------------------------------------------------------------------------

    def pulled(self, link: Link, said: Pull, now: Now) -> None:
        """Handle a PULL that may be answered: it waits until its asker's rate allows its message to be read; that of an
        app or service of this node also until its answer has room."""
        is_local, as_router = link.standing is Standing.LOCAL, self._is_router(link, said.group)
        if not self._is_allowed(link, said.group) or not (is_local or self._speaker.has_room(link)):
            return
        if self._meters.was_carried(link, said.message, now, as_router=as_router):
            return
        waiting = self._waiting.setdefault(link.id, _Waiting()).groups
        if len(waiting) < (WAITING_LOCAL_MAX if is_local else WAITING_MAX):
            waiting.setdefault(said.message, said.group)
        self.look_up_more(now)

    def _is_allowed(self, link: Link, group: bytes) -> bool:
        """Whether a neighbour may be answered PULLs of a group."""
        agreed = link.up and self._directory.agreements.has(link.key, group)
        return agreed or self._membership.may_join(link, group) or (link.uplink and self._groups.is_wanted(group))

    def look_up_more(self, now: Now) -> None:
        """Have the next message looked up whose asker may have it read, one at a time, and has room for it."""
        for number, waiting in list(self._waiting.items()) if not self._is_reading else ():
            link = self._links.get(number)
            id, group = next(iter(waiting.groups.items()))
            if link is None or not self._speaker.has_room(link, waiting.size):
                continue
            if not self._is_allowed(link, group):
                self._take_first(number)
            elif self._meters.takes(link, now, as_router=self._is_router(link, group)):
                self._take_first(number)
                self._is_reading = True
                self._pending.effects.append(LookUpPulled(number, group, id))
                return

    def _take_first(self, number: int) -> None:
        """Remove the first PULL that waits on a link, for which it is the other links' turn."""
        waiting = self._waiting.pop(number)
        del waiting.groups[next(iter(waiting.groups))]
        if waiting.groups:
            self._waiting[number] = _Waiting(waiting.groups)

    def _is_router(self, link: Link, group: bytes) -> bool:
        """Whether a neighbour's PULLs are answered at the high rate: a router's, and a service's or an app's of this
        node, which read history."""
        agreed = self._directory.agreements.has(link.key, group)
        is_router = agreed or (not link.app and link.standing in (Standing.CLIENT, Standing.PEER))
        return is_router or link.standing is Standing.LOCAL

    def looked_up(self, asked: LookUpPulled, found: tuple[Parcel, int] | None, now: Now) -> None:
        """Answer a PULL with the message that the store has found; its bytes are charged to the asker, and a missing
        one costs more than its PULL."""
        self._is_reading = False
        if (link := self._links.get(asked.link)) is not None:
            self._answer_pull(link, asked, found, now)
        self.look_up_more(now)

    def _answer_pull(self, link: Link, asked: LookUpPulled, found: tuple[Parcel, int] | None, now: Now) -> None:
        as_router = self._is_router(link, asked.group)
        number, size = (MISS_COST - 1, 0) if found is None else (0, found[0].item_size(found[1]) + CARRIED_BYTES)
        if link.standing is Standing.LOCAL and not self._speaker.has_room(link, size):
            waiting = self._waiting.pop(link.id, _Waiting()).groups
            self._waiting[link.id] = _Waiting({asked.message: asked.group, **waiting}, size)
            return
        size += 0 if found is None else len(found[0].blob) // READ_COST
        self._meters.charge(link, number, size, now, as_router=as_router)
        if found is not None and self._carry(link, asked.group, *found, now):
            self._meters.carried(link, asked.message, now, as_router=as_router)

    def _carry(self, link: Link, group: bytes, parcel: Parcel, index: int, now: Now) -> bool:
        """Carry the message if it is of that group and still valid, and fits the free window and, with what carrying
        adds, the longest frame that the neighbour takes; for a stranger only if the rejection log can afford a line.
        Return whether it was carried."""
        valid = parcel.kind == MULTICAST and parcel.signer == group
        valid &= parcel.item_size(index) + CARRIED_BYTES + SEALED_BYTES <= link.frame_bytes_max
        if not valid or expiry_s(parcel.expiries[index]) <= now.judged_s:
            return False
        if link.standing is Standing.STRANGER and not self._rejections.spares(link.standing, now):
            return False
        if not self._speaker.has_room(link, parcel.item_size(index)):
            return False
        if not self._speaker.say(link, Carried(parcel.wire(index)), now):
            return False
        whole = ((parcel.first + index, 1),)
        self._pending.changes.events.append(
            ev.Outward(now.wall_ns, now.mono_ns, "pulled", link.key, link.id, whole, None, 0, 0, 0, parcel.first)
        )
        return True

    def link_down(self, link: Link, now: Now) -> None:
        """Forget what was asked for and carried over a link that is gone."""
        self._waiting.pop(link.id, None)
        self._meters.gone(link)

    HEARS: ClassVar[Hears] = {Pull: pulled, PullsFrom: ask}


def _is_owed(queues: Queued, recipient: bytes, id: bytes) -> bool:
    found = queues.message(id)
    return found is not None and queues.owes(recipient, found[0].first, found[1])
