"""The admission of connections as links, and the limits of a link besides its rights.

The limits are a place, messages a second, and a number of false signatures. Strangers have few of each, and all
strangers together not many more. A link that brings too many false signatures is closed, and its key is barred for a
while; for a stranger's link, strangers from its whole address prefix are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from heapq import nlargest
from ipaddress import ip_network

from router.core.link.allowance import Allowance
from router.core.link.custody import Outgoing
from router.core.neighbours.directory import UNKNOWN, Standing
from router.core.wire.admin import KNOWN_TOLD
from router.core.wire.crypto import PublicKey
from router.core.wire.link_items import Hello, OtherRun
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunClaim

from .effects import Close, SendItem
from .kernel import Kernel
from .links import Link

MINUTE_S = 60.0
REPLACED_S = 600.0
"""For how long it is remembered that another node has connected by a neighbour's key, while that one was connected."""
TOGETHER_S = 10.0  # two connections of one key within this time count as dialled at once
FULL = "the places of strangers are taken, and another one waits"
TAKEN = "all places for keys that this node does not know are taken now; come again later"
CROWDED = "enough routers from your part of the network are connected; come again later"
IDLE = "no messages for a while"
SIGN_ON_ANEW = "this key was renewed: sign on with the one that has taken its place"
OUTLIVED = "a node of this key that stands in a newer life has connected here"
FORGED = "too many messages with a false signature"


def no_place(strangers_max: int) -> tuple[Reason, str]:
    """Return the refusal of a stranger for which there is no place: it may try again, unless strangers have no places
    at all."""
    return (Reason.RATE_LIMITED, TAKEN) if strangers_max else (Reason.NOT_AUTHORISED, "")


class _Both:
    """A stranger's own allowance combined with that of all strangers."""

    __slots__ = ("_all", "_own")

    def __init__(self, own: Allowance, all_of_them: Allowance) -> None:
        self._own = own
        self._all = all_of_them

    def take(self, count: int, now: float) -> bool:
        return self._own.take(count, now) and self._all.take(count, now)


class Admission:
    """Admits and closes links; owns the list of barred keys. `down(number, now, …)` takes a link down."""

    def __init__(self, kernel: Kernel, down: Callable[..., None]) -> None:
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._pending = kernel.pending
        self._limits = limits = kernel.limits.admission
        self._down = down
        self._strangers_rate = _at_pace(limits.messages_per_s_strangers)
        self._barred: dict[bytes | str, float] = {}  # key or address prefix: until when, in this order
        self._replaced: dict[bytes, float] = {}  # chosen neighbours' keys: until when, in this order

    def __repr__(self) -> str:
        most, barred = self._limits.strangers_connections_max, len(self._barred)
        return f"<{len(self._strangers())} of at most {most} strangers, {barred} keys and prefixes shut out>"

    def admit(
        self, number: int, key: bytes, owner: bool, hello: Hello, now: Now, *, dialled: bool, place: str, ip: str
    ) -> Link | None:
        """Add the link of a neighbour that has proven `key`, replacing an earlier one; return None if a `Close` rejects
        it.

        A key that asks to be kept is recorded as local."""
        standing = self._directory.standing(key, owner)
        if standing is None or key == self._directory.me:
            is_renewed = key in self._directory.successors
            why = (Reason.RENEWED, SIGN_ON_ANEW) if is_renewed else (Reason.NOT_AUTHORISED, "")
            self._pending.effects.append(Close(number, *why))
            return None
        if not self._lets_in(number, key, place, standing, now, dialled=dialled):
            return None
        earlier = self._links.to(key)
        app = hello.role == "app"
        recorded = app and owner and hello.durable and standing is Standing.LOCAL
        if recorded and (text := self._too_many_kept(key)):
            self._pending.effects.append(Close(number, Reason.NOT_AUTHORISED, text))
            return None
        if earlier is not None and _is_outlived(hello, earlier):
            self._show_later_run(number, key, hello.claim, earlier.claim)
            self._pending.effects.append(Close(number, Reason.REPLACED, OUTLIVED))
            return None
        if earlier is not None and self._is_the_lesser(earlier, dialled, hello, now):
            text = "both ends dialled; the other connection stays"
            self._pending.effects.append(Close(number, Reason.REPLACED, text))
            return None
        if earlier is not None:
            self._show_later_run(earlier.id, key, earlier.claim, hello.claim)
            self._note_replaced(earlier, hello, now)
            self._pending.effects.append(Close(earlier.id, Reason.REPLACED, "a newer connection of the same key"))
            self._down(earlier.id, now, replaced=True)
        link = Link(
            number,
            key,
            standing,
            Outgoing(hello.window_messages, hello.window_bytes),
            owner=owner,
            app=app,
            durable=hello.durable if app else True,
            asks_outcomes=app and "outcome" in hello.features,
            takes_outcome_runs="outcome-runs" in hello.features,
            hears_known=not app and KNOWN_TOLD in hello.features,
            dialled=dialled,
            place=place,
            ip=ip,
            since_s=now.mono_s,
            active_s=now.mono_s,
            frame_bytes_max=hello.frame_bytes_max,
            pubsub=None if app else hello.pubsub,
            discovery=None if app else hello.discovery,
            run=None if app else hello.run,
            claim=None if app else hello.claim,
        )
        link.admit(standing, self._directory)
        self.measure(link)
        self._links.add(link)
        if recorded and self._directory.record_local(key):
            self._pending.changes.locals.append(key)
        return link

    def _show_later_run(self, number: int, key: bytes, its: RunClaim | None, other: RunClaim | None) -> None:
        """Show the node on this link a later run of its key: if it is there to read that, its home was copied."""
        if its is not None and other is not None and its.run < other.run and other.is_by(PublicKey(key)):
            self._pending.effects.append(SendItem(number, OtherRun(other)))

    def _note_replaced(self, earlier: Link, hello: Hello, now: Now) -> None:
        """Remember that a chosen neighbour's link gave way to one of another run of its key: of the same node that was
        started again, of a copy, or of a thief."""
        if earlier.app or hello.role != "router" or earlier.standing in UNKNOWN or earlier.owner:
            return
        if hello.claim is None or hello.claim != earlier.claim:
            self._replaced.pop(earlier.key, None)
            self._replaced[earlier.key] = now.mono_s + REPLACED_S
            for key in [one for one, until_s in self._replaced.items() if until_s <= now.mono_s]:
                del self._replaced[key]

    def was_replaced(self, key: bytes, now: Now) -> bool:
        """Whether another run of a neighbour's key has taken the place of a link of it in the last `REPLACED_S`."""
        return self._replaced.get(key, 0.0) > now.mono_s

    def _too_many_kept(self, key: bytes) -> str:
        """Return why no queue is kept for a further local key; "" if there is room, or the key has one."""
        most, kept = self._limits.locals_max, self._directory.locals
        if key in kept or len(kept) < most:
            return ""
        text = f"this node keeps queues for {most} local keys, and has them all; raise limits.local_services_max, or "
        return text + "sign on without a key that is kept"

    def _is_the_lesser(self, earlier: Link, dialled: bool, hello: Hello, now: Now) -> bool:
        """Whether both ends dialled at once and the earlier connection stays, as the lower key began it (R-B6)."""
        both = hello.role == "router" and earlier.dialled != dialled and now.mono_s - earlier.since_s < TOGETHER_S
        if hello.claim != earlier.claim:
            return False  # two runs did not dial this router at once; the earlier one is over, or a copy
        me = self._directory.me
        return both and (me > earlier.key if dialled else earlier.key > me)

    def measure(self, link: Link) -> None:
        """Give the link the allowances that belong to its standing."""
        limits = self._limits
        if link.standing is Standing.STRANGER:
            link.allowance = _Both(_at_pace(limits.messages_per_s_stranger), self._strangers_rate)
            forgeries = limits.strangers_bad_signatures_max
        else:
            link.allowance = _a_second(limits.messages_per_s_neighbour)
            forgeries = limits.bad_signatures_max
        link.forgeries = Allowance(max(forgeries, 1) / MINUTE_S, forgeries)

    def _lets_in(self, number: int, key: bytes, place: str, standing: Standing, now: Now, *, dialled: bool) -> bool:
        """Whether a key may connect now. If all places of strangers are taken, the one silent for longest is closed.

        Connections that we dialled need no such place."""
        if key in self._directory.successors:
            self._pending.effects.append(Close(number, Reason.RENEWED, SIGN_ON_ANEW))
            return False
        if text := self._barred_until(key, place, standing, now):
            self._pending.effects.append(Close(number, Reason.BAD_SIGNATURE, text))
            return False
        if standing is Standing.MET and not dialled and self._is_crowded(key, place):
            self._pending.effects.append(Close(number, Reason.RATE_LIMITED, CROWDED))
            return False
        if dialled or not self._is_nobodys(key, standing):
            return True
        strangers = self._strangers()
        if len(strangers) < self._limits.strangers_connections_max or self._links.to(key) in strangers:
            return True
        longest = min(strangers, key=lambda link: link.active_s, default=None)
        if longest is None or now.mono_s - longest.active_s < self._limits.strangers_spared_s:
            self._pending.effects.append(Close(number, *no_place(self._limits.strangers_connections_max)))
            return False
        self.close(longest, Reason.SHUTDOWN, FULL, "displaced", now)
        return True

    def _is_crowded(self, key: bytes, place: str) -> bool:
        """Whether enough routers known by meetings alone are connected from that public address prefix."""
        if not place or not ip_network(place.partition(" ")[0]).is_global:  # behind it a user of this machine
            return False
        met = (link for link in self._links if link.standing is Standing.MET and link.place == place)
        return sum(link.key != key for link in met) >= self._limits.met_per_prefix_max

    def end(self, forgers: Iterable[Link], now: Now) -> None:
        """Close links that have brought too many false signatures, and bar their keys for a while."""
        for link in forgers:
            if not link.up:
                continue
            self._bar(link.key, now)
            if link.standing is Standing.STRANGER and link.place:
                self._bar(link.place, now)
            self.close(link, Reason.BAD_SIGNATURE, FORGED, Reason.BAD_SIGNATURE.word, now)

    def end_silent(self, now: Now) -> None:
        """Close links without an accepted or settled message for too long, of strangers and of routers known by
        meetings that share no group, except those of group members (R-C24)."""
        nobodys = self._strangers()
        kept = self._met_kept(nobodys)
        for link in nobodys:
            is_silent = link.active_s < now.mono_s - self._idle_s(link, kept)
            if is_silent and not self._groups.joined_by(link.key):
                self.close(link, Reason.SHUTDOWN, IDLE, "idle", now)

    def _met_kept(self, nobodys: Iterable[Link]) -> set[int]:
        """Return the links of routers known by meetings that are closed late: the few heard last."""
        met = (link for link in nobodys if link.standing is Standing.MET)
        return {link.id for link in nlargest(self._limits.met_kept_max, met, key=lambda link: link.active_s)}

    def _idle_s(self, link: Link, kept: Container[int]) -> float:
        """Return after how many seconds of silence a link of a stranger, or of a router known by meetings, is closed.
        `kept`: the links of such routers that are closed late."""
        if link.standing is Standing.STRANGER:
            return self._limits.strangers_idle_s
        return self._limits.met_kept_s if link.id in kept else self._limits.met_idle_s

    def _strangers(self) -> list[Link]:
        """Return the links that take places of strangers."""
        return [link for link in self._links if self._is_nobodys(link.key, link.standing)]

    def _is_nobodys(self, key: bytes, standing: Standing) -> bool:
        """Whether a key is a stranger's, or a router's that shares no group with us: anybody can be advertised."""
        return standing in UNKNOWN and not self._directory.agreements.is_met(key)

    def close(self, link: Link, reason: Reason, text: str, because: str, now: Now) -> None:
        """Close a link from this side; everything that still arrives over it is ignored."""
        self._pending.effects.append(Close(link.id, reason, text))
        self._down(link.id, now, because=because)

    def _barred_until(self, key: bytes, place: str, standing: Standing, now: Now) -> str:
        until_s = self._barred.get(key, 0.0)
        if standing is Standing.STRANGER:
            until_s = max(until_s, self._barred.get(place, 0.0))
        if until_s <= now.mono_s:
            return ""
        return f"{FORGED} came from there; come again in {until_s - now.mono_s + 1:.0f} s"

    def _bar(self, whom: bytes | str, now: Now) -> None:
        self._barred.pop(whom, None)
        while self._barred and len(self._barred) >= self._limits.barred_max:
            del self._barred[next(iter(self._barred))]
        self._barred[whom] = now.mono_s + self._limits.bad_signatures_barred_s


def _is_outlived(hello: Hello, by: Link) -> bool:
    """Whether a router that connects was restored less recently than the one of its key that is connected: then it is
    the node that the snapshot was taken of, or a home that was copied before."""
    return hello.run is not None and by.run is not None and hello.run.life < by.run.life


def _a_second(rate: float) -> Allowance:
    return Allowance(rate, max(1.0, rate))


def _at_pace(rate: float) -> Allowance:
    """Return an allowance with two seconds' worth saved up: strangers are read at this rate, and then never refused."""
    return Allowance(rate, max(1.0, 2 * rate))
