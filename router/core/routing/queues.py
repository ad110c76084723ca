"""Room, shares and counters of every recipient's queue.

The queues themselves are on disk; only data for decisions is here. Room is reserved when a message is accepted and
freed when its delivery ends, so an accepted message is never refused later for lack of room.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter

from msgspec import Struct, field

from router.core.neighbours.directory import STRANGERS, TAG_BYTES
from router.core.wire.reasons import Reason

from .backoff import StreamBackoff
from .duplicate_index import fair_room
from .limits import QueueLimits
from .repeats import Repeats


class Occupancy(Struct):
    """Messages and bytes held now, and their limits."""

    messages_max: int
    bytes_max: int
    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size

    def room(self) -> tuple[int, int]:
        return self.messages_max - self.messages, self.bytes_max - self.bytes


class Queue(Struct):
    """One recipient's queue.

    `position`: the first arrival not yet handed to the present link; `behind`: some messages owed have not been handed
    to it; `repeats`: the messages that were handed to an earlier link and may arrive twice; `retry_at`: the monotonic
    second until which the whole queue backs off; `held`: the streams that back off; `handed`: no message from this
    arrival number on has been handed to the present link.
    """

    recipient: bytes
    total: Occupancy
    shares: dict[bytes, Occupancy] = field(default_factory=dict)
    position: int = 0
    behind: bool = False
    repeats: Repeats = field(default_factory=Repeats)
    retry_at: float = 0.0
    backoff_s: float = 0.0
    held: StreamBackoff = field(default_factory=StreamBackoff)
    handed: int = 0

    def __repr__(self) -> str:
        return f"<queue of {self.recipient.hex()[:8]}: {self.total.messages} messages, {self.total.bytes} bytes>"

    def recovered(self) -> None:
        """Begin, after a restart, with the messages owed, none of which has been handed to the present link."""
        self.behind = True
        self.repeats.recovered(self.total.messages)

    def owes(self, signer: bytes) -> bool:
        """Whether any message of this signer is owed."""
        return b"s" + signer[:TAG_BYTES] in self.shares


class RecipientQueues:
    """All recipients' queues, and the tallies of groups, neighbours and the node; empty ones are forgotten.

    `held`: messages and bytes in the store, each message counted once, by the first `TAG_BYTES` of the key of the
    neighbour that brought them. `met`: the first bytes of the keys of routers known by meetings."""

    def __init__(self, limits: QueueLimits, met: Collection[bytes] = ()) -> None:
        self.limits = limits
        self._met = met
        self.by_recipient: dict[bytes, Queue] = {}
        self._groups: dict[bytes, Occupancy] = {}
        self._neighbours: dict[bytes, Occupancy] = {}
        self.node = Occupancy(limits.node_messages_max, limits.node_bytes_max)
        self.held: dict[bytes, tuple[int, int]] = {}

    def of(self, recipient: bytes) -> Queue:
        queue = self.by_recipient.get(recipient)
        if queue is None:
            limits = self.limits
            queue = Queue(recipient, Occupancy(limits.recipient_messages_max, limits.recipient_bytes_max))
            self.by_recipient[recipient] = queue
        return queue

    def _tallies(
        self, queue: Queue, signer: bytes, neighbour: bytes
    ) -> tuple[tuple[dict[bytes, Occupancy], bytes, tuple[int, int]], ...]:
        """Return the tallies that count a signer and a neighbour, each with its key there and its limits."""
        limits = self.limits
        percent = limits.share_percent
        share = max(1, queue.total.messages_max * percent // 100), queue.total.bytes_max * percent // 100
        by_group = limits.group_messages_max, limits.group_bytes_max
        by_neighbour = limits.neighbour_messages_max, limits.neighbour_bytes_max
        signer, neighbour = signer[:TAG_BYTES], neighbour[:TAG_BYTES]
        if neighbour == STRANGERS[:TAG_BYTES]:
            percent = limits.strangers_percent
            by_neighbour = limits.node_messages_max * percent // 100, limits.node_bytes_max * percent // 100
        its_share = share
        if self._met and neighbour in self._met:
            percent = limits.met_percent
            its_share = max(1, queue.total.messages_max * percent // 100), queue.total.bytes_max * percent // 100
        return (
            (queue.shares, b"s" + signer, share),
            (queue.shares, b"n" + neighbour, its_share),
            (self._groups, signer, by_group),
            (self._neighbours, neighbour, by_neighbour),
        )

    def hold(self, neighbour: bytes, messages: int, size: int) -> None:
        """Count messages with a total of `size` bytes as stored; negative numbers release them."""
        self.node.add(messages, size)
        had = self.held.pop(neighbour[:TAG_BYTES], (0, 0))
        if had[0] + messages:
            self.held[neighbour[:TAG_BYTES]] = had[0] + messages, had[1] + size

    def node_room(self, neighbour: bytes | None, size: int = 0) -> tuple[int, int, Reason]:
        """Return the messages and bytes that the node still accepts of a neighbour, and the reason to refuse more.

        `neighbour` is None for an app of this node. The next message has `size` bytes; an empty share has room for it,
        however large."""
        messages, most = self.node.room()
        if neighbour is not None:
            held, percent = self.held.get(neighbour[:TAG_BYTES]), self.limits.neighbour_node_percent
            percent = self.limits.met_percent if neighbour[:TAG_BYTES] in self._met else percent
            share = [fair_room(free, had, percent) for free, had in zip((messages, most), held or (0, 0), strict=True)]
            least = (0, 0) if held else (1, size)
            messages, most = (min(free, max(*one)) for free, *one in zip((messages, most), share, least, strict=True))
        return messages, most, Reason.QUEUE_FULL_NODE

    def owes(self, recipient: bytes) -> bool:
        """Whether anything waits for a recipient, or was handed to it and is not settled."""
        queue = self.by_recipient.get(recipient)
        return queue is not None and queue.total.messages > 0

    def fits_never(self, size: int) -> bool:
        """Whether a message of this size exceeds the room even when everything is empty."""
        limits = self.limits
        most = limits.recipient_bytes_max, limits.group_bytes_max, limits.neighbour_bytes_max, limits.node_bytes_max
        return size > min(most)

    def room(self, recipient: bytes, signer: bytes, neighbour: bytes, size: int = 0) -> tuple[int, int, Reason]:
        """Return the messages and bytes for which a recipient's queue still has room, and the reason to refuse more.

        This is the least room of the queue, the shares in it, and the totals of the group and the neighbour. The next
        message has `size` bytes: an empty share has room for it, however large.
        """
        queue = self.of(recipient)
        rooms = [(*queue.total.room(), Reason.QUEUE_FULL_RECIPIENT)]
        for tallies, name, most in self._tallies(queue, signer, neighbour):
            tally = tallies.get(name)
            if tally is None and tallies is queue.shares:
                most = most[0], max(most[1], size)
            rooms.append((*(most if tally is None else tally.room()), Reason.QUEUE_FULL_GROUP))
        messages, _, few = min(rooms, key=itemgetter(0))
        _, least, small = min(rooms, key=itemgetter(1))
        return messages, least, few if messages < 1 else small

    def reserve(self, recipient: bytes, signer: bytes, neighbour: bytes, messages: int, size: int) -> Queue:
        """Reserve room for `messages` with a total of `size` bytes, and return the queue; negative numbers free it.

        `signer` and `neighbour` may be whole keys or their first `TAG_BYTES`, as kept on disk.
        """
        queue = self.of(recipient)
        queue.total.add(messages, size)
        for tallies, name, most in self._tallies(queue, signer, neighbour):
            tally = tallies.get(name)
            if tally is None:
                tally = tallies[name] = Occupancy(*most)
            tally.add(messages, size)
            if not tally.messages:
                del tallies[name]
        return queue

    def move(self, recipient: bytes, to: bytes) -> None:
        """Give a recipient's queue to another key, which has none."""
        queue = self.by_recipient.pop(recipient, None)
        if queue is not None:
            queue.recipient = to
            self.by_recipient[to] = queue

    def forget_if_empty(self, recipient: bytes) -> None:
        queue = self.by_recipient.get(recipient)
        if queue is not None and not queue.total.messages:
            del self.by_recipient[recipient]
