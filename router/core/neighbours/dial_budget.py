"""Limit how often an address is dialled that only an advertisement or a datagram names, since it may be a victim's
(R-D22).

Within ten minutes it gets at most a few connections, for at most a few expected keys, over all keys together; a few
more are allowed for each public network, or on a LAN for each host. If another key is found there, the address rests
for ten minutes, and each time for twice as long. If nobody answers, it rests briefly, because a router that is started
again is absent for some seconds. If somebody answers who shows no key, it rests briefly too for the first ten minutes,
because the system answers first for a router that is busy, starts or stops; then as for another key. These minutes
begin anew once nobody answers: the router is off meanwhile. Dials of an address cost nothing once they found the
expected key, because the address belongs to that router; and from then on no dial that expects others there stands in
that key's way, nor does one that finds this key first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from ipaddress import IPv6Address

from msgspec import Struct, field

from router.core.service.refusals import Refusals
from router.core.wire.address import AddressSource, IpAddress, network_text, public_prefix
from router.core.wire.lifetime import apart_words
from router.core.wire.reasons import DIAL_BUDGET, Reason

MINUTE_S = 60
DAY_S = 86_400


class WhoAnswered(Enum):
    """Who was found at a dialled address: the expected key, nobody, not even a machine, or somebody else."""

    EXPECTED = "expected"
    NOBODY = "nobody"
    NO_MACHINE = "no machine"
    OTHER = "other"


class DialLimits(Struct, frozen=True):
    """The numbers of R-D22. `absent_s_min`, `absent_s_max`: how long an address rests where nobody answers.
    `places_max`: addresses that are remembered; while all of them count, no further one is dialled. `of_prefix`:
    connections to a public network, or on a LAN to a host."""

    keys: int = 3
    connections: int = 3
    of_prefix: int = 30
    window_s: float = 10 * MINUTE_S
    rest_s_min: float = 10 * MINUTE_S
    rest_s_max: float = DAY_S
    absent_s_min: float = 10.0
    absent_s_max: float = 10 * MINUTE_S
    places_max: int = 10_000


LAN_LIMITS = DialLimits(of_prefix=10)
"""The limits on local networks, where there may be few prefixes and all of them private: ten connections to a host,
which may have three nodes. All addresses of an IPv6 network at an interface count as one host, since a victim may have
any number of them; so ten in vain to machines that are there keep this node from others of that network, but not from
those that it has found before, or that it hears over IPv4 as well.

What the system knows of MAC addresses tells its hosts apart no better: whoever forges datagrams on a link can forge the
unsigned answers of neighbour discovery too, so each dial would count for another host, and reach the victim with the
next packet, whose MAC address is right again. Nor does a share for some dials help, as each address is the source of
the datagram that names it, and ten forged ones look as ten honest ones do."""
NEIGHBOUR_LIMITS = DialLimits(connections=45, of_prefix=90, absent_s_min=5.0, absent_s_max=15.0)
"""The limits on addresses that a neighbour says itself, of which each has three at most, and which the operator chose
to connect to: who waits for one that moves finds it within half a minute, so 42 dials in vain within the window are
usual, and two such neighbours may be in one network. Where another key answers, the address rests as long as any; where
somebody answers who shows none, as a forwarding does for a router that is away, as briefly for ten minutes."""
_HOST_BYTES = 8
"""Length of the part of an IPv6 address that its host cannot choose."""


class _Place(Struct):
    """The dials of one address within the window, until when it rests, and the router that was found there last.

    `doubted_s`: since when whoever answers there has shown no key, None if the last one did or nobody answered.
    `kept_until_s`: how long the length of its rest and the router found are remembered."""

    dials: deque[tuple[float, bytes]] = field(default_factory=deque)
    rests_until_s: float = 0.0
    rest_s: float = 0.0
    found: bytes = b""
    doubted_s: float | None = None
    kept_until_s: float = 0.0

    def counts(self, now_s: float, since_s: float) -> bool:
        """Whether the place bears on a dial now."""
        _drop_before(self.dials, since_s)
        return bool(self.dials) or self.rests_until_s > now_s


class DialBudget:
    """Decides whether an address may be dialled now. `end` follows a `begin` that returned None, unless dialling was
    given up. `refusals` counts refused dials by network, because keys cost an attacker nothing.

    `prefix_of`: the network of an address, None if it has none that counts; `named_by`: what names the addresses;
    `is_lan`: they are on this node's link, so where the system says that no machine has one of IPv6, nobody was harmed,
    and its network is charged nothing; of IPv4 a machine's firewall may say so as well."""

    def __init__(
        self,
        limits: DialLimits,
        refusals: Refusals,
        prefix_of: Callable[[IpAddress], bytes | None] = public_prefix,
        named_by: str = "an advertisement",
        *,
        is_lan: bool = False,
    ) -> None:
        self._limits = limits
        self._refusals = refusals
        self._prefix_of = prefix_of
        self._named_by = named_by
        self._is_lan = is_lan
        self._places: dict[IpAddress, _Place] = {}
        self._prefixes: dict[bytes, deque[float]] = {}
        self._swept_s = 0.0

    def __repr__(self) -> str:
        return f"<dial budget: {len(self._places)} addresses>"

    def begin(self, key: bytes, at: IpAddress, now_s: float) -> tuple[Reason, str] | None:
        """Count a connection to this address, where `key` is expected; return why it may not be dialled, or None."""
        self._sweep(now_s)
        place = self._places.get(at)
        if place is not None and place.found == key:
            return None
        refused = self._refusal(place, key, at, now_s)
        if refused:
            self._refusals.count(DIAL_BUDGET, prefix=network_text(at.ip))
            return DIAL_BUDGET, f"{at} is named by {self._named_by} and not dialled now: {refused}"
        self._make_room(at, now_s)
        self._places.setdefault(at, _Place()).dials.append((now_s, key))
        if (prefix := self._prefix_of(at)) is not None:
            self._prefixes.setdefault(prefix, deque()).append(now_s)
        return None

    def rests_until_s(self, at: IpAddress) -> float:
        """Return until when an address that was dialled in vain rests, 0 if that is not known of it."""
        place = self._places.get(at)
        return place.rests_until_s if place is not None else 0.0

    def end(self, key: bytes, at: IpAddress, now_s: float, found: WhoAnswered, answered_by: bytes = b"") -> None:
        """Record how a connection began, where `key` was expected; unless it is there, the address rests for all but
        `answered_by`, the router that is."""
        place, limits = self._places.get(at), self._limits
        if place is None:
            return
        if found is WhoAnswered.EXPECTED:
            place.rest_s, place.found, place.doubted_s, place.kept_until_s = 0.0, key, None, now_s + DAY_S
            self._forget(place, key, at)
            return
        if found is WhoAnswered.NO_MACHINE and self._is_lan and at.ip.version == 6:
            self._forget_in_prefix(place, key, at)
        least, most = limits.absent_s_min, limits.absent_s_max
        if found is WhoAnswered.OTHER:
            least, most = self._rest_beside_others(place, key, now_s, answered_by)
        else:
            place.doubted_s = None
        place.rest_s = max(place.rest_s, min(max(least, 2 * place.rest_s), most))
        place.rests_until_s = now_s + place.rest_s
        place.kept_until_s = place.rests_until_s + DAY_S

    def _rest_beside_others(self, place: _Place, key: bytes, now_s: float, answered_by: bytes) -> tuple[float, float]:
        """Return the least and the longest rest of an address where somebody answers, but not as `key`."""
        limits = self._limits
        if answered_by:
            place.found, place.doubted_s = answered_by, None
            return limits.rest_s_min, limits.rest_s_max
        place.doubted_s = now_s if place.doubted_s is None else place.doubted_s
        if now_s < place.doubted_s + limits.window_s:
            return limits.absent_s_min, limits.absent_s_max
        if key == place.found:
            place.found = b""
        return limits.rest_s_min, limits.rest_s_max

    def _forget(self, place: _Place, key: bytes, at: IpAddress) -> None:
        """Do not count the dials that expected this key at this address."""
        self._forget_in_prefix(place, key, at)
        for mine in [one for one in place.dials if one[1] == key]:
            place.dials.remove(mine)

    def _forget_in_prefix(self, place: _Place, key: bytes, at: IpAddress) -> None:
        """Do not count them against the network or host."""
        times = self._prefixes.get(self._prefix_of(at) or b"", deque[float]())
        for began_s, expected in place.dials:
            if expected == key and began_s in times:
                times.remove(began_s)

    def _refusal(self, place: _Place | None, key: bytes, at: IpAddress, now_s: float) -> str:
        limits, since_s = self._limits, now_s - self._limits.window_s
        if place is None and len(self._places) >= limits.places_max and self._least(now_s) is None:
            return "too many other addresses were"
        if place is not None:
            _drop_before(place.dials, since_s)
            if place.rests_until_s > now_s:
                whole = apart_words(int(place.rest_s * 1e9)).removesuffix(" ahead of")
                return f"it was last dialled in vain, and rests for {whole} after that"
            keys = {one for _, one in place.dials} | {key}
            if len(place.dials) >= limits.connections or len(keys) > limits.keys:
                return f"it was dialled {len(place.dials)} times lately, for {len(keys - {key})} other keys"
        times = self._prefixes.get(self._prefix_of(at) or b"")
        while times and times[0] <= since_s:
            times.popleft()
        if times and len(times) >= limits.of_prefix:
            return f"addresses of its network were dialled {len(times)} times lately"
        return ""

    def _make_room(self, at: IpAddress, now_s: float) -> None:
        """Forget an address that no longer counts, if there is no room for another one."""
        if at not in self._places and len(self._places) >= self._limits.places_max:
            least = self._least(now_s)
            assert least is not None
            del self._places[least]

    def _least(self, now_s: float) -> IpAddress | None:
        """Return the address that was remembered first of those that do not count now; None if all do. Those where a
        router was found come last."""
        since_s = now_s - self._limits.window_s
        over = ((at, one.found) for at, one in self._places.items() if not one.counts(now_s, since_s))
        known = None
        for at, found in over:
            if not found:
                return at
            known = known or at
        return known

    def _sweep(self, now_s: float) -> None:
        """Forget old entries now and then; the length of an address's rest, and who was found there, are remembered
        for a day."""
        if now_s - self._swept_s < MINUTE_S:
            return
        self._swept_s, since_s = now_s, now_s - self._limits.window_s
        for at, one in list(self._places.items()):
            if not one.counts(now_s, since_s) and one.kept_until_s <= now_s:
                del self._places[at]
        for prefix, times in list(self._prefixes.items()):
            if times and times[-1] <= since_s:
                del self._prefixes[prefix]


class DialBudgets:
    """The budgets of a node. Local networks have their own, so that whoever is there uses up no other."""

    def __init__(self, refusals: Refusals) -> None:
        self._advertised = DialBudget(DialLimits(), refusals)
        self._neighbours = DialBudget(NEIGHBOUR_LIMITS, refusals, named_by="a neighbour")
        self._lan = DialBudget(LAN_LIMITS, refusals, _host, "a datagram on the local network", is_lan=True)

    def of(self, source: AddressSource) -> DialBudget:
        """Return the budget for addresses that this source names."""
        if source is AddressSource.NEIGHBOUR:
            return self._neighbours
        return self._lan if source is AddressSource.SENDER else self._advertised


def _host(at: IpAddress) -> bytes:
    """Return what counts as one host on a LAN: an IPv4 address, or an IPv6 network at an interface, in which a victim
    may have any number of addresses."""
    if isinstance(at.ip, IPv6Address):
        return at.ip.packed[:_HOST_BYTES] + (at.ip.scope_id or "").encode()
    return at.ip.packed


def _drop_before(dials: deque[tuple[float, bytes]], since_s: float) -> None:
    while dials and dials[0][0] <= since_s:
        dials.popleft()
