"""The other end of an app's link, for tests: an honest router in one process, correct but without a disk.

It keeps custody as `link.cddl` and the link layer prescribe: settled messages are in its queues, and those handed over
but not settled are sent again. Tests may delay its settling, let it refuse, cut its connections, and read its diary.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from router.core.link.custody import Outgoing
from router.core.link.session import Ended, MessageRun, Offer, OtherItem, RefusedAt, Session, SettledUpTo, Up
from router.core.wire import link_items as link
from router.core.wire.admin import (
    ALL_NUMBERED,
    NUMBERED,
    Answer,
    Inquiry,
    decode_inquiry,
    encode_inquiry,
    is_inquiry,
    with_number,
    without_number,
)
from router.core.wire.codec import frame
from router.core.wire.control import (
    Carried,
    Control,
    Join,
    JoinAck,
    Leave,
    LeaveAck,
    Pull,
    decode_control,
    encode_control,
)
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Multicast, Unicast, message_id, open_message, seal_unicast
from router.core.wire.reasons import Reason
from router.transport import contract as transport
from router.transport.contract import Stream, StreamBroken

Refusal = tuple[int, Reason, str]


@dataclass
class Queue:
    """Messages owed to one recipient; the first `handed` were handed over on this or an earlier connection."""

    wires: deque[bytes] = field(default_factory=deque)
    handed: int = 0
    again: int = 0


class RouterEnd:
    """Serve apps on a URL. Public attributes are for tests to set and read."""

    def __init__(self, url: str = "memory://node", *, window: tuple[int, int] = (4096, 8 << 20)) -> None:
        self.url = url
        self.key = SigningKey(os.urandom(32))
        self.window = window
        self.frame_bytes_max = 1 << 20
        self.links: dict[PublicKey, RouterLink] = {}
        self.members: dict[PublicKey, dict[PublicKey, bool]] = {}
        self.queues: dict[PublicKey, Queue] = {}
        self.durable: set[PublicKey] = set()
        self.accepted: set[MessageId] = set()
        self.stored: dict[MessageId, bytes] = {}  # what a PULL is answered with, beside what waits for the asker
        self.pulls: list[MessageId] = []
        self.inquiries: list[Inquiry] = []
        self.refuse: Callable[[Multicast | Unicast], Reason | None] = lambda message: None
        self.join_answer: bool | None = True
        self.holding = False
        self.answers_pings = True
        self.hears_settled = True  # on later connections
        self.answers = True
        self.numbers = self.numbers_all = False
        self.greets = True
        self.count_outcomes = False
        self.heard: list[list[bytes]] = []  # by connection: the messages in order, control included
        self.hellos: list[link.Hello] = []
        self.goodbyes: list[tuple[Reason, str]] = []
        self.items: list[link.Item] = []
        self.refusals: list[tuple[int, Reason]] = []  # by apps, of messages handed to them
        self._scope: trio.CancelScope | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until `stop`."""
        listen = transport.load(transport.scheme_of(self.url)).listen
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            self.url = await nursery.start(listen, self.url, self.key, self._serve)
            task_status.started()

    def stop(self) -> None:
        """Die as by `kill -9`, but with everything in the queues safe."""
        assert self._scope is not None
        self._scope.cancel()

    async def _serve(self, stream: Stream) -> None:
        await RouterLink(self, stream).run()

    def cut(self) -> None:
        """Break every connection, and forget the messages received and not settled."""
        for one in list(self.links.values()):
            one.scope.cancel()

    def release(self) -> None:
        """Settle the messages whose settling was delayed."""
        self.holding = False
        for one in list(self.links.values()):
            one.settle_held()

    def link_to(self, key: PublicKey) -> RouterLink:
        return self.links[key]

    def publish(self, wire: bytes) -> None:
        """Take a message from another node."""
        message = open_message(wire)
        assert isinstance(message, Multicast)
        for member in self.members.get(message.group, {}):
            self.owe(member, wire)

    def owe(self, recipient: PublicKey, wire: bytes) -> None:
        self.queues.setdefault(recipient, Queue()).wires.append(wire)
        if recipient in self.links:
            self.links[recipient].hand_over()

    def bodies(self, connection: int) -> list[bytes]:
        """Return the bodies of the messages, except control messages, of a connection (from 0; -1 is the last)."""
        messages = [open_message(wire) for wire in self.heard[connection]]
        return [one.body for one in messages if not (isinstance(one, Unicast) and one.destination == self.key.public)]


class RouterLink:
    """One connection of an app."""

    def __init__(self, router: RouterEnd, stream: Stream) -> None:
        self.router = router
        self.stream = stream
        self.scope = trio.CancelScope()
        self.heard: list[bytes] = []
        self.settled = 0
        self.hears_settled = router.hears_settled
        self.app: PublicKey
        self.outgoing: Outgoing
        self._held: list[tuple[int, list[bytes]]] = []
        self._flights: deque[bool] = deque()  # whether each is from the queue, or the router's own message
        self._parts: list[bytes] = []
        self._wake = trio.Event()
        offer = Offer(
            "router",
            b"epoch..8",
            True,
            *router.window,
            os.urandom(16),
            router.frame_bytes_max,
            ((NUMBERED, ALL_NUMBERED) if router.numbers_all else (NUMBERED,)) if router.numbers else (),
        )
        self.session = Session(offer, router.key, dialler=False, peer=stream.peer)

    async def run(self) -> None:
        with self.scope:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    nursery.cancel_scope.cancel()
            except* StreamBroken:
                pass
            finally:
                self._go_down()

    def say(self, item: link.Item) -> None:
        self.session.send(item)
        self._wake.set()

    def tell(self, control: Control | Answer) -> None:
        """Send a control message of the router's own."""
        body = encode_inquiry(control) if isinstance(control, Answer) else encode_control(control)
        self._hand(seal_unicast(self.router.key, self.app, body, ttl_s=0, expiry_min=later()), False)

    def answer(self, inquiry: Inquiry) -> None:
        if inquiry.ask == "pull":
            said = json.loads(inquiry.argument)
            self.tell(Answer(json.dumps({"states": [self._state(bytes.fromhex(one)) for one in said["ids"]]}).encode()))
            return
        number, argument = without_number(inquiry.argument)
        text = json.dumps({"asked": f"{inquiry.ask} {argument}"})
        self.tell(Answer((text if number is None else with_number(number, text)).encode()))

    def _state(self, id: bytes) -> str:
        if any(message_id(one) == id for one in self.router.queues.get(self.app, Queue()).wires):
            return "owed"
        return "known" if id in self.router.stored else "asked"

    # -- reading -------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while data := await self.stream.receive_some(1 << 16):
            for event in self.session.receive(data, trio.current_time()):
                match event:
                    case Up(peer, hello):
                        self._come_up(peer, hello)
                    case MessageRun(first_k, data, spans):
                        wires = [data[start:end] for _, start, end in spans]
                        self.heard += wires
                        self._held.append((first_k, wires))
                        if not self.router.holding:
                            self.settle_held()
                    case SettledUpTo(n):
                        self._hear_settled(n)
                    case RefusedAt(k, reason, _):
                        self.router.refusals.append((k, reason))
                    case OtherItem(item):
                        self._hear_item(item)
                    case Ended(reason, text):
                        self.router.goodbyes.append((reason, text))
                        return
            self._wake.set()

    def _hear_item(self, item: link.Item) -> None:
        self.router.items.append(item)
        if isinstance(item, link.Ping) and self.router.answers_pings:
            self.say(link.Pong(item.t0, item.t0, item.t0))

    def _come_up(self, app: PublicKey, hello: link.Hello) -> None:
        router = self.router
        router.hellos.append(hello)
        router.heard.append(self.heard)
        if app in router.links:
            router.links[app].session.goodbye(Reason.REPLACED, "a newer connection of the same key")
            router.links[app]._wake.set()
        self.app, self.outcomes = app, "outcome" in hello.features
        self.outgoing = Outgoing(hello.window_messages, hello.window_bytes)
        router.links[app] = self
        if hello.durable:
            router.durable.add(app)
        queue = router.queues.get(app)
        if queue is not None:
            queue.again, queue.handed = queue.handed, 0
        if router.greets:
            self.say(link.Redelivered(queue.again if queue is not None else 0))
        self.hand_over()

    def _go_down(self) -> None:
        router = self.router
        if router.links.get(getattr(self, "app", PublicKey(bytes(32)))) is not self:
            return
        del router.links[self.app]
        if self.app not in router.durable:
            router.queues.pop(self.app, None)
            for members in router.members.values():
                members.pop(self.app, None)

    def _hear_settled(self, n: int) -> None:
        if not self.hears_settled:
            return
        self.outgoing.settle(n)
        queue = self.router.queues.get(self.app)
        for _ in range(n - self.settled):
            if self._flights.popleft() and queue is not None:
                queue.wires.popleft()
                queue.handed -= 1
        self.settled = n
        self.hand_over()

    # -- deciding ------------------------------------------------------------------------------------------

    def settle_held(self) -> None:
        for first_k, wires in self._held:
            verdicts = [(k, self._decide(wire)) for k, wire in enumerate(wires, first_k)]
            refusals: list[Refusal] = [(k, reason, "") for k, reason in verdicts if reason is not None]
            self.session.settle(first_k + len(wires) - 1, refusals)
        self._held.clear()
        self._wake.set()

    def _decide(self, wire: bytes) -> Reason | None:
        """Accept a message, or return the reason why not. A duplicate is settled like the first copy."""
        router, message, id = self.router, open_message(wire), message_id(wire)
        if isinstance(message, Unicast) and message.destination == router.key.public:
            return self._hear_control(message)
        if id in router.accepted:
            return None
        reason = router.refuse(message)
        if reason is not None:
            return reason
        if isinstance(message, Unicast):
            recipients = [message.destination]
        else:
            recipients = [one for one in router.members.get(message.group, {}) if one != self.app]
            if not recipients:
                return Reason.NO_SUBSCRIBERS
        router.accepted.add(id)
        if self.outcomes:
            self._tell_outcomes(id, recipients)
        for recipient in recipients:
            router.owe(recipient, wire)
        return None

    def _tell_outcomes(self, id: MessageId, recipients: list[PublicKey]) -> None:
        if self.router.count_outcomes:
            self.say(link.Outcome(id, (link.RecipientOutcome(len(recipients), "queued"),)))
        else:
            self.say(link.Outcome(id, tuple(link.RecipientOutcome(one, "queued") for one in recipients)))

    def _hear_control(self, message: Unicast) -> Reason | None:
        assert message.source == self.app and message.ttl_s == 0
        if is_inquiry(message.body):
            inquiry = decode_inquiry(message.body)
            assert not isinstance(inquiry, Answer)
            self.router.inquiries.append(inquiry)
            if self.router.answers:
                self.answer(inquiry)
            return None
        router = self.router
        match decode_control(message.body):
            case Join(group, local) if router.join_answer is not None:
                if router.join_answer:
                    router.members.setdefault(group, {})[self.app] = local
                self.tell(JoinAck(group, router.join_answer))
            case Leave(group):
                router.members.get(group, {}).pop(self.app, None)
                self.tell(LeaveAck(group, True))
            case Pull(_, id):
                self._carry(id)
        return None

    def _carry(self, id: MessageId) -> None:
        """Answer a PULL as a router does: beside the window, up to its slack, or not at all."""
        self.router.pulls.append(id)
        queue = self.router.queues.get(self.app, Queue())
        wire = next((one for one in queue.wires if message_id(one) == id), self.router.stored.get(id))
        if wire is not None and self.outgoing.takes_control(len(wire)):
            self.tell(Carried(wire))

    # -- handing over --------------------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Hand over the owed messages that fit the window."""
        queue = self.router.queues.get(self.app)
        while queue is not None and queue.handed < len(queue.wires):
            wire = queue.wires[queue.handed]
            if not self.outgoing.fits([len(frame(wire))]):
                return
            queue.handed += 1
            self._hand(wire, True)

    def _hand(self, wire: bytes, owed: bool) -> None:
        one = frame(wire)
        self.outgoing.send(1, len(one))
        self._flights.append(owed)
        self._parts.append(one)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            parts = self.session.output() + self._parts
            self._parts = []
            if parts:
                await self.stream.send_parts(parts)


def later() -> int:
    return expiry_min(time.time() + 3600)
