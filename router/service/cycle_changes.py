"""What follows from the events of one cycle: what is committed, and the deeds that are then carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from router.client.composer import Lifetime
from router.client.errors import ClientError, Refused
from router.client.node import Node
from router.client.received import Received
from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.lifetime import EXPIRY_MIN
from router.core.wire.message import MULTICAST, read_header, with_via
from router.core.wire.reasons import Reason
from router.disk.state.service_state import Batch
from router.service import contract as c
from router.service.copies_alone import Copies, are_copies_alone
from router.service.deed_checks import DeedChecks, WrongDeed, event_of
from router.service.heard_lately import leaves_trace
from router.service.sending import ToSend

EXPIRY_MIN_UNKEPT = 60
NO_ID = MessageId(bytes(32))
"""Stands for the id of a message that could not be made."""

Done = Callable[[], None]
"""Called when what follows from something has been carried out."""
Source = Received | Done | None
"""What is behind an event: the message that was received, or what is called when it was carried out."""


class CycleChanges(Struct):
    """The changes that one cycle commits, and the deeds that it then carries out. `events`: how many things were heard;
    `leaves_trace`: whether anything follows from one of them; `unkept`: the messages that are not committed; `unsent`:
    those that could not be made, with the reason; `ready`: those that are committed; `failed`: messages on which the
    rules have failed; `heard`: the events, each with its source; `told`: those of messages that were sent, of which the
    rules need not hear again; `copies`: messages of which nothing else follows, with their copies; they are not among
    those handled; `is_confined`: the rules have failed on one of them already."""

    batch: Batch = field(default_factory=Batch)
    deeds: list[c.Deed] = field(default_factory=list)
    unkept: list[c.Send] = field(default_factory=list)
    handled: list[Received] = field(default_factory=list)
    refused: list[tuple[Received, Reason, str]] = field(default_factory=list)
    awaited: list[Done] = field(default_factory=list)
    unsent: list[c.Sent] = field(default_factory=list)
    ready: list[ToSend] = field(default_factory=list)
    failed: list[tuple[Received, Exception]] = field(default_factory=list)
    heard: list[tuple[c.Heard, Source]] = field(default_factory=list)
    told: list[c.Sent] = field(default_factory=list)
    copies: list[tuple[Received, Copies]] = field(default_factory=list)
    is_confined: bool = False
    events: int = 0
    leaves_trace: bool = False

    @property
    def suspect(self) -> tuple[c.Heard, Source] | None:
        """Return the event that is to blame if the whole cycle fails: the only one, or the last of the only stream.
        None if it may be any of several."""
        streams = {
            (one.door, one.peer) if isinstance(one, c.Opened | c.Came) else number
            for number, (one, _) in enumerate(self.heard)
        }
        return self.heard[-1] if len(streams) == 1 else None

    def without_event(self) -> CycleChanges:
        """Return what is left if its only event does not count."""
        told = self.told if self.is_confined else []  # else it is heard again
        return CycleChanges(failed=self.failed, awaited=self.awaited, events=self.events, told=told)

    def trace(self, deeds: list[object], follows: CycleChanges, received: Received | None) -> None:
        """Note what has to outlast a crash of what follows from one event, of which `received` is the message if it is
        one: of copies alone nothing, as long as that is not settled."""
        if received is not None and follows.batch.outbox and are_copies_alone(deeds):
            self.copies.append((received, follows.batch.outbox))
            follows.batch.outbox = []
        else:
            self.leaves_trace |= leaves_trace(deeds)

    def handle(self, received: Received) -> None:
        """Note that a message was handled, unless it waits for its copies."""
        if not (self.copies and self.copies[-1][0] is received):
            self.handled.append(received)

    def take(self, other: CycleChanges) -> None:
        """Add the deeds that follow from one more event."""
        self.batch.take(other.batch)
        self.deeds += other.deeds
        self.unkept += other.unkept
        self.refused += other.refused
        self.unsent += other.unsent


class DeedSorter:
    """Sorts the deeds of rules: notes and messages belong to the transaction, as kept values do; the rest comes after
    it. `warn` tells the operator."""

    def __init__(
        self, checks: DeedChecks, node: Node, key: SigningKey, events: frozenset[str], warn: Callable[[str], None]
    ) -> None:
        self._checks = checks
        self._node = node
        self._key = key
        self._events = events
        self._warn = warn

    def __repr__(self) -> str:
        return f"<sorter of deeds with {self._checks!r}>"

    def sort(self, deeds: list[object], received: Received | None) -> CycleChanges:
        """Return what follows from one event, of which `received` is the message if it is one. Raises `WrongDeed` if
        one of the deeds is wrong; none of them is then to be done."""
        follows = CycleChanges()
        try:
            for one in deeds:
                self._sort_one(follows, one, received)
        except BaseException:
            for deed in follows.deeds:
                if isinstance(deed, c.Answer):
                    self._checks.unanswered(deed.number)
            raise
        return follows

    def _sort_one(self, follows: CycleChanges, one: object, received: Received | None) -> None:
        deed = self._checks.judge(one, hears_message=received is not None)
        if type(deed) is c.Put:  # as most are
            follows.batch.put(deed.key, deed.value, secret=deed.secret)
            return
        if type(deed) is c.Write:
            follows.deeds.append(deed)
            return
        self._lay_down(follows, deed, received)
        if isinstance(deed, c.Answer) and deed is not one:
            self._warn(deed.value["error"])

    def wire(self, deed: c.Send | c.Publish | c.Forward) -> bytes:
        """Return the signed message. Raises `WrongDeed`, or another `RouterError` if it cannot be made now."""
        match deed:
            case c.Send(to, body, ttl_s, via):
                return self._node.wires.unicast(to, body, lifetime_of(ttl_s), via)
            case c.Publish(body, group, ttl_s, until_s=int(until_s), once=True):
                return self._node.group(group or self._key, raw=True).signed_once(body, ttl_s, until_s)
            case c.Publish(body, group, ttl_s, until_s=until_s):
                return self._node.group(group or self._key).signed(body, lifetime_of(ttl_s, until_s))
            case c.Forward(wire, via):
                try:
                    if read_header(wire, 0, len(wire)).kind != MULTICAST:
                        raise Malformed("it is no multicast")
                except Malformed as error:
                    raise WrongDeed(f"it returned Forward with a wrong wire: {error}") from None
                return with_via(wire, via)

    def _lay_down(self, follows: CycleChanges, deed: c.Deed, received: Received | None) -> None:
        match deed:
            case c.Forget():
                follows.batch.forgets = True
            case c.LogEvent():
                follows.batch.events.append(event_of(deed, self._events))
            case c.Send(kept=False):
                follows.unkept.append(deed)
            case c.Send() | c.Publish() | c.Forward():
                try:
                    follows.batch.outbox.append((deed.tag, self.wire(deed)))
                except WrongDeed:
                    raise
                except RouterError as error:
                    follows.unsent.append(unsent(deed.tag, error))
            case c.Refuse(reason, text):
                assert received is not None and isinstance(reason, Reason)
                follows.refused.append((received, reason, text))
            case _:
                follows.deeds.append(deed)


def listed(decided: object) -> list[object]:
    """Return the deeds that rules returned, or yielded; none for None. Raises `WrongDeed`."""
    if isinstance(decided, list):
        return decided
    if decided is not None and not isinstance(decided, Iterable):
        raise WrongDeed(f"it returned {type(decided).__name__} where a list of deeds belongs; write it in brackets")
    return [*(decided or ())]


def unsent(tag: str, error: RouterError) -> c.Sent:
    """Return what the rules hear of a message that could not be made."""
    reason = error.reason if isinstance(error, Refused) else Reason.NO_ROUTE
    reason = Reason.NOT_AUTHORISED if isinstance(error, ClientError) and reason is Reason.NO_ROUTE else reason
    return c.Sent(tag, NO_ID, reason, str(error))


def lifetime_of(ttl_s: int, until_s: int | None = None) -> Lifetime:
    """Return the lifetime of a message; nobody keeps one with ttl 0, so its id need not be remembered for a day."""
    return Lifetime(ttl_s, EXPIRY_MIN if ttl_s else EXPIRY_MIN_UNKEPT, until_s)
