"""What is owed to whom, in numbers: room, shares and counters of every recipient's queue.

The queues themselves lie on disk; here is what deciding needs. Room is taken when a message is accepted and given back
when it has come to its end, so what was accepted is never refused later for lack of room.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from router.core.wire.reasons import Reason

from .backoff import StreamBackoff
from .directory import STRANGERS
from .duplicate_index import fair_room
from .limits import QueueLimits

TAG_BYTES = 8


@dataclass(slots=True)
class Tally:
    """Messages and bytes held now, and the most that may be."""

    messages_max: int
    bytes_max: int
    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size

    def room(self) -> tuple[int, int]:
        return self.messages_max - self.messages, self.bytes_max - self.bytes


@dataclass(slots=True)
class Queue:
    """One recipient's queue.

    `position`: the first arrival not yet handed to the present link; `behind`: some of what is owed has not been
    handed to it; `again`: so many were handed to an earlier link and may come twice; `retry_at`: not before this
    monotonic second, because the next router takes nothing for now; `held`: the streams of which it does not;
    `handed`: nothing from that arrival on has been handed to the present link.
    """

    recipient: bytes
    total: Tally
    shares: dict[bytes, Tally] = field(default_factory=dict)
    position: int = 0
    behind: bool = False
    again: int = 0
    retry_at: float = 0.0
    backoff_s: float = 0.0
    held: StreamBackoff = field(default_factory=StreamBackoff)
    handed: int = 0

    def __repr__(self) -> str:
        return f"<queue of {self.recipient.hex()[:8]}: {self.total.messages} messages, {self.total.bytes} bytes>"

    def owes(self, signer: bytes) -> bool:
        """Whether something of this signer is owed."""
        return b"s" + signer[:TAG_BYTES] in self.shares


class Queues:
    """All recipients' queues, and the tallies of groups, neighbours and the node. Empty ones are forgotten.

    `held`: of what the node holds, each message once, how many and how many bytes each neighbour brought, by the first
    `TAG_BYTES` of its key."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.by_recipient: dict[bytes, Queue] = {}
        self._groups: dict[bytes, Tally] = {}
        self._neighbours: dict[bytes, Tally] = {}
        self.node = Tally(limits.node_messages_max, limits.node_bytes_max)
        self.held: dict[bytes, tuple[int, int]] = {}

    def of(self, recipient: bytes) -> Queue:
        queue = self.by_recipient.get(recipient)
        if queue is None:
            limits = self.limits
            queue = Queue(recipient, Tally(limits.recipient_messages_max, limits.recipient_bytes_max))
            self.by_recipient[recipient] = queue
        return queue

    def _tallies(
        self, queue: Queue, signer: bytes, neighbour: bytes
    ) -> tuple[tuple[dict[bytes, Tally], bytes, tuple[int, int]], ...]:
        """Where the shares of a signer and a neighbour are counted: in which tallies, under which name, how many."""
        limits = self.limits
        percent = limits.share_percent
        share = max(1, queue.total.messages_max * percent // 100), queue.total.bytes_max * percent // 100
        by_group = limits.group_messages_max, limits.group_bytes_max
        by_neighbour = limits.neighbour_messages_max, limits.neighbour_bytes_max
        signer, neighbour = signer[:TAG_BYTES], neighbour[:TAG_BYTES]
        if neighbour == STRANGERS[:TAG_BYTES]:
            percent = limits.strangers_percent
            by_neighbour = limits.node_messages_max * percent // 100, limits.node_bytes_max * percent // 100
        return (
            (queue.shares, b"s" + signer, share),
            (queue.shares, b"n" + neighbour, share),
            (self._groups, signer, by_group),
            (self._neighbours, neighbour, by_neighbour),
        )

    def hold(self, neighbour: bytes, messages: int, size: int) -> None:
        """The store takes in so many messages of together `size` bytes; negative numbers: it lets go of them."""
        self.node.add(messages, size)
        had = self.held.pop(neighbour[:TAG_BYTES], (0, 0))
        if had[0] + messages:
            self.held[neighbour[:TAG_BYTES]] = had[0] + messages, had[1] + size

    def node_room(self, neighbour: bytes | None, size: int = 0) -> tuple[int, int, Reason]:
        """Messages and bytes that the node still takes of a neighbour, None: of an app of its own, and the word to
        refuse the next with. That is of `size`: an empty share has room for it, however large."""
        messages, most = self.node.room()
        if neighbour is not None:
            held, percent = self.held.get(neighbour[:TAG_BYTES]), self.limits.neighbour_node_percent
            share = [fair_room(free, had, percent) for free, had in zip((messages, most), held or (0, 0), strict=True)]
            least = (0, 0) if held else (1, size)
            messages, most = (min(free, max(*one)) for free, *one in zip((messages, most), share, least, strict=True))
        return messages, most, Reason.QUEUE_FULL_NODE

    def fits_never(self, size: int) -> bool:
        """Whether a message of that size is more than all the room there could be."""
        limits = self.limits
        most = limits.recipient_bytes_max, limits.group_bytes_max, limits.neighbour_bytes_max, limits.node_bytes_max
        return size > min(most)

    def room(self, recipient: bytes, signer: bytes, neighbour: bytes, size: int = 0) -> tuple[int, int, Reason]:
        """The same for one recipient's queue, the shares in it, and what group and neighbour are owed in all.

        The next message is of that `size`: an empty share has room for it, however large.
        """
        queue = self.of(recipient)
        rooms = [(*queue.total.room(), Reason.QUEUE_FULL_RECIPIENT)]
        for tallies, name, most in self._tallies(queue, signer, neighbour):
            tally = tallies.get(name)
            if tally is None and tallies is queue.shares:
                most = most[0], max(most[1], size)
            rooms.append((*(most if tally is None else tally.room()), Reason.QUEUE_FULL_GROUP))
        messages, _, few = min(rooms, key=_messages)
        _, least, small = min(rooms, key=_bytes)
        return messages, least, few if messages < 1 else small

    def reserve(self, recipient: bytes, signer: bytes, neighbour: bytes, messages: int, size: int) -> Queue:
        """Take room for `messages` of together `size` bytes; negative numbers give it back.

        `signer` and `neighbour` may be whole keys or their first `TAG_BYTES`, which is what the disk keeps.
        """
        queue = self.of(recipient)
        queue.total.add(messages, size)
        for tallies, name, most in self._tallies(queue, signer, neighbour):
            tally = tallies.get(name)
            if tally is None:
                tally = tallies[name] = Tally(*most)
            tally.add(messages, size)
            if not tally.messages:
                del tallies[name]
        return queue

    def forget_if_empty(self, recipient: bytes) -> None:
        queue = self.by_recipient.get(recipient)
        if queue is not None and not queue.total.messages:
            del self.by_recipient[recipient]


def _messages(room: tuple[int, int, Reason]) -> int:
    return room[0]


def _bytes(room: tuple[int, int, Reason]) -> int:
    return room[1]
