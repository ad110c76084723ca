"""The public API for apps: sign on to a node, join groups, publish, receive, send.

    async with router.connect() as node:
        group = await node.join("family")
        await group.publish(b"hello")               # to all others in the group
        async for message in group:                  # from all others in the group
            print(message.sender, message.body)

What an app may rely on:

* `publish` returns when the router has the message in custody, on disk; from then on no crash loses it.
* A message received is settled when the loop asks for the next one, or by `await message.settle()`. If the process
  dies before, the node hands over all unsettled messages again, marked `redelivered`. With a journal the app never
  sees a message again once its loop has moved on. While the process lives, lost connections cause no duplicates.
* Leaving a loop settles nothing: its last message is settled when the next loop over the group begins, or by hand.
* A message that no loop asks for waits; when the window is full of such messages, the node waits too. The groups an
  app has joined under a name stay with that name, also in a later run: give another purpose another name.
* A key that is kept (`as_name`, `key`) keeps its subscriptions and its queue while the app is away; the key of an app
  without a name is thrown away, and its subscriptions end with the connection.
"""

from __future__ import annotations

import os
import random as chance
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Literal, Unpack, overload

import trio

from router.client.app_end import AppEnd, News
from router.client.asking import Asking
from router.client.bell import Bell
from router.client.caught_up import CaughtUp, read_caught_up
from router.client.composer import Composer, GroupSender
from router.client.custody.arrivals import UNICASTS, Arrival
from router.client.custody.aside import End
from router.client.custody.causes import RECENT
from router.client.custody.outbox import Outbox
from router.client.errors import ClientError, NodeUnavailable
from router.client.feed import Feed, Problems
from router.client.group import Group
from router.client.interrupts import uninterrupted
from router.client.joins import Joins
from router.client.journal import Journal
from router.client.kept_key import KeptKey
from router.client.link import PATIENCE_S
from router.client.loops import AddressLoops, Messages
from router.client.opening import Opener
from router.client.options import WINDOW_BYTES, WINDOW_MESSAGES, Settings, SignOn, WhenDown
from router.client.ordering import GAP_S, Order, Ordering
from router.client.outcomes import Outcomes
from router.client.publishing import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MESSAGES_MAX, Publishing
from router.client.pulling import Pulling
from router.client.readers import Readers
from router.client.received import Received
from router.client.sealing.exchange import Answering, PrekeyExchange
from router.client.sealing.rows import PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing
from router.client.senders import GroupName, Senders
from router.client.sending import Address, UnicastManner, UnicastSender
from router.client.settling import Settling
from router.client.state_writer import StateWriter, leave_states
from router.client.wires import Wires
from router.core.wire import link_items
from router.core.wire.admin import Answer, Inquiry
from router.core.wire.control import Carried, Report
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.hint import Hinted
from router.core.wire.pubsub import Wanted
from router.core.wire.reasons import missed_text
from router.service.verbs.caught_up import GroupCaughtUp

ANSWER_S = 30.0
NEEDS_TRIO = "connect() needs trio: `trio.run(main)`; under asyncio, or without async, use connect_blocking()"


def connect(
    *,
    key: SigningKey | None = None,
    as_name: str | None = None,
    home: str | os.PathLike[str] | None = None,
    url: str | None = None,
    expect: PublicKey | str | None = None,
    when_down: WhenDown = "raise",
    patience_s: float = PATIENCE_S,
    journal: str | os.PathLike[str] | None = None,
    attempts_max: int = 0,
    outcomes: bool = False,
    window_messages: int = WINDOW_MESSAGES,
    window_bytes: int = WINDOW_BYTES,
    causes: int = RECENT,
    verify: bool = False,
    on_problem: Callable[[str], None] | None = None,
    on_away: Callable[[str], None] | None = None,
    random: Callable[[], float] = chance.random,
) -> Node:
    """Sign on to the node of a home: `async with router.connect() as node`.

    `as_name`: the key of that name in the home, made if it is new; `key`: your own; neither: a throwaway key. `home`:
    as the command line's `--home`, else `ROUTER_HOME`, else the default home. `url`: another socket, where `expect` may
    give the router's key. `when_down`: while the node is away, `publish` raises `NodeUnavailable` (`"raise"`) or waits
    (`"queue"`); messages already under way wait in either case, with `"raise"` for at most `patience_s`. `journal`: a
    file that remembers handled messages. `attempts_max`: a message is refused once the block has been left by an error
    this often while a loop held it; 0: it comes again without limit. `outcomes`: allows `publish(…, wait=True)`.
    `window_…`: how much the node may hand over before something is settled. `causes`: how many of the newest messages
    each message's header names. `verify`: check signatures again, as the node has done. `on_problem` gets each sentence
    that goes to `node.problems`, instead of the log. `on_away` gets a sentence when the node goes away, and one when it
    is back. Raises `NodeUnavailable`, `KeyringError`, `HomeError`.
    """
    return Node(Settings(**locals()))


@uninterrupted
class Node:
    """An app's connection to its node, to be used in `async with`, once.

    Bounded feeds: `problems`, sentences about messages that could not be given to the app; `missed`, messages refused
    or expired on their way to it; `reports`, its unicasts that ended undelivered; `caught_up`, groups of which the node
    has fetched the messages it missed.
    """

    def __init__(self, settings: Settings) -> None:
        self._sign_on = sign_on = SignOn(settings)
        self.problems: Feed[str] = Problems(settings.on_problem)
        self.missed: Feed[link_items.Missed] = Feed()
        self.caught_up: Feed[CaughtUp] = Feed()
        self.reports: Feed[Report] = Feed()
        self.words: Feed[Inquiry | Wanted | Hinted] = Feed()
        """The router's requests to this app, if it is a service of its node."""
        self._stack = AsyncExitStack()
        self._is_used = self._was_up = self._is_away = False
        self._doors: dict[bytes | None, AddressLoops] = {}
        problem, wall_s = self.problems.tell, settings.wall_s
        self._attempts = sign_on.attempts(problem)
        self._sequences = sign_on.sequences()
        self._composer = composer = Composer(sign_on.key, self._sequences, wall_s, settings.entropy)

        # Where loops wait, and the link's two tasks: who wakes them does not know them.
        loops, to_write, to_ask = trio.lowlevel.ParkingLot(), Bell(), Bell()
        self._writer = StateWriter(sign_on.journal_state(), wall_s, on_failed=loops.unpark_all)
        self._journal = journal = Journal(settings.journal, self._writer)
        self._inbox = inbox = sign_on.inbox(journal.known, problem, self._hear_aside, loops.unpark_all, to_write.ring)
        outbox, ordering = Outbox(IN_FLIGHT_MESSAGES_MAX, IN_FLIGHT_BYTES_MAX), Ordering(self.key, journal.known)
        self._joins = Joins(sign_on.key, wall_s, to_ask.ring, problem)
        app = AppEnd(outbox, inbox, self._joins, self._hear, self._changed, wall_s, sign_on.dialling.expect)
        kept = KeptKey(sign_on, problem, composer.sign_by, self._joins.sign_by, ordering.sign_by, self._seal_by)
        self._link = link = sign_on.link(app, self._changed, to_write, to_ask, kept.now)
        self._publishing = publishing = sign_on.publishing(outbox, link)
        self.wires = Wires(composer, publishing, inbox.make_room)
        self._exchange = exchange = _exchange(sign_on, composer, publishing, self._writer, problem)
        self._sender = UnicastSender(sign_on.home, composer, publishing, exchange.sealing)
        self._asking = Asking(composer, publishing)
        self._pulling = pulling = Pulling(self.wires, self._asking, publishing)

        self._senders = senders = Senders(sign_on.home, settings.causes, ordering, journal)
        self._settling = settling = Settling(inbox, journal, senders.keys, wall_s, problem)
        self._opener = opener = _opener(settings, settling, senders, journal, exchange, problem)
        self._readers = Readers(inbox, settling, opener, ordering, pulling.pull, pulling.judge, loops, wall_s)

    def __repr__(self) -> str:
        return f"<node at {self._sign_on.url}, {'up' if self.is_up else 'down: ' + self._link.end.text}>"

    @property
    def key(self) -> PublicKey:
        """Return the address of this app."""
        return self._sign_on.key.public

    @property
    def router(self) -> PublicKey | None:
        """Return the address of the node's router; None until it is known."""
        return self._link.router

    @property
    def is_up(self) -> bool:
        """Whether this app is connected to its node now."""
        return self._link.is_up

    @property
    def is_stopping(self) -> bool:
        """Whether the node has said that it stops, and has not been reached since."""
        return self._link.has_said_goodbye

    async def until_up(self) -> PublicKey:
        """Wait until this app is connected to its node; return the router's address. Raise `NodeUnavailable`."""
        await self._publishing.until_up()
        assert self._link.router is not None
        return self._link.router

    # -- signing on and off --------------------------------------------------------------------------------

    async def __aenter__(self) -> Node:
        settings = self._sign_on.settings
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            raise ClientError(NEEDS_TRIO) from None
        if self._is_used:
            raise ClientError("a connection serves one `async with`; call connect() again")
        self._is_used = True
        self._readers.begin()
        self._stack.callback(leave_states, {self._sign_on.state, self._writer.state})
        if settings.journal is not None:
            self._stack.callback(self._journal.close)
            try:
                await trio.to_thread.run_sync(self._journal.open)
            except BaseException:
                await self._stack.aclose()
                raise
        self._stack.callback(self._sequences.close, self.problems.tell)
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(nursery.cancel_scope.cancel)
        try:
            nursery.start_soon(self._link.run)
            nursery.start_soon(self._pulling.run, self._readers.judged)
            nursery.start_soon(self._writer.run)
            await self._link.first_try()
            if not self._link.is_up and (self._link.end.final or settings.when_down == "raise"):
                raise self._link.end.error()
            nursery.start_soon(self._exchange.run)
        except BaseException:
            await self._sign_off()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fail(error)
        await self._sign_off()

    def fail(self, error: BaseException | None) -> None:
        """Count an error that ends this app against the messages that its loops hold; see `attempts_max`."""
        self._attempts.fail(error, [door.held() for door in self._doors.values()], self._settling.refuse)

    async def _sign_off(self) -> None:
        try:
            await self._settling.leave(self.problems.tell)
            await self._link.close()
        finally:  # also when a second Ctrl-C ends the waiting: no task may outlive this
            self._link.cut()
            left = NodeUnavailable("this connection to the node has been left; connect again")
            self._publishing.end(left)
            self._end_loops(None)
            await self._stack.aclose()

    def _end_loops(self, error: ClientError | None) -> None:
        self._readers.end(error)
        for feed in (self.problems, self.missed, self.caught_up, self.reports, self.words):
            feed.end()

    # -- groups --------------------------------------------------------------------------------------------

    async def join(
        self,
        group: GroupName,
        *,
        raw: bool = False,
        local: bool = False,
        order: Order = "arrival",
        gap_s: float = GAP_S,
        timeout_s: float = ANSWER_S,
    ) -> Group:
        """Join a group, now and at every new connection: by a name in this home, a link, or a bare key (whose bodies
        come unsealed; a `SigningKey` may also publish). `local`: only messages published on this node. `order`: with
        "causal" a message comes after all that its sender had read before; those that have not come within `gap_s` are
        named in `message.missing`.

        Raises `JoinRefused`, `NotAnswered`, `NodeUnavailable`.
        """
        found = self._named(*await self._senders.found(group), raw=raw)
        self._readers.ordering.choose(found.key, order, gap_s, is_sealed=not found.raw)
        self._senders.joined(found.key, found.group_keys)
        await self._publishing.until_up()
        await self._joins.join(found.key, local, timeout_s, found.hints)
        return found

    def group(self, group: GroupName, *, raw: bool = False) -> Group:
        """Return a group without joining it, which is enough for publishing."""
        sender, name = self._senders.of(group)
        if sender.signer is not None:
            self._joins.hint(sender.group, sender.hints)
        return self._named(sender, name, raw=raw)

    def as_published(self, groups: Collection[PublicKey], others: Collection[PublicKey] = ()) -> None:
        """Give messages of groups that are not joined as they were published, sealed or not; those of `others` opened,
        if the home has their keys."""
        self._senders.as_published(groups, others)

    def _named(self, sender: GroupSender, name: str | None, *, raw: bool) -> Group:
        found = Group(sender, name, self._composer, self._publishing, self._door(sender.group), self.leave, raw=raw)
        self._senders.named(found.key, found.group_keys)
        return found

    async def leave(self, group: Group | GroupName, *, timeout_s: float = ANSWER_S) -> None:
        """Leave a group, named as for `join`; it may also be one that an earlier run of this app has joined."""
        key = group.key if isinstance(group, Group) else (await self._senders.found(group))[0].group
        await self._publishing.until_up()
        await self._joins.leave(key, timeout_s)

    # -- receiving -----------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Received]:
        """Loop over all messages, of all groups and unicasts, in the order of arrival."""
        return self._door(None).loop()

    def messages(self, *, settle_on_next: bool = True) -> Messages:
        """Return a loop over all messages in which each may be settled by hand; see `Group.messages`."""
        return self._door(None).loop(settle_on_next=settle_on_next)

    def unicasts(self, *, settle_on_next: bool = True) -> Messages:
        """Return a loop over the unicasts to this app's address."""
        return self._door(UNICASTS).loop(settle_on_next=settle_on_next)

    def _door(self, address: bytes | None) -> AddressLoops:
        return self._doors.setdefault(address, AddressLoops(self._readers, address))

    # -- sending -------------------------------------------------------------------------------------------

    @overload
    async def send(
        self, address: Address, body: bytes, *, wait: Literal[False] = ..., **manner: Unpack[UnicastManner]
    ) -> MessageId: ...
    @overload
    async def send(
        self, address: Address, body: bytes, *, wait: Literal[True], **manner: Unpack[UnicastManner]
    ) -> Outcomes: ...
    async def send(
        self, address: Address, body: bytes, *, wait: bool = False, **manner: Unpack[UnicastManner]
    ) -> MessageId | Outcomes:
        """Send to one address: a key, its text, or a name that the home's owner has given to a neighbour or keeps a key
        under. The body is sealed to the recipient's prekey, which is asked for if it is not known; `plain`: in the
        open. Raise `NoPrekey` if none comes in time; the other arguments and errors are those of `Group.publish`."""
        posted = await self._sender.send(address, body, follow=wait, **manner)
        return posted.id if posted.outcomes is None else posted.outcomes

    async def pull(self, group: PublicKey, id: MessageId, *, timeout_s: float = ANSWER_S) -> bytes | None:
        """Return the bytes of a message of a joined group, by its id; None if the router does not have it."""
        return await self.wires.pull(group, id, timeout_s)

    def opened(self, one: Arrival) -> Received | None:
        """Return a message as an app sees it; None if it cannot be given to the app, which `problems` reports."""
        return self._opener.open(one)

    async def ask(self, word: str, argument: str = "", *, timeout_s: float = ANSWER_S) -> bytes:
        """Return the node's answer, as JSON, to an operator's question such as `status`."""
        return await self._asking.ask(Inquiry(word, argument), timeout_s)

    async def begin_asking(
        self, word: str, argument: str, *, timeout_s: float = ANSWER_S
    ) -> Callable[[], Awaitable[bytes]]:
        """Send a service's request behind those before it, and return what waits for its answer.

        Several are open side by side if the router repeats their numbers; else this waits for the answer itself."""
        return await self._asking.begin_beside(Inquiry(word, argument), timeout_s)

    # -- events from the link ------------------------------------------------------------------------------

    def _seal_by(self, key: SigningKey) -> None:
        self._exchange.sign_by(key, self._sign_on.renewals())

    def _changed(self) -> None:
        """Act on a link that came up, went down, or settled messages."""
        self._publishing.wake()
        self._tell_away()
        if not self._link.is_up:
            self._publishing.followed.lost()
            self._asking.lost()
            self._readers.ordering.lost()
            self.wires.on_lost()
            if self._link.end.final:
                self._end_loops(self._link.end.error())

    def _tell_away(self) -> None:
        """Report once when the node goes away (at the first failed attempt), and once when it is back."""
        link, settings = self._link, self._sign_on.settings
        self._was_up |= link.is_up
        is_away = link.is_away and (self._was_up or settings.when_down == "queue")
        if link.end.final or is_away is self._is_away:
            return
        self._is_away = is_away
        if settings.on_away is not None:
            settings.on_away(f"the node is away, waiting for it: {link.end.text}" if is_away else "the node is back")

    def _hear_aside(self, wire: bytes, end: End) -> None:
        self._exchange.hear(wire, end)

    def _hear(self, news: News) -> None:
        match news:  # not `Redeemed`: an app of the owner redeems nothing
            case link_items.Outcome():
                self._publishing.followed.hear(news)
                self.wires.on_outcome(news)
            case link_items.Missed():
                self.missed.tell(news)
                self._readers.ordering.missed(news.group, has_journal=self._journal.is_open)
                self.problems.tell(missed_text(news.count, news.reason, self._sign_on.whom))
            case Report():
                self._exchange.hear_report(news)
                self.reports.tell(news)
            case Answer():
                self._asking.hear(news)
            case Carried():
                self.wires.hear(news)
                self._readers.carried(news.message_wire)
            case Inquiry(ask, argument) if ask == GroupCaughtUp.WORD:
                self.caught_up.tell(read_caught_up(argument))
            case Inquiry() | Wanted() | Hinted():
                self.words.tell(news)


def _exchange(
    sign_on: SignOn,
    composer: Composer,
    publishing: Publishing,
    writer: StateWriter,
    problem: Callable[[str], None],
) -> Answering:
    """Return what asks for prekeys and answers requests for them."""
    settings, state = sign_on.settings, sign_on.state
    if not settings.seals:
        return Answering(composer, publishing)
    rows = PrekeyRows(state, writer.gather if writer.state is state else state.commit)
    return PrekeyExchange(
        composer,
        publishing,
        lambda: UnicastSealing(sign_on.key, rows, settings.entropy, mine=sign_on.renewals()),
        rows,
        problem,
        settings.wall_s,
        durable=sign_on.durable,
    )


def _opener(
    settings: Settings,
    settling: Settling,
    senders: Senders,
    journal: Journal,
    exchange: Answering,
    problem: Callable[[str], None],
) -> Opener:
    """Return what opens the messages of this app."""
    return Opener(
        settling,
        senders.keys,
        journal.known,
        problem,
        settings.wall_s,
        verify=settings.verify,
        unseal=exchange.unseal,
        renewal_of=exchange.renewal_of,
    )
