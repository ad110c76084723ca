"""The groups that an app reads in causal order: the waiting messages, the questions, and the next message (R-E10,
R-C30).

Missing messages are requested from the own router by PULL. The answer comes beside the window, so a window full of
waiting messages does not keep their causes out. But an answer is not always news: the node also has messages that this
app had in an earlier run, or that were published before it joined, and does not owe these. So an answer is given to the
app only if it must be new: its number is above all that this app was given of that sender, or the app has a journal
that does not know it and the node has reported missed messages. For any other answer the node is asked whether it is in
this app's queue: if so it is given as well, otherwise it counts as missing. From the second question on, the own router
asks the router that brought the effect for messages that it lacks; such a message is new to it and comes through the
queue. If that is no news to the app by the same test, and follows nothing that the app was given or has published, its
own causes are waited for no longer than `old_s`.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

from msgspec import structs

from router.client.custody.arrivals import Arrival
from router.client.custody.asks import AskLimits, Asks
from router.client.custody.causal import CausalOrder, Given, OrderLimits, Turn
from router.client.errors import ClientError
from router.client.received import Received
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_s

ORDER_LIMITS, ASK_LIMITS = OrderLimits(), AskLimits()
GAP_S = ORDER_LIMITS.gap_s

Order = Literal["arrival", "causal"]

Known = Callable[[Sequence[MessageId]], Collection[MessageId]]


class OpenedMessage(NamedTuple):
    """A message that has come and has been opened."""

    arrival: Arrival
    received: Received


class Ordering:
    """Causal order in all groups that were joined with it. `me`: this app's key; `known` finds ids in its journal;
    `limits` count for groups that are joined later, `old_s` for all."""

    def __init__(self, me: PublicKey, known: Known, *, limits: OrderLimits = ORDER_LIMITS) -> None:
        self.given = Given(limits.given_max)
        self.asks = Asks(ASK_LIMITS)
        self._mine = {me}
        self._known = known
        self.limits = limits
        self._orders: dict[bytes, CausalOrder[OpenedMessage]] = {}
        self._busy: dict[bytes, CausalOrder[OpenedMessage]] = {}  # those in which something waits
        self._newest: OrderedDict[tuple[PublicKey, PublicKey], int] = OrderedDict()  # given, by group and sender
        self._here: dict[MessageId, PublicKey] = {}  # causes that the node has, and perhaps does not owe: with groups
        self._doubts: list[tuple[PublicKey, MessageId]] = []  # those of which the node is to be asked that
        self._owed: set[MessageId] = set()  # those that are in this app's queue
        self._found: dict[bytes, deque[Arrival]] = {}  # out of turn: what others wait for
        self._missed: set[bytes | None] = set()
        self._has_journal = False

    def __repr__(self) -> str:
        return f"<causal order in {len(self._orders)} groups, {self.asks!r}>"

    def choose(self, group: PublicKey, order: Order, gap_s: float, *, is_sealed: bool) -> None:
        """Give the messages of a group in this order, which may change from arrival to causal only; in causal order
        none waits longer than `gap_s`. Raise `ClientError` if that cannot be."""
        if order not in get_args(Order):
            raise ClientError(f'order is "arrival" or "causal", not {order!r}')
        if order == "arrival" and group in self._orders:
            raise ClientError("this connection has joined the group in causal order already, and keeps to it")
        if order == "causal" and not is_sealed:
            raise ClientError(
                'order="causal" needs sealed bodies, which name their causes: join by name or link, not raw'
            )
        if order == "causal" and group not in self._orders:
            self._orders[group] = CausalOrder(self.given, structs.replace(self.limits, gap_s=gap_s))

    def sign_by(self, key: SigningKey) -> None:
        """Know what another key of this app has signed as its own."""
        self._mine.add(key.public)

    def has(self, group: bytes | None) -> bool:
        """Whether the messages of this group are given in causal order."""
        return group in self._orders

    @property
    def is_busy(self) -> bool:
        """Whether any message waits."""
        return bool(self._busy)

    @property
    def is_at_work(self) -> bool:
        """Whether any message waits, or a message that others wait for has been found."""
        return bool(self._busy or self._found)

    def missed(self, group: PublicKey | None, *, has_journal: bool) -> None:
        """Record that, according to the node, this app missed messages of a group."""
        self._missed.add(group)
        self._has_journal = has_journal

    # -- what comes ----------------------------------------------------------------------------------------

    def offer(self, opened: OpenedMessage, now_s: float, wall_s: float) -> OpenedMessage | None:
        """Return the message if it may be given at once; otherwise let it wait and return None."""
        received = opened.received
        order, sender, group = self._orders[received.group or b""], received.sender, received.group
        assert sender is not None and group is not None and received.seq is not None
        unknown = self._unknown(order, received.deps)
        is_old = False
        if self.asks or self._here:
            is_apart = len(unknown) == len(received.deps)
            is_known_new = received.id in self._owed or self._is_new(group, sender, received.seq)
            is_old = is_apart and not is_known_new and self.asks.was_repeated(received.id)
            self._came(received.id)
        if order.is_next(sender, unknown):
            late = order.pass_by(received.id)
            return self._given(opened, (), late=late)
        life_s = expiry_s(received.expiry_min) - wall_s
        if is_old:  # what it follows is older still: else a new reader would ask back to the group's beginning
            life_s = min(life_s, self.limits.old_s)
        size, opened.arrival.data = len(received.wire), b""  # the read that brought it may be much longer
        missing = order.add(received.id, sender, received.seq, unknown, opened, size=size, now_s=now_s, life_s=life_s)
        self._busy[group] = order
        self.asks.want(group, missing, None if is_old else received.via)
        return None

    def holds(self, group: bytes, id: MessageId) -> bool:
        """Whether this message waits."""
        return self._orders[group].holds(id)

    def unreadable(self, group: bytes, id: MessageId) -> None:
        """Record a message that came and cannot be given to the app."""
        order = self._orders.get(group)
        if order is not None:
            self._came(id)
            order.settle(id)

    def answered(self, one: Arrival, said: tuple[PublicKey, int] | None) -> bool:
        """Handle the node's answer to a PULL. `said`: sender and number, None if it cannot be read. Return whether the
        message is to be given to the app, in its turn."""
        group = self.asks.group_of(one.id)
        order = self._orders.get(one.header.signer)
        if group != one.header.signer or order is None or not order.awaits(one.id):
            return False
        if said is None or said[0] in self._mine:
            self.asks.drop(one.id)
            order.settle(one.id)
            return False
        if one.id not in self._owed and not self._is_new(group, *said):
            self.asks.drop(one.id)
            self._here[one.id] = group
            self._doubts.append((group, one.id))
            return False
        return order.has_room(len(one.data))

    def take_doubts(self) -> list[tuple[PublicKey, MessageId]]:
        """Return the messages, with their groups, about which the node must be asked whether they are in this app's
        queue; each once."""
        doubts, self._doubts = self._doubts, []
        return doubts

    def judged(self, id: MessageId, is_owed: bool | None) -> None:
        """Record whether a message is in this app's queue; None: the node has not answered."""
        group = self._here.pop(id, None)
        if group is None:
            return  # it has come
        if is_owed is False:
            self._orders[group].give_up(id)
            return
        if is_owed:
            self._owed.add(id)
        self.asks.want(group, [id])  # through a full window it could not come

    def lost(self) -> None:
        """Ask again for the causes that the node had, because the connection by which they were to come is over."""
        for id, group in self._here.items():
            self.asks.want(group, [id])
        self._here.clear()

    def found(self, one: Arrival) -> None:
        """Take a message out of turn, because others wait for it."""
        self.asks.drop(one.id)
        self._found.setdefault(one.address, deque()).append(one)

    def take_found(self, address: bytes | None) -> Arrival | None:
        """Return a message that others waited for and that has come, of this group or of any (None)."""
        for group in list(self._found) if address is None else [address]:
            queue = self._found.get(group)
            if queue:
                return queue.popleft()
            self._found.pop(group, None)
        return None

    def sought(self, address: bytes | None) -> list[tuple[bytes, MessageId]]:
        """Return the causes, with their groups, for which too many messages wait."""
        return [(group, id) for group, order in self._busy_at(address) if order.is_crowded for id in order.sought()]

    def is_crowded(self, address: bytes | None) -> bool:
        """Whether so many messages wait that the oldest must be given before further ones are looked at."""
        return any(order.is_crowded for _, order in self._busy_at(address))

    # -- whose turn it is ----------------------------------------------------------------------------------

    def ready(self, address: bytes | None) -> OpenedMessage | None:
        """Return a message whose causes have all been given, of this group or of any (None)."""
        for group, order in self._busy_at(address):
            turn = order.ready()
            if turn is not None:
                return self._turn(group, order, turn)
        return None

    def overdue(self, address: bytes | None, now_s: float, *, is_full: bool) -> OpenedMessage | None:
        """Return a message that has waited too long; see `CausalOrder.overdue`."""
        found = self.ready(address)
        for group, order in self._busy_at(address) if found is None else ():
            turn = order.overdue(now_s, is_full=is_full)
            if turn is not None:
                return self._turn(group, order, turn)
        return found

    def wake_s(self, address: bytes | None, *, is_full: bool) -> float:
        """Return when a loop over this address must look again, if no message comes before."""
        turns = (order.wake_s(is_full=is_full) for _, order in self._busy_at(address))
        return min(self.asks.wake_s(), *turns, math.inf)

    def _busy_at(self, address: bytes | None) -> Collection[tuple[bytes, CausalOrder[OpenedMessage]]]:
        if not self._busy:
            return ()
        if address is None:
            return list(self._busy.items())
        order = self._busy.get(address)
        return () if order is None else ((address, order),)

    def _turn(self, group: bytes, order: CausalOrder[OpenedMessage], turn: Turn[OpenedMessage]) -> OpenedMessage:
        if not order:
            del self._busy[group]
        for id in turn.missing:
            if not order.awaits(id):
                self._came(id)
        return self._given(turn.item, turn.missing, late=turn.late)

    def _given(self, opened: OpenedMessage, missing: tuple[MessageId, ...], *, late: bool) -> OpenedMessage:
        received = opened.received
        if received.group is not None and received.sender is not None and received.seq is not None:
            which = received.group, received.sender
            newest = self._newest
            before = newest.get(which, -1)
            newest[which] = max(before, received.seq)
            late = late or received.seq < before  # what named it as a cause may be missing still
            newest.move_to_end(which)
            if len(newest) > self.limits.senders_max:
                newest.popitem(last=False)
        if not missing and not late:
            return opened
        return OpenedMessage(opened.arrival, replace(received, missing=missing, late=late))

    def _came(self, id: MessageId) -> None:
        """Stop asking for the message, and stop waiting for the answer."""
        if self.asks.group_of(id) is not None:
            self.asks.drop(id)
        self._here.pop(id, None)
        self._owed.discard(id)

    def _unknown(self, order: CausalOrder[OpenedMessage], deps: Sequence[MessageId]) -> list[MessageId]:
        """Return the causes that have not been given, in this run or, as the journal says, in an earlier one."""
        given = self.given.ids
        unknown = [id for id in deps if id not in given]
        if not unknown:
            return unknown
        new = [id for id in unknown if not order.awaits(id) and not order.has_missed(id)]
        if not new:
            return unknown
        handled = self._known(new)
        for id in handled:
            self.given.add(id)
        return [id for id in unknown if id not in handled] if handled else unknown

    def _is_new(self, group: PublicKey, sender: PublicKey, seq: int) -> bool:
        """Whether a message that the node has must be new to this app."""
        newest = self._newest.get((group, sender))
        if newest is not None:
            return seq > newest
        return self._has_journal and group in self._missed
