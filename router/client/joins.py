"""The groups that an app wants to be in, and those that its router has acknowledged.

JOIN and LEAVE are never queued by a router (link layer, "Who may do what"), so this end asks again: at every new
connection for all groups, and after `ASK_AGAIN_S` for unanswered ones. Nothing here touches the link: `ask` is called
when there is something to send, and `requests` returns it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import trio
from msgspec import Struct, field

from router.client.custody.outbox import Silent, Submission
from router.client.errors import ClientError, JoinRefused, NotAnswered
from router.core.wire.admin import Answer, encode_inquiry
from router.core.wire.codec import TooLarge, frame
from router.core.wire.control import Join, JoinAck, Leave, LeaveAck, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import TO_ROUTER, Hint, Hinted, encode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

GROUPS_MAX = 100_000
HINTED_MAX = 1_024
ASK_AGAIN_S = 5.0
LIFE_MIN = 60
INTRODUCTION_MIN = 6 * 24 * 60
"""How long this app's introduction is valid: as long as it is reached through its node while it is away."""
_EXPIRIES = 16  # different expiries, so that up to 16 requests within one minute have distinct ids


class WantedMembership(Struct, eq=False):
    """The wish to be in a group, or out of it (`leave`); also the sink of its request to the link."""

    group: PublicKey
    problem: Callable[[str], None]
    local: bool = False
    leave: bool = False
    hints: tuple[Hint, ...] = ()
    asked_s: float = -math.inf
    granted: bool = False
    was_granted: bool = False
    waiting: int = 0
    error: ClientError | None = None
    answered: trio.Event = field(default_factory=trio.Event)

    def grant(self) -> None:
        self.granted = self.was_granted = True
        self.answered.set()

    def deny(self, error: ClientError) -> None:
        """Deny the membership. If it was granted before, no one waits for the answer any more: report it as a problem,
        and ask again at the next connection, because the right may be restored by then."""
        if self.granted:
            self.problem(f"in the group until now: {error}")
        self.granted, self.asked_s = False, math.inf
        if self.error is None and not self.was_granted:
            self.error = error
        self.answered.set()

    def refused(self, reason: Reason, text: str) -> None:
        """Deny the membership if the link refused the request for good, not for a passing reason."""
        if not reason.later:
            self.deny(JoinRefused(self.group, reason))

    def ended(self) -> None:
        """Do nothing: the router has the request; its answer comes as an acknowledgement."""

    def failed(self, error: ClientError) -> None:
        """Hear that the connection is gone for good: who waits for an answer gets this error. A group that was granted
        is not refused by that."""
        if self.granted:
            self.asked_s = math.inf
        else:
            self.deny(error)


class Joins:
    """All memberships of an app. `problem` gets a sentence when a group is refused at a later connection, when no
    caller waits for the answer."""

    def __init__(
        self, key: SigningKey, wall_s: Callable[[], float], ask: Callable[[], None], problem: Callable[[str], None]
    ) -> None:
        self._key = key
        self._wall_s = wall_s
        self._ask = ask
        self._problem = problem
        self._memberships: dict[PublicKey, WantedMembership] = {}
        self._hints: dict[PublicKey, tuple[Hint, ...]] = {}  # of groups that this app publishes in
        self._untold: dict[PublicKey, None] = {}  # those of them that the router has not been told on this connection
        self._lot = trio.lowlevel.ParkingLot()
        self._numbers = count()
        self._is_asked = False

    def sign_by(self, key: SigningKey) -> None:
        """Ask from now on by another key of this app."""
        self._key = key

    def __repr__(self) -> str:
        granted = sum(membership.granted for membership in self._memberships.values())
        return f"<{len(self._memberships)} groups wanted, {granted} of them granted>"

    # -- the app's side ------------------------------------------------------------------------------------

    async def join(self, group: PublicKey, local: bool, timeout_s: float, hints: tuple[Hint, ...] = ()) -> None:
        """Return when the router has acknowledged. Raise `JoinRefused` or `NotAnswered`. `hints`: routers that serve
        the group, which this router hears after each JOIN (R-C28)."""
        await self._wait(WantedMembership(group, self._problem, local, hints=hints), timeout_s)

    def hint(self, group: PublicKey, hints: tuple[Hint, ...]) -> None:
        """Tell the router on each connection which routers serve a group in which this app publishes, whether it joins
        or not; of more than `HINTED_MAX` groups the first are forgotten."""
        if not hints or self._hints.get(group) == hints:
            return
        self._hints.pop(group, None)
        while len(self._hints) >= HINTED_MAX:
            del self._hints[next(iter(self._hints))]
        self._hints[group] = hints
        self._untold[group] = None
        self._ask()

    async def leave(self, group: PublicKey, timeout_s: float) -> None:
        """Return when the router has acknowledged the LEAVE. Leaving a group that was not joined succeeds (R-C15)."""
        await self._wait(WantedMembership(group, self._problem, leave=True), timeout_s)

    def want(self, group: PublicKey, *, local: bool = False, leave: bool = False) -> WantedMembership:
        """Ask for the membership now and at every connection; `answered` is set when the router has answered."""
        membership, _ = self._begin(WantedMembership(group, self._problem, local, leave))
        return membership

    def _begin(self, membership: WantedMembership) -> tuple[WantedMembership, WantedMembership | None]:
        """Return the membership to wait for (an equal one that is still unanswered, if there is one) and the one before
        it."""
        if membership.group not in self._memberships and len(self._memberships) >= GROUPS_MAX:
            raise ClientError(f"this app is in {GROUPS_MAX} groups, which is the most; leave some first")
        earlier = self._memberships.get(membership.group)
        if earlier is not None and not earlier.answered.is_set():
            if (earlier.local, earlier.leave, earlier.hints) == (membership.local, membership.leave, membership.hints):
                membership = earlier
            else:
                earlier.deny(ClientError("a later request about the same group replaced this one"))
        self._memberships[membership.group] = membership
        self._ask()
        return membership, earlier

    async def _wait(self, membership: WantedMembership, timeout_s: float) -> None:
        membership, earlier = self._begin(membership)
        membership.waiting += 1
        try:
            with trio.move_on_after(timeout_s):
                await membership.answered.wait()
        finally:
            membership.waiting -= 1
            if not membership.waiting:
                self._conclude(membership, earlier)
        if membership.error is not None:
            raise membership.error
        if not membership.answered.is_set():
            name, what = short(key_text("group", membership.group)), "leave" if membership.leave else "join"
            said = f"the node did not answer within {timeout_s:g} s whether this app may {what} {name}"
            raise NotAnswered(f"{said}; it is busy, or does not know this app's key and answers no strangers")

    def _conclude(self, membership: WantedMembership, earlier: WantedMembership | None) -> None:
        """Keep a granted membership, to be repeated at the next connection; otherwise restore the state before it."""
        if self._memberships.get(membership.group) is not membership or (membership.granted and not membership.leave):
            return
        if earlier is not None and earlier.granted and not earlier.leave and not membership.granted:
            self._memberships[membership.group] = earlier
        else:
            del self._memberships[membership.group]

    async def all_again(self) -> None:
        """Wait until every group joined before is joined on the present connection too.

        When a connection comes up, a router hands over the messages it owes before it answers, so these have arrived by
        then.
        """
        while any(membership.granted and membership.asked_s < math.inf for membership in self._memberships.values()):
            await self._lot.park()

    def end(self, error: ClientError) -> None:
        """Deny all memberships that a caller waits for, because the node is gone for good."""
        for membership in self._memberships.values():
            if membership.waiting:
                membership.failed(error)

    @property
    def granted(self) -> list[PublicKey]:
        """Return the groups that the router has let this app join."""
        return [one.group for one in self._memberships.values() if one.granted and not one.leave]

    # -- the link's side -----------------------------------------------------------------------------------

    def introduce(self) -> None:
        """Answer the router, which asks for something signed that its uplinks may be shown
        (`core/control/introductions.py`)."""
        self._is_asked = True
        self._ask()

    def restart(self) -> None:
        """Mark all memberships to be asked again, on a new connection."""
        self._is_asked = False
        for membership in self._memberships.values():
            membership.asked_s = -math.inf
        self._untold = dict.fromkeys(self._hints)

    def requests(self, router: PublicKey, now_s: float) -> list[Submission]:
        """Return the JOINs, LEAVEs and introductions to send now; `now_s` is monotonic."""
        again_s = now_s - ASK_AGAIN_S
        due = [one for one in self._memberships.values() if one.asked_s <= again_s and one.error is None]
        for membership in due:
            membership.asked_s = now_s
        hinted, self._untold = [one for one in self._untold if one not in self._memberships], {}
        told = [run for group in hinted for run in self._hint(group, self._hints.get(group, ()), router)]
        if self._is_asked:
            told.append(self._introduction(router))
            self._is_asked = False
        return told + [run for membership in due for run in self._submissions(membership, router)]

    def hear(self, answer: JoinAck | LeaveAck) -> None:
        membership = self._memberships.get(answer.group)
        if membership is None or membership.leave is isinstance(answer, JoinAck):
            return
        membership.asked_s = math.inf
        self._lot.unpark_all()
        if answer.success:
            membership.grant()
            return
        membership.deny(JoinRefused(answer.group))

    def _submissions(self, membership: WantedMembership, router: PublicKey) -> list[Submission]:
        """Return the request, and after a JOIN the hints, if they are short enough to be sent."""
        group, hints = membership.group, membership.hints
        request = Leave(group) if membership.leave else Join(group, membership.local)
        runs = [Submission(self._sealed(encode_control(request), router), membership, again=False)]
        if not membership.leave and not membership.local:
            runs += self._hint(group, hints, router)
        return runs

    def _hint(self, group: PublicKey, hints: tuple[Hint, ...], router: PublicKey) -> list[Submission]:
        """Return the hints of a group, if there are any and they are short enough to be sent."""
        try:
            body = encode_hint(Hinted(group, hints), TO_ROUTER) if hints else b""
        except TooLarge:
            return []
        return [Submission(self._sealed(body, router), Silent(), again=False)] if body else []

    def _introduction(self, router: PublicKey) -> Submission:
        """Return an answer whose expiry follows the time of asking, since of an app that has moved to another node the
        later one counts."""
        body, until_min = encode_inquiry(Answer(b"{}")), expiry_min(self._wall_s()) + INTRODUCTION_MIN
        wire = seal_unicast(self._key, router, body, ttl_s=0, expiry_min=until_min)
        return Submission(frame(wire), Silent(), again=False)

    def _sealed(self, body: bytes, router: PublicKey) -> bytes:
        until_min = expiry_min(self._wall_s()) + LIFE_MIN + next(self._numbers) % _EXPIRIES
        return frame(seal_unicast(self._key, router, body, ttl_s=0, expiry_min=until_min))
