"""What the rules of a service want its router to do, asked in the words of the contract, and the answers they hear."""

from __future__ import annotations

import logging
from collections.abc import Callable

from router.client.errors import ClientError
from router.core.routing.pulls import MINUTES_MAX
from router.core.wire.control import JoinAck, LeaveAck
from router.service import contract as c
from router.service.dial_back import dialled_back
from router.service.held_ids import held_ids
from router.service.host import SaidError, Service
from router.service.passing import PullsToSay

PULL_S = 10.0

log = logging.getLogger(__name__)


class Requests:
    """Asks the router of a host for what deeds want; `hear` lets the rules hear what came of it."""

    def __init__(self, host: Service, hear: Callable[[c.Heard], None]) -> None:
        self.pulls = PullsToSay()
        self._host = host
        self._hear = hear
        self._warned = set[str]()

    def __repr__(self) -> str:
        return f"<requests of {self._host}: {self.pulls!r}>"

    async def do(self, deed: c.Deed) -> None:
        """Ask the router for it; what it does not do is a line of the operator's log, and no failure."""
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
                case c.Answer(number, value):
                    await self._host.say("answer", {"number": number, "value": value})
                case c.Learn(key, urls, until_s, name, how):
                    more = {"urls": urls, "until_s": until_s, "name": name, "how": how}
                    await self._host.say("learn", {"key": key.hex(), **more})
                case c.Grant(key, rights, until_s, uses):
                    more = {"rights": rights, "until_s": until_s, "uses": uses}
                    await self._host.say("grant", {"key": key.hex(), **more})
                case c.PullFrom():
                    for run in self.pulls.take():
                        await self._pull_from(run)
                case c.Listen(url):
                    await self._host.say("listen", {"url": url})
                case c.Dial(key):
                    await self._host.say("dial", {"key": key.hex()})
                case c.DialBack():
                    self._hear(await dialled_back(self._host.node, self._host.place.key, deed))
                case c.ListHeld():
                    self._hear(await held_ids(self._host.node, deed))
                case c.CaughtUp(group, at_s, missing, of):
                    said = {"group": group.hex(), "at_s": at_s, "missing": missing, "of": of}
                    await self._host.say("caught-up", said)
                case c.Advertise():
                    self._hear(await self._signed(deed))
                case c.Agree(key, groups, until_s, lan):
                    agreed = {"groups": [one.hex() for one in groups], "until_s": until_s, "lan": lan}
                    await self._host.say("agree", {"key": key.hex(), **agreed})
        except (ClientError, SaidError) as error:
            log.warning("%s: %s was not done: %s", self._host, type(deed).__name__, error)

    async def _pull_from(self, run: list[c.PullFrom]) -> None:
        named = {"router": run[0].router.hex(), "group": run[0].group.hex()}
        ids, known = [one.id.hex() for one in run], [one.minutes <= MINUTES_MAX for one in run]
        asked = {
            "ids": ids, "expiries": [one.expiry_min * is_known for one, is_known in zip(run, known, strict=True)],
            "minutes": [min(one.minutes, MINUTES_MAX) for one in run],
        }  # fmt: skip
        try:
            states = (await self._host.say("pull", {**named, **asked}))["states"]
        except (ClientError, SaidError) as error:
            log.warning("%s: %s was not asked for %d messages: %s", self._host, run[0].router.hex(), len(run), error)
            states = ["later"] * len(run)
        for one, state in zip(run, states, strict=True):
            self._hear(c.PulledFrom(one.router, one.group, one.id, state))

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
