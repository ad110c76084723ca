"""Discovery: routers find each other by advertisements, signed with their keys.

The service consists of parts, each with a duty of its own; all of them share `Known`. A part gets the events that
concern it and returns deeds, as rules do; its `Wake` is its own, so it gets `Tick` when that time has come.

    OnLan          datagrams on local networks: which routers are near, and what those call themselves (NAMED)
    InCommon       MEET and MET: groups shared with the routers nearby
    Own            the advertisement of this node's router, for exchanges
    Exchanges      SAMPLE and SAMPLED: which routers exist
    DialBacks      DIAL_ME and DIALLED: whether this node is reached from outside
"""

from __future__ import annotations

from router.core.wire.meeting import Meet, Met
from router.service import contract as c
from router.service.parts import Parts, Reader, RulesPart
from router.service.roles import discovery as d
from services.discovery.core import kept
from services.discovery.core.dial_back import DialBacks
from services.discovery.core.exchanges import Exchanges
from services.discovery.core.known import SERVICE, Known
from services.discovery.core.lan.part import OnLan
from services.discovery.core.messages import Dialled, DialMe, Message, Named, Sample, Sampled, decode_message
from services.discovery.core.own import Own
from services.discovery.core.sampling import SamplingLimits
from services.discovery.core.seeds import read_seeds
from services.discovery.core.shared_groups import InCommon
from services.discovery.settings import Settings


class Discovery:
    """The rules of discovery. `known`: the state that its parts share. Group messages concern none of them."""

    def __init__(self, setup: c.Setup) -> None:
        self._first = kept.first(setup)
        settings: Settings = setup.settings
        self.known = Known()
        self.lan, common, dial_backs = (
            OnLan(setup, self.known),
            InCommon(setup, self.known),
            DialBacks(setup, self.known),
        )
        self.parts: tuple[RulesPart, ...] = self.lan, common, dial_backs
        self.readers: dict[type[Message], Reader] = {
            Meet: common,
            Met: common,
            DialMe: dial_backs,
            Dialled: dial_backs,
            Named: self.lan,
        }
        if settings.sampling:
            limits = SamplingLimits(settings.period_s, answer_s=min(settings.period_s, SamplingLimits().answer_s))
            exchanges = Exchanges(setup, self.known, read_seeds(settings.seeds), limits)
            self.parts = (*self.parts, Own(self.known), exchanges)
            self.readers |= {Sample: exchanges, Sampled: exchanges}
        self._hear = Parts(SERVICE, self.parts, self.readers, decode_message).hear

    def doors(self) -> dict[str, str]:
        return self.lan.doors()

    def admits(self, came: c.Came, mono_s: float) -> bool:
        """Whether a datagram of a local network is to be handled at all, judged without its signature."""
        return self.lan.admits(came, mono_s)

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if isinstance(heard, c.Started):
            self.known.router = heard.router
        if isinstance(heard, d.Linked):
            self.known.link(heard.router, heard.service)
        deeds, self._first = [*self._first, *self._hear(heard, now)], []
        return deeds
