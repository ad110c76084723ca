"""Requests of a service's rules to its router, in the words of the contract, and the answers to them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from router.client.errors import ClientError
from router.core.wire.control import JoinAck, LeaveAck
from router.service import contract as c
from router.service import words
from router.service.dial_back import dialled_back
from router.service.host import SaidError, Service
from router.service.passing import PullsToSay

PULL_S = 10.0

log = logging.getLogger(__name__)


class Requests:
    """Sends a host's requests to its router; `hear` passes the results to the rules."""

    def __init__(self, host: Service, hear: Callable[[c.Heard], None]) -> None:
        self.pulls = PullsToSay()
        self._host = host
        self._hear = hear
        self._warned = set[str]()

    def __repr__(self) -> str:
        return f"<requests of {self._host}: {self.pulls!r}>"

    async def do(self, deed: c.Deed) -> None:
        """Send a request; a refusal is a line in the operator's log, and no failure."""
        try:
            match deed:
                case c.Join(group, local):
                    await self._host.node.join(group or self._host.place.key, local=local)
                case c.Leave(group):
                    await self._host.node.leave(group or self._host.place.key)
                case c.Pull(group, id):
                    self._hear(c.Pulled(group, id, await self._host.node.pull(group, id, timeout_s=PULL_S)))
                case c.Confirm(group, wanted, success):
                    self._host.node.wires.say((JoinAck if wanted else LeaveAck)(group, success))
                case c.PullFrom():
                    for run in self.pulls.take():
                        await self._pull_from(run)
                case c.DialBack():
                    self._hear(await dialled_back(self._host.node, self._host.place.key, deed))
                case c.ListHeld():
                    self._hear(await self._held_ids(deed))
                case c.Advertise():
                    self._hear(await self._signed(deed))
                case _ if (request := words.request_of(deed)) is not None:
                    await self._host.say(*request)
        except (ClientError, SaidError) as error:
            log.warning("%s: %s was not done: %s", self._host, type(deed).__name__, error)

    async def _pull_from(self, run: list[c.PullFrom]) -> None:
        try:
            states = (await self._host.say(*words.pull_of(run)))["states"]
        except (ClientError, SaidError) as error:
            log.warning("%s: %s was not asked for %d messages: %s", self._host, run[0].router.hex(), len(run), error)
            states = ["later"] * len(run)
        for one, state in zip(run, states, strict=True):
            self._hear(c.PulledFrom(one.router, one.group, one.id, state))

    async def _held_ids(self, asked: c.ListHeld) -> c.HeldIds:
        request = words.request_of(asked)
        assert request is not None
        try:
            return words.held_ids(asked, await self._host.say(*request))
        except (ClientError, SaidError) as error:
            return c.HeldIds(asked.group, error=str(error), after=asked.after)

    async def _signed(self, deed: c.Advertise) -> c.Signed:
        groups = [self._host.node.group(one).key.hex() for one in deed.groups]
        said = {"addresses": deed.addresses, "groups": groups, "ttl_s": deed.ttl_s, "life_s": deed.life_s}
        try:
            return c.Signed(deed.tag, bytes.fromhex((await self._host.say("advertise", said))["message"]))
        except SaidError as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                self._host.warn(f"it cannot make this node known: {error}")
            return c.Signed(deed.tag, error=str(error))
