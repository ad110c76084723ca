"""A service of the world: the rules that ship, on an app whose disk holds their state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from router.client.app_end import News
from router.client.composer import Composer, GroupSender
from router.client.custody.arrivals import Arrival
from router.client.custody.causes import Causes
from router.client.custody.outbox import Silent, Submission
from router.client.sequence import Sequences
from router.core.wire import link_items
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.codec import frame, unframe
from router.core.wire.control import Carried, Control, Pull, encode_control
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.message import Unicast, message_id, open_message, with_via
from router.core.wire.message import without_via as as_received
from router.core.wire.reasons import Reason
from router.disk.state.app_state import AppState
from router.service import contract as c
from router.service.cycle_changes import lifetime_of
from router.service.deed_checks import event_of, reason_of
from router.service.linked_routers import LinkedRouters
from router.service.passing import Copies, copied_to
from router.service.roles import overlay as o
from router.service.rules_host import wanted_one_by_one
from router.service.verbs.verb import news_of
from world.app import App, Habits, Sent
from world.node import Node
from world.requests import Requests
from world.world import World

PULL_S = 10.0


@dataclass(eq=False)
class Posted(Sent):
    """A message of the rules; `heard` passes its outcome to them, with `tag`."""

    tag: str
    heard: Callable[[Posted, c.Sent], None]
    reason: Reason | None = None

    def refused(self, reason: Reason, text: str) -> None:
        self.reason = reason

    def ended(self) -> None:
        if self in self.diary.unsettled:
            self.heard(self, c.Sent(self.tag, MessageId(self.id), self.reason))


class Resident(App):
    """A resident. `kept`, `notes` and `heard` are on its disk, and change together with its messages (`diary`)."""

    def __init__(
        self,
        world: World,
        node: Node,
        name: str,
        rules: Callable[[c.Setup], c.Rules],
        settings: object,
        habits: Habits,
        key: SigningKey | None = None,
        events: frozenset[str] = frozenset(),
    ) -> None:
        self.kept: dict[bytes, bytes] = {}
        self.notes: list[c.LogEvent] = []
        self.heard: set[bytes] = set()
        self.node = node
        self._kind = rules
        self._options = settings
        self._events = events
        super().__init__(
            world.time,
            name,
            key or world.key(),
            node.address,
            lambda app: world._connect_app(app, node, True),
            durable=True,
            habits=replace(habits, features=("outcome",)),
        )
        world.apps.append(self)
        self.start()

    def _wall_s(self) -> float:
        return self.node.clocks.wall_ns() / 1e9

    def _begin_process(self) -> None:
        self._news: deque[tuple[c.Heard, Posted | None]] = deque()
        self._linked = LinkedRouters()
        self._is_started = False
        self._wakes = 0
        self._pulled: dict[MessageId, PublicKey] = {}
        self.copies = Copies()
        self._composer = Composer(self.key, Sequences(AppState.memory()), self._wall_s, self.time.random.randbytes)
        self._causes = Causes()
        self.requests = Requests(
            lambda word: self._tell(encode_inquiry(word)), self._later, lambda one: self._outbox.add(one), self._after
        )
        self.diary.wanted.clear()
        super()._begin_process()
        for one in self.diary.unsettled:
            assert isinstance(one, Posted)
            self.copies.expect(MessageId(one.id), one.wire, one.tag)
        self.rules = self._kind(c.Setup(self.name, self.key.public, self._options, self.kept, self.time.random))

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        lives = self._lives
        self.time.after(seconds, lambda: call() if lives == self._lives else None)

    def _lose(self) -> None:
        super()._lose()
        self.requests.lost()
        for gone in self._linked.lost():
            self._later(gone)

    # -- hearing ---------------------------------------------------------------------------------------------

    def _later(self, heard: c.Heard, posted: Posted | None = None) -> None:
        """Pass an event to the rules in a moment, in the order in which events happened."""
        self._news.append((heard, posted))
        if len(self._news) == 1:
            self._after(0, self._hear_news)

    def _hear_news(self) -> None:
        while self._news and self._is_started:
            heard, posted = self._news[0]
            if posted is not None:
                del self.diary.unsettled[posted]
                if posted.reason is not None:
                    self.copies.refused(MessageId(posted.id), posted.wire)
            is_copy = posted is not None and posted.reason is None and copied_to(posted.wire) is not None
            if posted is None or (posted.tag and not is_copy):  # `HopOutcome` tells of a copy
                self.decide(heard, None)
            self._news.popleft()
        self._speak()

    def _handle_all(self) -> None:
        if self.end.is_known and not self._is_started:
            self._is_started = True
            self.decide(c.Started(self.router), None)
            self._hear_news()
        super()._handle_all()

    def _handle(self, one: Arrival) -> None:
        super()._handle(one)
        if bytes(one.id) not in self.heard:
            self.decide(as_heard(one), one)

    def decide(self, heard: c.Heard, one: Arrival | None) -> None:
        """Pass an event to the rules, and do at once what they decide: in this world a transaction takes no time."""
        now = c.Now(self._wall_s(), self.time.now().mono_s)
        comes_again = False
        posted: list[Posted] = []
        for deed in self.rules.hear(heard, now):
            comes_again |= isinstance(deed, c.Refuse) and reason_of(deed).later
            self._do(deed, one, posted)
        for submission in sorted(posted, key=lambda one: copied_to(one.wire) or b""):
            self.requests.put(Submission(frame(submission.wire), submission))
        if one is not None and comes_again:
            del self.diary.handled[bytes(one.id)]
        elif one is not None:
            self.heard.add(bytes(one.id))
        if self.end.is_up:
            self.requests.go_on()

    def _hear(self, news: News) -> None:
        match news:
            case o.Wanted() | o.Hinted():
                self._later(news)
            case link_items.Outcome():
                for passed in self.copies.hear(news):
                    self._later(passed)
            case Inquiry() if (heard := news_of(news)) is not None:
                if isinstance(heard, o.Linked):
                    self._linked.note(heard)
                for one in wanted_one_by_one(heard):
                    self._later(one)
            case Answer(text):
                self.requests.answered(text)
            case Carried(wire):
                self._found(message_id(wire), wire)
            case _:
                super()._hear(news)

    # -- doing -----------------------------------------------------------------------------------------------

    def _do(self, deed: c.Deed, one: Arrival | None, posted: list[Posted]) -> None:
        match deed:
            case c.Put(key, None):
                self.kept.pop(key, None)
            case c.Put(key, bytes(value)):
                self.kept[key] = value
            case c.LogEvent():
                event_of(deed, self._events or frozenset((deed.event,)))
                self.notes.append(deed)
            case c.Send(to, body, ttl_s, via, tag):
                wire = unframe(self._composer.unicast(to, body, lifetime_of(ttl_s)).frame)
                posted.append(self._post(wire if via is None else with_via(wire, via), tag))
            case c.Publish(body, "", ttl_s, tag):
                own = GroupSender(self.key.public, self.key, None, self._causes)
                wire = unframe(self._composer.multicast(own, body, lifetime_of(ttl_s), raw=True).frame)
                posted.append(self._post(wire, tag))
            case c.Forward(wire, via, tag):
                posted.append(self._post(with_via(wire, via), tag))
            case c.Join(group, local):
                self.join(PublicKey(bytes.fromhex(group)) if group else self.key, local=local)
            case c.Leave(group):
                self.leave(PublicKey(bytes.fromhex(group)) if group else self.key)
            case c.Refuse(text=text) if one is not None:
                self._inbox.refuse(one, reason_of(deed), text)
            case c.Pull(group, id):
                self._pull(Pull(group, id))
            case o.Attest(tag=tag):
                self._later(o.Attested(tag, self.key.sign(deed.signed())))
            case c.Wake(at_s):
                self._wake(at_s)
            case _:
                self.requests.put(deed)

    def _post(self, wire: bytes, tag: str) -> Posted:
        """Record a message, to be handed in after the earlier requests to the router."""
        one = Posted(wire, bytes(message_id(wire)), self.diary, tag, lambda one, sent: self._later(sent, one))
        self.diary.sent[one.id] = wire
        self.diary.unsettled[one] = None
        self.copies.expect(MessageId(one.id), wire, tag)
        return one

    def _tell(self, body: bytes) -> None:
        """Send its router a control message or a word, once: nothing follows if the connection is lost."""
        self._outbox.add(Submission(self._composer.control(self.router, body), Silent(), again=False))

    def _pull(self, asked: Pull) -> None:
        control: Control = asked
        self._pulled[asked.message] = asked.group
        self._tell(encode_control(control))
        self._after(PULL_S, lambda: self._found(asked.message, None))

    def _found(self, id: MessageId, wire: bytes | None) -> None:
        if (group := self._pulled.pop(id, None)) is not None:
            self._later(c.Pulled(group, id, wire))

    def _wake(self, at_s: float) -> None:
        self._wakes += 1

        def wake(number: int = self._wakes) -> None:
            if number == self._wakes:
                self.decide(c.Tick(), None)
                self._speak()

        self._after(max(0.0, at_s - self._wall_s()), wake)


def as_heard(one: Arrival) -> c.Message:
    """Return a message as the rules receive it."""
    message, id, wire = open_message(one.wire), message_id(one.wire), as_received(one.wire)
    if isinstance(message, Unicast):
        return c.Message(id, message.body, source=message.source, via=message.via, wire=wire)
    return c.Message(id, message.body, group=message.group, via=message.via, seen=message.seen, wire=wire)
