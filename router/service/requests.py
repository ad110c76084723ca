"""Requests of a service's rules to its router, in the words of the contract, and the answers to them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from router.client.errors import ClientError
from router.core.wire.errors import RouterError
from router.service import contract as c
from router.service.dial_back import dialled_back
from router.service.host import SaidError, Service
from router.service.own_inquiries import OwnInquiries
from router.service.passing import PartsToSay, PullsToSay
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.verbs.pull_from import PullsFrom
from router.service.verbs.verb import Request

PULL_S = 10.0
IN_TURN_S = 1.0
"""How long what comes next waits at most for the router's answer to a `Join` or `Leave`."""
Failed = Callable[[c.Deed, Exception], None]


def _nothing() -> None:
    """Tell nobody."""


class Requests:
    """Sends a host's requests to its router; `hear` passes the results to the rules, `failed` gets what went wrong with
    a deed, other than a refusal."""

    def __init__(self, host: Service, hear: Callable[[c.Heard], None], failed: Failed) -> None:
        self.pulls = PullsToSay()
        self.parts = PartsToSay()
        self._wishes: dict[str, c.Join | c.Leave | None] = {}  # by group: what follows when the router has answered
        self._host = host
        self._hear = hear
        self._failed = failed
        self._warned = set[str]()
        self._inquiries = OwnInquiries()

    def __repr__(self) -> str:
        return f"<requests of {self._host}: {self.pulls!r}>"

    async def do(self, deed: c.Deed) -> None:
        """Send a request; a refusal is a line in the operator's log, and no failure."""
        try:
            match deed:
                case c.Join() | c.Leave():
                    await self._change_in_turn(deed)
                case c.Pull(group, id):
                    self._hear(c.Pulled(group, id, await self._host.node.pull(group, id, timeout_s=PULL_S)))
                case c.Inquire():
                    self._hear(await self._inquiries.ask(self._host.node, deed))
                case o.AckWanted() | o.TakePart():
                    for request in self.parts.take():
                        await self._ask(request)
                case o.PullFrom():
                    for run in self.pulls.take():
                        await self._ask(PullsFrom.of(run))
                case d.DialBack():
                    self._hear(await dialled_back(self._host.node, self._host.place.key, deed))
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
            case o.PullFrom():
                return self.pulls.add(deed)
            case o.AckWanted() | o.TakePart():
                return self.parts.add(deed)
        return True

    async def _change_in_turn(self, wish: c.Join | c.Leave) -> None:
        """Join or leave a group before what comes next, unless the router is silent about this group or an earlier
        one."""
        done = trio.Event()
        self._host.nursery.start_soon(self.change, wish, done.set)
        if not self._wishes:
            with trio.move_on_after(IN_TURN_S):
                await done.wait()

    async def change(self, wish: c.Join | c.Leave, done: Callable[[], None] = _nothing) -> None:
        """Join or leave a group, while others are joined and left; of several wishes about one group the last holds."""
        group = wish.group
        if group in self._wishes:
            self._wishes[group] = wish
            return
        next_wish: c.Join | c.Leave | None = wish
        while next_wish is not None:
            self._wishes[group] = None
            await self._change(next_wish)
            next_wish = self._wishes.pop(group)
        done()

    async def _change(self, wish: c.Join | c.Leave) -> None:
        node, group = self._host.node, wish.group or self._host.place.key
        try:
            if isinstance(wish, c.Join):
                await node.join(group, local=wish.local)
            else:
                await node.leave(group)
        except RouterError as error:
            self._host.log.warning("%s: %s was not done: %s", self._host, type(wish).__name__, error)
        except Exception as error:
            self._failed(wish, error)

    async def _ask(self, request: Request) -> None:
        """Make a request; the rules hear what follows from the answer, also from a failure."""
        try:
            answer = await self._host.ask(request)
        except (ClientError, SaidError) as error:
            answer = {"error": str(error)}
            level = logging.INFO if request.answered(answer) else logging.WARNING  # rules that hear of it may ask again
            self._host.log.log(level, "%s: %s was not done: %s", self._host, type(request).__name__, error)
        for heard in request.answered(answer):
            self._hear(heard)

    async def _advertise(self, deed: o.Advertise) -> None:
        request = deed.request(lambda group: self._host.node.group(group).key)
        try:
            answer = await self._host.ask(request)
        except SaidError as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                self._host.warn(f"it cannot make this node known: {error}")
            answer = {"error": str(error)}
        self._hear(deed.answered(answer))
