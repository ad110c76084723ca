"""A view of a topic's ring: the nearest members on each side, and some at random, each with its age (R-C32).

Ages are differences of period numbers, so a period that passes changes no member. A router that stands on many rings
has one `RingMember` for all of them, so hearing it costs the same however many groups are shared with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from services.pubsub.core.known import Neighbour, Side
from services.pubsub.core.rings.ring import ahead

AGE_MAX = 255
NEVER = -1 - AGE_MAX
"""The period in which a member was heard that was never heard: older than any knowledge."""

Sides = tuple[Side, Side, Side]
"""The live members after and before this node, nearest first, and the others."""


class ViewLimits(Struct, frozen=True):
    """Most members of a view on each side of the ring, and at random; and the age beyond which none is passed on.

    `of_prefix_max`: members of one public network on a side, and at random, so that one operator cannot crowd out the
    others.
    """

    side: int = 10
    others: int = 10
    age_max: int = 25
    of_prefix_max: int = 5


class RingMember:
    """The number of the period in which a router was heard last, and whether it is silent: it did not take or answer
    something, and was not heard since. `seats`: in how many views it stands."""

    __slots__ = ("heard", "is_silent", "seats")

    def __init__(self) -> None:
        self.heard = NEVER
        self.is_silent = False
        self.seats = 0

    def __repr__(self) -> str:
        return f"<heard in period {self.heard}{', silent' if self.is_silent else ''}, in {self.seats} views>"

    def hear(self, period: int) -> bool:
        """Record that the router was heard in this period; return whether it was silent."""
        was_silent, self.heard, self.is_silent = self.is_silent, period, False
        return was_silent


class RingMembers(dict[bytes, RingMember]):
    """The members that several views share, by their routers' keys, and the number of the present period.

    One that stands in none of the views is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.period = 0

    def seat(self, router: bytes) -> RingMember:
        """Return the member of a router that gets a seat."""
        if (member := self.get(router)) is None:
            member = self[router] = RingMember()
        member.seats += 1
        return member

    def leave(self, router: bytes) -> None:
        """Record that a router has lost a seat."""
        member = self[router]
        member.seats -= 1
        if not member.seats:
            del self[router]


class Seat:
    """A member in a view: its distance ahead of this node, and the number of the period in which this knowledge was
    true. `by`: the router that named it."""

    __slots__ = ("_members", "ahead", "by", "member", "neighbour", "since")

    def __init__(
        self, neighbour: Neighbour, ahead: int, members: RingMembers, member: RingMember, by: bytes | None
    ) -> None:
        self._members = members
        self.neighbour = neighbour
        self.ahead = ahead
        self.since = NEVER
        self.member = member
        self.by = by

    def __repr__(self) -> str:
        return f"<{self.neighbour!r} of age {self.age}{', silent' if self.is_silent else ''}>"

    @property
    def age(self) -> int:
        """Return the age of this knowledge in periods."""
        return min(AGE_MAX, self._members.period - max(self.since, self.member.heard))

    @property
    def is_silent(self) -> bool:
        return self.member.is_silent

    def renew(self, age: int) -> None:
        """Take younger knowledge in place of this one."""
        self.since = max(self.since, self._members.period - age)


class View:
    """Members by their routers' keys. Only those near on a side, or among the youngest others, have a place.

    Those in `barred` are not live, unless nobody else is, and give way first. `members` counts the periods;
    `is_shared`: what is heard of a member there counts for all views that share it. Call `rearrange` when somebody is
    barred or not any more, and when a member is heard or falls silent in another view."""

    __slots__ = ("_barred", "_is_shared", "_members", "_order", "_own", "_seats", "_sides", "limits")

    def __init__(
        self,
        own: int,
        limits: ViewLimits,
        barred: Container[bytes] = (),
        members: RingMembers | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self._own = own
        self._barred = barred
        self._members = RingMembers() if members is None else members
        self._is_shared = is_shared
        self.limits = limits
        self._seats: dict[bytes, Seat] = {}
        self._order: list[Seat] = []
        self._sides: Sides | None = None

    def __repr__(self) -> str:
        return f"<view of {len(self._seats)}>"

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, router: object) -> bool:
        return router in self._seats

    def __iter__(self) -> Iterator[Seat]:
        """Yield the members in order around the ring, from this node on."""
        return iter(self._order)

    def get(self, router: bytes) -> Seat | None:
        return self._seats.get(router)

    def is_live(self, neighbour: Neighbour) -> bool:
        """Whether it is a member as it is given here, and not silent."""
        seat = self._seats.get(neighbour.router)
        return seat is not None and seat.neighbour == neighbour and not seat.is_silent

    # -- live members ------------------------------------------------------------------------------------------------

    @property
    def sides(self) -> Sides:
        """Return the live members: those that follow this node and those that precede it, nearest first, and the
        others."""
        return self._sides or self._arrange()

    def around(self, place: int, count: int, but: bytes) -> tuple[list[Seat], list[Seat]]:
        """Return the members next to another position that may be passed on, up to `count` after and before it."""
        at = bisect_left(self._order, ahead(self._own, place), key=_ahead)
        after, before = self._order[at:] + self._order[:at], self._order[:at][::-1] + self._order[at:][::-1]
        return self._passed_on(after, count, but), self._passed_on(before, count, but)

    def passed_on(self, but: bytes) -> list[Seat]:
        """Return the members, except that one, that are live and young enough to be passed on."""
        return self._passed_on(self._order, len(self._order), but)

    def unheard(self) -> Neighbour | None:
        """Return the oldest live member, if its age is too high to be passed on."""
        live = (one for one in self._order if not one.is_silent and one.age > self.limits.age_max)
        found = max(live, key=lambda one: one.age, default=None)
        return None if found is None else found.neighbour

    @property
    def nearest(self) -> tuple[bytes, ...]:
        """Return the routers of the nearest members after and before this node, live or not."""
        return tuple([seat.neighbour.router for seat in (*self._order[:1], *self._order[-1:])])

    def rearrange(self) -> None:
        """Look anew who is barred, and who is silent."""
        self._sides = None

    def rank(self, distance: int, *, is_after: bool) -> int:
        """Return how many live members on a side are nearer than one that lies `distance` ahead of this node."""
        at = bisect_left(self._order, distance, key=_ahead)
        nearer = self._order[:at] if is_after else self._order[at:]
        return sum(not one.is_silent and one.neighbour.router not in self._barred for one in nearer)

    # -- changes -----------------------------------------------------------------------------------------------------

    def put(self, neighbour: Neighbour, age: int, by: bytes | None = None) -> None:
        """Add a member, or renew it if this knowledge is younger; the worst placed member may be removed."""
        seat = self._seats.get(neighbour.router)
        if seat is not None and seat.neighbour.service == neighbour.service:
            if seat.neighbour != neighbour:
                seat.neighbour, self._sides = neighbour, None
            seat.renew(age)
            return
        self.remove(neighbour.router)
        place = ahead(self._own, neighbour.place)
        member = self._members.seat(neighbour.router) if self._is_shared else RingMember()
        seat = self._seats[neighbour.router] = Seat(neighbour, place, self._members, member, by)
        seat.renew(age)
        self._order.insert(bisect_left(self._order, seat.ahead, key=_ahead), seat)
        self._sides = None
        self._trim()

    def remove(self, router: bytes) -> None:
        seat = self._seats.pop(router, None)
        if seat is not None:
            if self._is_shared:
                self._members.leave(router)
            self._order.remove(seat)
            self._sides = None

    def copy(self) -> View:
        """Return a view of the same members, which changes by itself."""
        found = View(self._own, self.limits, self._barred, self._members, is_shared=self._is_shared)
        for seat in self._order:
            member = self._members.seat(seat.neighbour.router) if self._is_shared else seat.member
            its = Seat(seat.neighbour, seat.ahead, self._members, member, seat.by)
            its.since = seat.since
            found._seats[seat.neighbour.router] = its
            found._order.append(its)
        return found

    def clear(self) -> None:
        """Remove all members."""
        for router in list(self._seats):
            self.remove(router)

    def hear(self, router: bytes) -> bool:
        """Record that a member was heard just now; return whether it is live again."""
        seat = self._seats.get(router)
        if seat is None or not seat.member.hear(self._members.period):
            return False
        self._sides = None
        return True

    def silence(self, router: bytes) -> None:
        """Record that a member did not take or answer something; it is not live until it is heard."""
        seat = self._seats.get(router)
        if seat is not None:
            seat.member.is_silent, self._sides = True, None

    def forget_old(self) -> bool:
        """Drop the members older than the highest age; return whether there were any."""
        old = [one.neighbour.router for one in self._order if one.age > self.limits.age_max]
        for router in old:
            self.remove(router)
        return bool(old)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _passed_on(self, seats: Iterable[Seat], count: int, but: bytes) -> list[Seat]:
        found: list[Seat] = []
        for seat in seats:
            if len(found) == count:
                break
            if not seat.is_silent and seat.age <= self.limits.age_max and seat.neighbour.router != but:
                found.append(seat)
        return found

    def _arrange(self) -> Sides:
        heard = [one for one in self._order if not one.is_silent]
        live = [one for one in heard if one.neighbour.router not in self._barred] or heard
        after, before = self._side(live), self._side(reversed(live))
        near = {id(one) for one in (*after, *before)}
        others = [one for one in live if id(one) not in near]
        self._sides = found = (
            tuple([one.neighbour for one in after]),
            tuple([one.neighbour for one in before]),
            tuple([one.neighbour for one in others]),
        )
        return found

    def _side(self, seats: Iterable[Seat]) -> list[Seat]:
        """Return the first members, with a few at most of one public network."""
        return _few_of_a_prefix(seats, self.limits.side, self.limits.of_prefix_max)

    def _trim(self) -> None:
        """Drop members on neither side for which there is no place among the others: the barred, the oldest, or those
        of a full network."""
        if len(self._order) <= self.limits.others:
            return
        allowed = [one for one in self._order if one.neighbour.router not in self._barred]
        near = {id(one) for one in (*self._side(allowed), *self._side(reversed(allowed)))}
        others = sorted(
            (one for one in self._order if id(one) not in near),
            key=lambda one: (one.neighbour.router in self._barred, one.age),
        )
        kept = {id(one) for one in _few_of_a_prefix(others, self.limits.others, self.limits.of_prefix_max)}
        for one in others:
            if id(one) not in kept:
                self.remove(one.neighbour.router)


def _ahead(seat: Seat) -> int:
    return seat.ahead


def _few_of_a_prefix(seats: Iterable[Seat], count: int, of_prefix_max: int) -> list[Seat]:
    found: list[Seat] = []
    prefixes: dict[bytes, int] = {}
    for seat in seats:
        if len(found) == count:
            break
        prefix = seat.neighbour.prefix
        if prefix is not None:
            if prefixes.get(prefix, 0) >= of_prefix_max:
                continue
            prefixes[prefix] = prefixes.get(prefix, 0) + 1
        found.append(seat)
    return found
