"""Pub/sub services of several nodes as values: their rules run, and a test carries their messages."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.meetings.interests import Interests
from services.pubsub.core.messages import Filter
from services.pubsub.rules import PubSub
from services.pubsub.settings import Settings

NOW = c.Now(1_800_000_000, 1_000)


class Side:
    """The pub/sub service of one node, its kept state, and the requests to its router."""

    def __init__(
        self,
        number: int,
        wanted: Iterable[PublicKey] = (),
        *,
        mode: str = "overlay",
        kept: dict[bytes, bytes] | None = None,
        service: SigningKey | None = None,
    ) -> None:
        self.number = number
        self.router = SigningKey(bytes((11, number)) * 16)
        self.service = service or SigningKey(bytes((12, number)) * 16)
        self.wanted = tuple(wanted)
        self.mode = mode
        self.kept = kept if kept is not None else {}
        self.done: list[c.Deed] = []
        self.wake_s: float | None = None
        self.seconds = 0.0
        self.is_up = True
        self.links: set[PublicKey] = set()
        self.start()

    def start(self) -> None:
        settings = Settings(mode=self.mode)  # type: ignore[arg-type]
        self.rules = PubSub(c.Setup("pubsub", self.service.public, settings, self.kept, Random(self.number)))
        self.links.clear()
        self.hear(c.Started(self.router.public))
        for group in self.wanted:
            self.hear(o.Wanted(group, True))

    def advert(self) -> Advertisement:
        discovery = SigningKey(bytes((14, self.number)) * 16).public
        services = {"discovery": discovery, "pubsub": self.service.public} if self.mode == "overlay" else {}
        address = parse_address(f"tls://45.0.{self.number}.1:4100")
        return make_advertisement(
            self.router, [address], services=services, rev=1, expiry_min=expiry_min(NOW.wall_s + 80_000)
        )

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        now = c.Now(NOW.wall_s + self.seconds, NOW.mono_s + self.seconds)
        deeds = self.rules.hear(heard, now)
        for deed in deeds:
            match deed:
                case c.Wake(at_s):
                    self.wake_s = at_s - NOW.wall_s
                case c.Put(key, value):
                    self.kept.pop(key, None)
                    self.kept.update({key: value} if value is not None else {})
                case o.Attest(tag=tag):
                    self.hear(o.Attested(tag, self.service.sign(deed.signed())))
                case o.Advertise(tag=tag):
                    self.hear(o.Signed(tag, self.advert().message))
                case _:
                    self.done.append(deed)
        return deeds

    def said(self, by: Side, body: bytes, *, source: PublicKey | None = None) -> list[c.Deed]:
        """Bring a unicast over the link of another node; return the answers."""
        source = source or by.service.public
        return self.hear(c.Message(MessageId(bytes(32)), body, source=source, via=by.router.public))

    def take(self, kind: type[Any]) -> list[Any]:
        found = [one for one in self.done if isinstance(one, kind)]
        if found:
            self.done = [one for one in self.done if not isinstance(one, kind)]
        return found

    def mine(self) -> Filter | None:
        """Return the filter that the service announces."""
        return next(part.mine for part in self.rules.parts if isinstance(part, Interests))

    def neighbours(self, group: PublicKey) -> set[PublicKey]:
        return set(self.rules.known.topics[group].neighbours)


class Sides:
    """Several nodes, and the links between them, which come up when something is sent."""

    def __init__(self, *sides: Side) -> None:
        self.sides = {one.router.public: one for one in sides}
        self.sent: list[tuple[Side, c.Send]] = []
        self.seconds = 0.0

    def pass_time(self, seconds: float) -> None:
        """Let this many seconds pass, from one wake-up to the next."""
        end = self.seconds + seconds
        self.carry()
        while True:
            wakes = [one.wake_s for one in self.sides.values() if one.is_up and one.wake_s is not None]
            self.seconds = min([max(self.seconds, one) for one in wakes] + [end])
            for one in self.sides.values():
                one.seconds = self.seconds
            for one in self.sides.values():
                if one.is_up and one.wake_s is not None and one.wake_s <= self.seconds < end:
                    one.wake_s = None
                    one.hear(c.Tick())
            self.carry()
            if self.seconds >= end:
                return

    def carry(self) -> None:
        while sent := [(side, one) for side in self.sides.values() for one in side.take(c.Send)]:
            for sender, one in sent:
                if sender.is_up:
                    self.sent.append((sender, one))
                    self._bring(sender, one)

    def _bring(self, sender: Side, one: c.Send) -> None:
        to = self.sides.get(one.via) if one.via is not None else None
        if to is None or not to.is_up:
            assert one.via is not None
            sender.hear(o.NeighbourUnreachable(one.via, "nobody is there"))
            return
        self.link(sender, to)
        if one.to == to.service.public:
            to.said(sender, one.body)

    def link(self, one: Side, other: Side) -> None:
        """Connect two nodes, unless they are; each is told of the other if its pub/sub service is public."""
        if other.router.public in one.links:
            return
        for here, there in ((one, other), (other, one)):
            here.links.add(there.router.public)
            if there.mode == "overlay":
                here.hear(o.Linked(there.router.public, there.service.public))

    def die(self, side: Side) -> None:
        """Let a node vanish; connected nodes notice that the link is gone."""
        side.is_up = False
        for other in self.sides.values():
            if other.is_up and side.router.public in other.links:
                other.links.discard(side.router.public)
                other.hear(o.Linked(side.router.public))
