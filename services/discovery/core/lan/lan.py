"""A node's datagrams on local networks, and its reactions to those of others (R-D17, R-D18, R-D19).

`Lan.hear` takes one event after the other and returns deeds. `admits` judges each datagram before that, in a
microsecond or two and without checking its signature: refused ones are counted by reason and cost nothing else.

A router that a link has proven stays known for a day after it fell silent, without an address: messages queued for it
wait, and its old address is not dialled. While it is connected it is here, whatever becomes of its datagrams. A key
that no link has proven is forgotten when it falls silent, and gives way to newcomers (`neighbours.py`), which wait for
their turns (`waiting.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from ipaddress import ip_address
from math import inf
from typing import Any

from router.core.service.refusals import Refusals
from router.core.wire.address import network_text
from router.core.wire.advert import (
    DATAGRAM_GROUPS_MAX,
    Advertisement,
    decode_datagram,
    refusal_of,
)
from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service.contract import Came, Chance, Deed, Now, Tick, Wake, Write
from router.service.roles.discovery import (
    EVERYBODY,
    Advertise,
    Interface,
    Interfaces,
    Listening,
    NeighbourAdded,
    NeighbourLinked,
    NeighbourUnreachable,
    Signed,
    UseInterfaces,
    WriteOnClose,
)
from services.discovery.core.lan.answers import Answers
from services.discovery.core.lan.dialling import AGAIN, Dialling
from services.discovery.core.lan.gate import Gate
from services.discovery.core.lan.neighbours import (
    TTL_S_MAX,
    Neighbour,
    Neighbours,
    Source,
    source_of,
)
from services.discovery.core.lan.networks import OFF, Permit, is_local, network_of, on_link
from services.discovery.core.lan.own_datagrams import OwnDatagrams
from services.discovery.core.lan.own_port import OwnPort
from services.discovery.core.lan.reports import Reports
from services.discovery.core.lan.schedule import Schedule
from services.discovery.core.lan.waiting import TURN_S, Waiting
from services.discovery.reasons import ADVERT_STALE, LAN_FLOOD, LAN_FULL, LAN_OFF_LINK

TTL_S, EXPIRY_S, RENEW_S = 30, 600, 300.0
LIFETIME_S_MAX = 86_400
"""An expiry that is further ahead shows that a clock is wrong."""
YIELD_S = 3.0
WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""
SPOKEN, FAREWELL = "lan", "lan-farewell"
SAID_AT = "tls://0.0.0.0:{port}"


class Lan:
    """A node's part on the local networks that it is in. `me` is its router's key, `door` its multicast door, `agreed`
    the routers that share groups with it."""

    def __init__(
        self,
        me: PublicKey,
        door: str,
        chance: Chance,
        permit: Permit | None = None,
        agreed: Collection[PublicKey] = (),
    ) -> None:
        self.me = me
        self.door = door
        self.permit = permit or Permit()
        self.interfaces: dict[int, Interface] = {}
        self.neighbours = Neighbours(agreed)
        self.turned_away = Refusals()
        self.waiting = Waiting()
        self._chance = chance
        self._schedules: dict[int, Schedule] = {}
        self._gate = Gate(self.neighbours)
        self._answers = Answers(door)
        self._dialling = Dialling(self.neighbours, chance)
        self.reports = Reports(self.neighbours)
        self._said, self._farewell, self._sign_problem = b"", b"", ""
        self._own = OwnDatagrams()
        self._own_port = OwnPort()
        self._signed_s: float | None = None
        self._look_s = inf  # nothing is to be done about any neighbour before

    def __repr__(self) -> str:
        return f"<lan: at {len(self._schedules)} of {len(self.interfaces)} interfaces, {self.neighbours!r}>"

    @property
    def problem(self) -> str:
        """Return why this node is not found on local networks, "" if nothing is wrong."""
        return self._own_port.problem or self._sign_problem

    def admits(self, came: Came, mono_s: float) -> bool:
        """Whether a datagram is worth checking its signature; if not, the reason is counted."""
        if came.data == self._said:
            return False
        known = self.neighbours.who_said(came.data)
        if known is not None:
            return self._gate.renews(known, source_of(came.peer), mono_s)
        if self.waiting.repeats(came.data, mono_s):
            return self.waiting.has_turn(mono_s) and not self.reports.are_behind(mono_s)
        reason = self._gate.refusal(came, self._is_on_link, mono_s)
        if reason is not None:
            self._turn_away(came, reason)
        return reason is None

    def _is_on_link(self, source: Source) -> bool:
        at = self.interfaces.get(source.at)
        return at is not None and source.at in self._schedules and on_link(at, source.ip)

    def _turn_away(self, came: Came, reason: Reason) -> list[Deed]:
        """Count a refused datagram by its sender's network."""
        host, _, _ = came.peer.rpartition("%")
        self.turned_away.count(reason, prefix=_network_of_host(host))
        return []

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: Any, now: Now) -> list[Deed]:
        """Return the deeds that follow from one event; the last one names the time of the next `Tick`."""
        deeds: list[Deed] = []
        match heard:
            case Interfaces(interfaces=interfaces):
                deeds += self._changed(interfaces, self.permit, now)
            case Permit():
                deeds += self._changed(self.interfaces.values(), heard, now)
            case Listening():
                self._own_port.listens(heard, now)
                self._signed_s = None
            case Signed():
                deeds += self._has_signed(heard)
            case Came():
                deeds += self._came(heard, now)
            case NeighbourUnreachable(key, _, let_in):
                self._dialling.unreached(key, let_in, now)
                self._look_s = now.mono_s
            case NeighbourAdded(key):
                self.reports.was_answered(key)
            case NeighbourLinked():
                deeds += self._has_linked(heard, now)
            case Tick():
                pass
        deeds += self._by_the_clock(now)
        return [*deeds, *self._wake(now)]

    # -- interfaces ----------------------------------------------------------------------------------------

    def _changed(self, interfaces: Iterable[Interface], permit: Permit, now: Now) -> list[Deed]:
        before, kept = self.interfaces, self.permit
        self.interfaces, self.permit = {one.index: one for one in interfaces}, permit
        here = {index for index, one in self.interfaces.items() if permit.allows(one)}
        gone = self._schedules.keys() - here
        bye = [Write(self.door, f"{EVERYBODY}%{index}", self._farewell) for index in sorted(gone) if self._farewell]
        for index in gone:
            del self._schedules[index]
        for index in here:
            if index not in self._schedules:
                self._schedules[index] = Schedule(self._chance, now.mono_s)
            elif before[index].addresses != self.interfaces[index].addresses:
                self._schedules[index].begin(now.mono_s)
            else:
                continue
            self._signed_s = None
        if gone or permit != kept:
            self._signed_s = None
        attend = [UseInterfaces(self.door, tuple(sorted(here)))] if here or gone else []
        return [*bye, *attend, *self._listen(bool(here)), *(self._forget_all() if permit.mode == OFF else ())]

    def _listen(self, wanted: bool) -> list[Deed]:
        if not wanted:
            self._said, self._farewell, self._signed_s = b"", b"", None
        return self._own_port.want(self.permit.port if wanted else None)

    # -- speaking ------------------------------------------------------------------------------------------

    def _sign(self, now: Now) -> list[Deed]:
        """Have this node's advertisement signed, and its farewell, which has the greater revision."""
        if not (self._own_port.port and self._schedules):
            return []
        if self._signed_s is not None and now.mono_s < self._signed_s + RENEW_S:
            return []
        self._signed_s = now.mono_s
        at, groups = (SAID_AT.format(port=self._own_port.port),), self.permit.groups[:DATAGRAM_GROUPS_MAX]
        return [Advertise(at, groups, TTL_S, EXPIRY_S, SPOKEN), Advertise(at, (), 0, EXPIRY_S, FAREWELL)]

    def _has_signed(self, signed: Signed) -> list[Deed]:
        if signed.tag not in (SPOKEN, FAREWELL):
            return []
        self._sign_problem = signed.error or (self._sign_problem if signed.tag == FAREWELL else "")
        if signed.error or not self._own_port.port:
            return []
        self._own.signed(decode_datagram(signed.message))
        if signed.tag == SPOKEN:
            self._said = signed.message
        else:
            self._farewell = signed.message
            places = [f"{EVERYBODY}%{index}" for index in sorted(self._schedules)]
            return [WriteOnClose(self.door, one, signed.message) for one in places]
        return []

    def _speak(self, now: Now) -> list[Deed]:
        if not self._said:
            return []
        crowd = self.waiting.is_crowd
        due = [index for index, one in sorted(self._schedules.items()) if one.take(now.mono_s, is_crowded=crowd)]
        return [Write(self.door, f"{EVERYBODY}%{index}", self._said) for index in due]

    # -- neighbours ----------------------------------------------------------------------------------------

    def _came(self, came: Came, now: Now) -> list[Deed]:
        known = self.neighbours.who_said(came.data)
        source = source_of(came.peer)
        if not self._is_on_link(source):
            return self._turn_away(came, LAN_OFF_LINK)
        if known is not None and not self.neighbours.is_new(known.key):
            return self._renew(known, came, source, now)
        if known is not None:
            self.waiting.put(known.key, came, source, now.mono_s)
            return []
        try:
            advert = decode_datagram(came.data)
        except Malformed:
            return self._turn_away(came, Reason.MALFORMED)
        if advert.router == self.me:
            return [*self._turn_away(came, ADVERT_STALE), *self._own.heard(advert, source)]
        last, said = self.neighbours.get(advert.router), self.waiting.said(advert.router)
        if said == came.data:
            return []  # it was counted as it came
        known_advert = decode_datagram(said) if said else last.advert if last is not None else None
        refused = refusal_of(advert, known_advert, now.wall_s, LIFETIME_S_MAX)
        if refused is not None or not advert.verify():
            return self._turn_away(came, Reason.BAD_SIGNATURE if refused is None else refused[0])
        return self._take_in(advert, came, source, now)

    def _take_in(self, advert: Advertisement, came: Came, source: Source, now: Now) -> list[Deed]:
        """Give a verified advertisement its place, or let a new router wait for one; a farewell needs none."""
        if not self.neighbours.is_new(advert.router):
            return self._renew(self.neighbours.enter(advert, now.mono_s), came, source, now)
        if not advert.is_farewell:
            self.waiting.put(advert.router, came, source, now.mono_s)
            return []
        self.waiting.remove(advert.router)
        one = self.neighbours.get(advert.router)
        return [] if one is None else self._renew(self.neighbours.enter(advert, now.mono_s), came, source, now)

    def _let_in(self, now: Now) -> list[Deed]:
        """Give places to the waiting routers whose turns have come."""
        deeds: list[Deed] = []
        for one in () if self.reports.are_behind(now.mono_s) else self.waiting.turns(now.mono_s):
            if self.neighbours.is_new(one.key) and self._is_on_link(one.source):
                deeds += [] if self.neighbours.get(one.key) else self._make_room(now)
                entered = self.neighbours.enter(decode_datagram(one.came.data), now.mono_s)
                deeds += self._renew(entered, one.came, one.source, now)
            if self.reports.are_behind(now.mono_s):
                break
        for one in self.waiting.left(now.mono_s):
            self._turn_away(one.came, LAN_FLOOD)
        return deeds

    def _make_room(self, now: Now) -> list[Deed]:
        """Let a key that no link has proven give way to a newcomer, if all places are taken."""
        if not self.neighbours.is_full:
            return []
        least = self.neighbours.least(now.mono_s)
        self.neighbours.remove(least)
        if least.is_here:
            self.turned_away.count(LAN_FULL, prefix=_network_of_host(least.peer.rpartition("%")[0]))
        return self.reports.forget(least)

    def _renew(self, one: Neighbour, came: Came, source: Source, now: Now) -> list[Deed]:
        """Refresh the data of a known router; a farewell or an expired advertisement marks it as away."""
        left_s = one.advert.deadline_s(int(now.wall_s), TTL_S_MAX) - now.wall_s
        if left_s <= 0:
            return self._leave(one, now)
        answer = self._answers.answer(self._said, one, came, source, now)
        if not one.came_from(source, now.mono_s, TTL_S):
            return self._turn_away(came, LAN_FLOOD)
        if not one.is_here:
            self._dialling.soon(one, 0.0 if self.me < one.key else YIELD_S, now)
        one.heard_s, one.ask_s, one.ends_s = now.mono_s, now.mono_s + left_s / 2, now.mono_s + left_s
        one.peer = came.peer
        urls, before = one.reached_at(), one.urls
        if one.failures and urls != before:
            self._dialling.soon(one, AGAIN.pause_s_min, now)
        report = self.reports.report(one, urls, now)
        if report and not before and one.dial_s is None:  # it was to be dialled before it could be reported
            self._dialling.soon(one, YIELD_S, now)
        self._look_s = min(self._look_s, one.due_s)
        return [*answer, *report]

    def _has_linked(self, news: NeighbourLinked, now: Now) -> list[Deed]:
        """Record that a router is connected, or is not any more: a link proves its key, and where it is."""
        one = self.neighbours.get(news.key)
        if one is None:
            return []
        one.is_linked, self._look_s = news.is_up, now.mono_s
        self._dialling.ended(one.key)
        if news.is_up:
            self.neighbours.prove(one, news.ip, now.mono_s)
        return self.reports.report(one, one.reached_at(), now) if one.is_here else []

    def _leave(self, one: Neighbour, now: Now) -> list[Deed]:
        """Mark a router as away."""
        one.ends_s = 0.0
        one.sources.clear()
        self._dialling.stop(one)
        return self.reports.leave(one, now)

    def _forget_all(self) -> list[Deed]:
        """Forget every router that was heard, since this node is on no local network any more."""
        forgotten = [*self.neighbours]
        self.waiting.clear()
        for one in forgotten:
            self.neighbours.remove(one)
        return [deed for one in forgotten for deed in self.reports.forget(one)]

    # -- by the clock --------------------------------------------------------------------------------------

    def _by_the_clock(self, now: Now) -> list[Deed]:
        deeds = [*self._own_port.tick(now), *self._let_in(now), *self._sign(now), *self._speak(now)]
        return deeds if now.mono_s < self._look_s else [*deeds, *self._look_after(now)]

    def _look_after(self, now: Now) -> list[Deed]:
        """Do what is due about the neighbours, and note when the next of it is."""
        deeds: list[Deed] = []
        for one in self.neighbours:
            if one.is_linked and one.is_here and one.ends_s <= now.mono_s:
                one.ends_s = now.mono_s + TTL_S
            elif one.is_here and one.ends_s <= now.mono_s:
                deeds += self._leave(one, now)
            elif one.is_here and one.ask_s <= now.mono_s:
                deeds += self._answers.ask(self._said, one, now)
        deeds += self._dialling.due(now)
        self._look_s = min([self._dialling.look_s(now), *(one.due_s for one in self.neighbours)])
        return deeds

    def _wake(self, now: Now) -> list[Deed]:
        due = [one.due_s for one in self._schedules.values() if self._said]
        if self._own_port.due_s is not None:
            due.append(self._own_port.due_s)
        if len(self.waiting):
            due.append(now.mono_s + TURN_S)
        if self._signed_s is not None:
            due.append(self._signed_s + RENEW_S)
        if self._look_s < inf:
            due.append(self._look_s)
        return [Wake(now.wall_s + max(WAKE_MIN_S, min(due) - now.mono_s))] if due else []

    def listed(self) -> list[dict[str, Any]]:
        """Return a row for each interface of a network, as `router lan list` prints it."""
        here = [one for one in self.neighbours if one.is_here]
        local = [one for _, one in sorted(self.interfaces.items()) if is_local(one)]
        return [_row(one, one.index in self._schedules, here) for one in local]


def _row(one: Interface, is_allowed: bool, here: list[Neighbour]) -> dict[str, Any]:
    network = network_of(one)
    return {
        "interface": one.name,
        "network": "" if network is None else network.id,
        "name": "" if network is None else network.name,
        "addresses": [str(at) for at in one.addresses],
        "allowed": is_allowed,
        "heard": sum(any(source.at == one.index for source in other.sources) for other in here),
        "hosts": len({source.host for other in here for source in other.sources if source.at == one.index}),
    }


@lru_cache(maxsize=2048)
def _network_of_host(host: str) -> str:
    return network_text(ip_address(host))
