"""A service of the world: the rules that ship, on an app whose disk keeps what they keep."""

from __future__ import annotations

from collections.abc import Callable

from router.client.custody.arrivals import Arrival
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import EXPIRY_MIN, expiry_min
from router.core.wire.message import Unicast, message_id, open_message, seal_multicast, seal_unicast, with_via
from router.core.wire.message import without_via as as_received
from router.service import contract as c
from world.app import App, Habits
from world.node import Node
from world.world import World


class Resident(App):
    """`kept`, `notes` and `heard` are on its disk, and change together with what it sends (`diary`)."""

    def __init__(self, world: World, node: Node, name: str, rules: Callable[[c.Setup], c.Rules], settings: object,
                 habits: Habits) -> None:  # fmt: skip
        self.kept: dict[bytes, bytes] = {}
        self.notes: list[c.Note] = []
        self.heard: set[bytes] = set()
        self._kind = rules
        self._options = settings
        key = world.key()
        super().__init__(
            world.time, name, key, node.address, lambda app: world._connect_app(app, node, True), durable=True,
            habits=habits,
        )  # fmt: skip
        world.apps.append(self)
        self.start()

    def _begin_process(self) -> None:
        super()._begin_process()
        self._rules = self._kind(c.Setup(self.name, self.key.public, self._options, self.kept, self.time.random))
        self.decide(c.Started(self.router), None)

    def _handle(self, one: Arrival) -> None:
        super()._handle(one)
        if bytes(one.id) not in self.heard:
            self.decide(as_heard(one), one)

    def decide(self, heard: c.Heard, one: Arrival | None) -> None:
        """Let the rules hear it, and do what they say at once: in this world a transaction takes no time."""
        now = c.Now(self._wall_s(), self.time.now().mono_s)
        for deed in self._rules.hear(heard, now):
            self._do(deed, one, expiry_min(now.wall_s + 60 * EXPIRY_MIN))
        if one is not None:
            self.heard.add(bytes(one.id))

    def _do(self, deed: c.Deed, one: Arrival | None, until_min: int) -> None:
        match deed:
            case c.Keep(key, None):
                self.kept.pop(key, None)
            case c.Keep(key, bytes(value)):
                self.kept[key] = value
            case c.Note():
                self.notes.append(deed)
            case c.Send(to, body, ttl_s, via):
                wire = seal_unicast(self.key, to, body, ttl_s=ttl_s, expiry_min=until_min)
                self.put(wire if via is None else with_via(wire, via))
            case c.Publish(body, "", ttl_s):
                self.put(seal_multicast(self.key, body, ttl_s=ttl_s, expiry_min=until_min))
            case c.Join(group, local):
                self.join(PublicKey(bytes.fromhex(group)) if group else self.key, local=local)
            case c.Refuse(reason, text) if one is not None:
                self._inbox.refuse(one, reason, text)
            case _:
                raise AssertionError(f"this world knows no {type(deed).__name__}")


def as_heard(one: Arrival) -> c.Message:
    """What the rules hear of a message."""
    message = open_message(one.wire)
    if isinstance(message, Unicast):
        return c.Message(message_id(one.wire), message.body, source=message.source, wire=as_received(one.wire))
    return c.Message(message_id(one.wire), message.body, group=message.group, seen=message.seen)
