"""A service of the world: the rules that ship, on an app whose disk keeps what they keep."""

from __future__ import annotations

import json
from collections.abc import Callable

from router.client.app_end import News
from router.client.composer import Composer, Lifetime
from router.client.custody.arrivals import Arrival
from router.client.sequence import Sequences
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.codec import unframe
from router.core.wire.control import JoinAck, LeaveAck, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import EXPIRY_MIN, expiry_min
from router.core.wire.message import Unicast, message_id, open_message, seal_multicast, seal_unicast, with_via
from router.core.wire.message import without_via as as_received
from router.service import contract as c
from world.app import App, Habits
from world.node import Node
from world.world import World


class Resident(App):
    """`kept`, `notes` and `heard` are on its disk, and change together with what it sends (`diary`).

    `sign`: returns its router's advertisement as signed now; without it the router signs none."""

    def __init__(self, world: World, node: Node, name: str, rules: Callable[[c.Setup], c.Rules], settings: object,
                 habits: Habits, key: SigningKey | None = None,
                 sign: Callable[[], bytes] | None = None) -> None:  # fmt: skip
        self.kept: dict[bytes, bytes] = {}
        self.notes: list[c.Note] = []
        self.heard: set[bytes] = set()
        self._kind = rules
        self._options = settings
        self._sign = sign
        super().__init__(
            world.time, name, key or world.key(), node.address, lambda app: world._connect_app(app, node, True),
            durable=True, habits=habits,
        )  # fmt: skip
        world.apps.append(self)
        self.start()

    def _begin_process(self) -> None:
        super()._begin_process()
        self._composer = Composer(self.key, Sequences(None), self._wall_s, self.time.random.randbytes)
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

    def _hear(self, news: News) -> None:
        if isinstance(news, c.Wanted):
            self.decide(news, None)
        else:
            super()._hear(news)

    def _tell(self, body: bytes) -> None:
        """Send its router a control message or a service's word."""
        self.put(seal_unicast(self.key, self.router, body, ttl_s=0, expiry_min=expiry_min(self._wall_s() + 3600)))

    def _ask(self, word: str, key: bytes, **more: object) -> None:
        self._tell(encode_inquiry(Inquiry(word, json.dumps({"key": key.hex(), **more}))))

    def _wake(self, at_s: float) -> None:
        self._wakes_s = at_s
        self._later(max(0.0, at_s - self._wall_s()), c.Tick(), lambda: self._wakes_s == at_s)

    def _later(self, seconds: float, heard: c.Heard, is_due: Callable[[], bool] = lambda: True) -> None:
        """Let the rules hear it later in this life, if it is due then."""
        lives = self._lives

        def hear() -> None:
            if lives == self._lives and is_due():
                self.decide(heard, None)
                self._speak()

        self.time.after(seconds, hear)

    def _do(self, deed: c.Deed, one: Arrival | None, until_min: int) -> None:
        match deed:
            case c.Keep(key, None):
                self.kept.pop(key, None)
            case c.Keep(key, bytes(value)):
                self.kept[key] = value
            case c.Note():
                self.notes.append(deed)
            case c.Send(to, body, ttl_s, via):
                wire = unframe(self._composer.unicast(to, body, Lifetime(ttl_s)).frame)
                self.put(wire if via is None else with_via(wire, via))
            case c.Publish(body, "", ttl_s):
                self.put(seal_multicast(self.key, body, ttl_s=ttl_s, expiry_min=until_min))
            case c.Join(group, local):
                self.join(PublicKey(bytes.fromhex(group)) if group else self.key, local=local)
            case c.Refuse(reason, text) if one is not None:
                self._inbox.refuse(one, reason, text)
            case c.Confirm(group, wanted, success):
                self._tell(encode_control((JoinAck if wanted else LeaveAck)(group, success)))
            case c.Learn(key, urls, until_s, name):
                self._ask("learn", key, urls=urls, until_s=until_s, name=name)
            case c.Agree(key, groups, until_s, lan):
                self._ask("agree", key, groups=[one.hex() for one in groups], until_s=until_s, lan=lan)
            case c.Wake(at_s):
                self._wake(at_s)
            case c.Advertise(tag=tag):
                if self._sign is not None:
                    self._later(0.01, c.Signed(tag, self._sign()))
            case _:
                raise AssertionError(f"this world knows no {type(deed).__name__}")


def as_heard(one: Arrival) -> c.Message:
    """What the rules hear of a message."""
    message = open_message(one.wire)
    if isinstance(message, Unicast):
        source, via = message.source, message.via
        return c.Message(message_id(one.wire), message.body, source=source, via=via, wire=as_received(one.wire))
    return c.Message(message_id(one.wire), message.body, group=message.group, seen=message.seen)
