"""Requests of a service's rules to its router, in the words of the contract, and the answers to them."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

import trio

from router.client.errors import ClientError, Refused
from router.core.service.back_off import BackOff
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.dial_back import dialled_back
from router.service.host import SaidError, Service
from router.service.memberships import IN_TURN_S, Memberships
from router.service.own_inquiries import OwnInquiries
from router.service.passing import PartsToSay, PullsToSay
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.verbs.answer import LOOK_AT_GROUPS
from router.service.verbs.pull_from import PullsFrom
from router.service.verbs.take_part import TakeParts
from router.service.verbs.verb import Request

PULL_S = 10.0
AGAIN = BackOff(1.0, 30.0)
"""The pauses after which a request that was refused for now is made again."""
AGAIN_MAX = 1_000
"""Most requests that wait for that; further ones are not made again."""
REFUSED_MAX = 256
"""Most requests whose last refusal is known, so that the log tells of the same once."""
Failed = Callable[[c.Deed, Exception], None]


class Requests:
    """Sends a host's requests to its router; `hear` passes the results to the rules, `failed` gets what went wrong with
    a deed, other than a refusal."""

    def __init__(
        self,
        host: Service,
        hear: Callable[[c.Heard], None],
        failed: Failed,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.pulls = PullsToSay()
        self.parts = PartsToSay()
        self.memberships = Memberships(host, hear, failed)
        self._host = host
        self._hear = hear
        self._failed = failed
        self._chance = chance
        self._warned = set[str]()
        self._inquiries = OwnInquiries()
        self._awaited = set[Callable[[], Awaitable[dict[str, Any]]]]()
        self._latest: dict[Hashable, Request] = {}  # by what they are about: those that are not answered
        self._asked_again = 0
        self._refusals: dict[Hashable, str] = {}  # by what they are about: those the rules heard of, in our log
        self._lot = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<requests of {self._host}: {self.pulls!r}>"

    async def do(self, deed: c.Deed) -> None:
        """Send a request; a refusal is a line in the operator's log, and no failure."""
        try:
            match deed:
                case c.Join() | c.Leave():
                    await self.memberships.change_in_turn(deed)
                case c.Pull(group, id):
                    await self._pull(group, id)
                case c.Inquire():
                    self._hear(await self._inquiries.ask(self._host.node, deed))
                case o.AckWanted() | o.TakePart():
                    await self._ask_parts()
                case o.PullFrom():
                    for run in self.pulls.take():
                        await self._ask(PullsFrom.of(run))
                case d.DialBack():
                    await self._dial_back(deed)
                case o.Advertise():
                    await self._advertise(deed)
                case Request():
                    await self._ask(deed)
        except (RouterError, SaidError) as error:
            self._host.log.warning("%s: %s was not done: %s", self._host, type(deed).__name__, error)
        except Exception as error:  # whatever is wrong with one deed, it stops no other
            self._failed(deed, error)

    def begins(self, deed: c.Deed) -> bool:
        """Whether a request begins with the deed; False if it travels with others in one that waits already."""
        match deed:
            case c.Join(group, raw=True):
                with suppress(RouterError):  # which joining it says
                    self._host.node.group(group or self._host.place.key, raw=True)  # what is queued comes before
            case o.PullFrom():
                return self.pulls.add(deed)
            case o.AckWanted() | o.TakePart():
                return self.parts.add(deed)
        return True

    def answers(self, heard: c.Heard) -> bool:
        """Whether this is a question that the rules do not hear: of a command that has changed the home's groups. It is
        answered when the service has joined and left accordingly."""
        if isinstance(heard, c.Asked) and heard.word == LOOK_AT_GROUPS:
            self._host.nursery.start_soon(self._look_at_groups, heard.number)
            return True
        return False

    async def _look_at_groups(self, number: int) -> None:
        await self.memberships.look()
        await self.do(c.Answer(number, {}))

    async def _ask_parts(self, refusals: int = 0) -> None:
        for request in self.parts.take():
            self._host.node.as_published(*request.heard())  # a router passes on what it cannot, or need not, open
            await self._ask(request, refusals)

    async def _ask(self, request: Request, refusals: int = 0) -> None:
        """Send a request behind those before it, and go on; the rules hear what follows from its answer, also from a
        failure. `refusals`: how often it was refused before."""
        self._latest[request.about] = request
        try:
            ended = await self._host.begin_asking(request)
        except (ClientError, SaidError) as error:
            self._was_refused(request, error, refusals + 1)
        else:
            if not request.ANSWERED_LATER:
                self._awaited.add(ended)
            self._host.nursery.start_soon(self._answered, request, ended, refusals)

    async def _answered(self, request: Request, ended: Callable[[], Awaitable[dict[str, Any]]], refusals: int) -> None:
        try:
            found = request.answered(await ended())
        except (ClientError, SaidError) as error:
            self._was_refused(request, error, refusals + 1)
        except Exception as error:  # also of `answered`, which is somebody else's
            self._is_over(request)
            self._failed(request, error)
        else:
            self._is_over(request)
            if found:
                self._refusals.pop(request.about, None)
            for heard in found:
                self._hear(heard)
        finally:
            self._awaited.discard(ended)
            self._lot.unpark_all()

    def _is_over(self, request: Request) -> None:
        if isinstance(request, TakeParts):
            self.parts.answered(request)
        if self._latest.get(request.about) is request:
            del self._latest[request.about]

    async def _ask_again(self, request: Request, refusals: int) -> None:
        """Make a request again that the router had no room to answer, unless a later one about the same was made."""
        await trio.sleep(AGAIN.pause_s(refusals, self._chance()))
        self._asked_again -= 1
        is_latest = self._latest.get(request.about) is request
        if not isinstance(request, TakeParts):
            if is_latest:
                await self._ask(request, refusals)
        elif self.parts.again(request):
            await self._ask_parts(refusals)

    def _was_refused(self, request: Request, error: ClientError | SaidError, refusals: int) -> None:
        """Let the rules hear that a request has failed; if they hear nothing of it, tell the operator. One that may be
        accepted later is then made again, as they would rely on it."""
        found = self._heard_of_failure(request, lambda: request.answered({"error": str(error)}))
        if not found and isinstance(error, Refused) and error.later and self._asked_again < AGAIN_MAX:
            self._host.log.info("%s: %s is asked again: %s", self._host, type(request).__name__, error)
            self._asked_again += 1
            self._host.nursery.start_soon(self._ask_again, request, refusals)
            return
        self._is_over(request)
        if isinstance(error, SaidError) and not found:
            self._failed(request, error)
        elif not found or self._is_news(request, str(error)):
            level = logging.INFO if found else logging.WARNING
            self._host.log.log(level, "%s: %s was not done: %s", self._host, type(request).__name__, error)
        for heard in found or self._heard_of_failure(request, lambda: request.given_up(str(error))):
            self._hear(heard)

    def _is_news(self, request: Request, refusal: str) -> bool:
        """Whether the last request about the same was not refused in these words. Rules that hear of a refusal may make
        the request again, for as long as it lasts."""
        before = self._refusals.pop(request.about, None)
        if len(self._refusals) >= REFUSED_MAX:
            self._refusals.pop(next(iter(self._refusals)))
        self._refusals[request.about] = refusal
        return refusal != before

    def _heard_of_failure(self, request: Request, hear: Callable[[], Sequence[c.Heard]]) -> Sequence[c.Heard]:
        try:
            return hear()
        except Exception as wrong:  # of `answered`, which is somebody else's
            self._failed(request, wrong)
            return ()

    async def until_answered(self) -> None:
        """Wait until the requests before are answered, so that what they make known is known; but for each at most
        `IN_TURN_S`, since one lost answer must not hold up what follows."""
        with trio.move_on_after(IN_TURN_S) as patience:
            while self._awaited:
                await self._lot.park()
        if patience.cancelled_caught:
            self._awaited.clear()

    async def _pull(self, group: PublicKey, id: MessageId) -> None:
        """Ask for a message behind those before it, and go on: rules hear of them in the order of their deeds, in which
        tasks of their own would not run."""

        def heard(wire: bytes | None) -> None:
            self._hear(c.Pulled(group, id, wire))

        try:
            ended = await self._host.node.wires.begin_pull(group, id, heard, PULL_S)
        except Exception:
            heard(None)
            raise
        self._host.nursery.start_soon(ended)

    async def _dial_back(self, deed: d.DialBack) -> None:
        try:
            self._hear(await dialled_back(self._host.node, self._host.place.key, deed))
        except ClientError as error:
            self._hear(d.DialledBack(deed.tag, "", Reason.INTERNAL, str(error)))

    async def _advertise(self, deed: o.Advertise) -> None:
        try:
            request = deed.request(lambda group: self._host.node.group(group).key)
            ended = await self._host.begin_asking(request)
        except (RouterError, SaidError) as error:
            self._was_not_signed(deed, error)
        else:
            self._host.nursery.start_soon(self._signed, deed, ended)

    async def _signed(self, deed: o.Advertise, ended: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        try:
            self._hear(deed.answered(await ended()))
        except (RouterError, SaidError) as error:
            self._was_not_signed(deed, error)

    def _was_not_signed(self, deed: o.Advertise, error: Exception) -> None:
        if str(error) not in self._warned:
            self._warned.add(str(error))
            self._host.warn(f"it cannot make this node known: {error}")
        self._hear(deed.answered({"error": str(error)}))
