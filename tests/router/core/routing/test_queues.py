"""Room and shares of every recipient's queue, in which only messages owed are counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from router.core.neighbours.directory import TAG_BYTES
from router.core.routing.limits import QueueLimits
from router.core.routing.queues import RecipientQueues
from router.core.wire.reasons import Reason

ANN, BOB, NEWS, CATS, EAST, WEST = (bytes((n,)) * 32 for n in range(6))
TIGHT = QueueLimits(
    recipient_messages_max=100, recipient_bytes_max=10_000, group_messages_max=60, group_bytes_max=6_000,
    neighbour_messages_max=70, neighbour_bytes_max=7_000, node_messages_max=500, node_bytes_max=50_000,
    share_percent=25,
)  # fmt: skip


def test_the_tightest_limit_says_how_much_and_why() -> None:
    queues = RecipientQueues(TIGHT)
    assert queues.room(ANN, NEWS, EAST) == (25, 2500, Reason.QUEUE_FULL_GROUP)
    queues.reserve(ANN, NEWS, EAST, 20, 100)
    assert queues.room(ANN, NEWS, EAST) == (5, 2400, Reason.QUEUE_FULL_GROUP)
    assert queues.room(ANN, CATS, WEST) == (25, 2500, Reason.QUEUE_FULL_GROUP)
    assert queues.room(ANN, CATS, EAST)[0] == 5, "the neighbour's share of the queue"
    queues.reserve(BOB, NEWS, WEST, 25, 100)
    assert queues.room(ANN, NEWS, WEST)[0] == 5, "20 of 25 of the queue's share; 45 of the group's 60 in all"
    queues.reserve(b"?" * 32, NEWS, b"!" * 32, 14, 100)
    assert queues.room(BOB, NEWS, EAST) == (0, 2400, Reason.QUEUE_FULL_GROUP)
    assert queues.room(b"*" * 32, NEWS, EAST)[0] == 1, "one more of the group, for anybody"


def test_a_full_queue_is_the_recipients_fault() -> None:
    queues = RecipientQueues(QueueLimits(recipient_messages_max=4, recipient_bytes_max=100, share_percent=100))
    assert queues.room(ANN, NEWS, EAST) == (4, 100, Reason.QUEUE_FULL_RECIPIENT)
    queues.reserve(ANN, NEWS, EAST, 4, 40)
    assert queues.room(ANN, NEWS, EAST) == (0, 60, Reason.QUEUE_FULL_RECIPIENT)


def test_a_share_is_at_least_one_message() -> None:
    queues = RecipientQueues(QueueLimits(recipient_messages_max=2, share_percent=1))
    assert queues.room(ANN, NEWS, EAST)[0] == 1


def test_an_empty_share_has_room_for_one_message_of_any_size() -> None:
    queues = RecipientQueues(QueueLimits(recipient_bytes_max=100, share_percent=10))
    assert queues.room(b"r", b"s", b"n", 60)[:2] == (100_000, 60)
    queues.reserve(b"r", b"s", b"n", 1, 60)
    assert queues.room(b"r", b"s", b"n", 5)[1:] == (-50, Reason.QUEUE_FULL_GROUP)
    assert queues.room(b"r", b"t", b"m", 60)[1:] == (40, Reason.QUEUE_FULL_RECIPIENT), "but no more than the queue has"
    assert queues.fits_never(101) and not queues.fits_never(100)


def test_asking_for_room_leaves_nothing_behind() -> None:
    queues = RecipientQueues(TIGHT)
    for number in range(50):
        queues.room(ANN, bytes((number,)) * 32, bytes((number,)) * 32)
    assert not queues.by_recipient[ANN].shares and not queues._groups and not queues._neighbours


def test_an_empty_queue_is_forgotten() -> None:
    queues = RecipientQueues(TIGHT)
    queues.reserve(ANN, NEWS, EAST, 2, 20)
    queues.forget_if_empty(ANN)
    assert ANN in queues.by_recipient
    queues.reserve(ANN, NEWS, EAST, -2, -20)
    queues.forget_if_empty(ANN)
    queues.forget_if_empty(BOB)
    assert not queues.by_recipient


def test_it_reads_like_a_sentence() -> None:
    queues = RecipientQueues(TIGHT)
    assert repr(queues.reserve(ANN, NEWS, EAST, 2, 20)) == "<queue of 00000000: 2 messages, 20 bytes>"


KEYS = st.sampled_from([ANN, BOB, NEWS, CATS])


@given(st.lists(st.tuples(KEYS, st.integers(1, 60), st.integers(1, 200), st.booleans())))
def test_of_what_the_node_holds_nobody_has_more_than_the_limits_say(
    steps: list[tuple[bytes, int, int, bool]],
) -> None:
    """Room is taken as far as there is any, and given back, in any order: the node's total is the sum over all
    holders."""
    queues = RecipientQueues(QueueLimits(node_messages_max=100, node_bytes_max=5_000))
    held: dict[bytes, list[tuple[int, int]]] = {key: [] for key in (ANN, BOB, NEWS, CATS)}
    for neighbour, messages, size, back in steps:
        mine = held[neighbour]
        if back and mine:
            queues.hold(neighbour[:TAG_BYTES], *(-one for one in mine.pop()))
        else:
            most, room, _ = queues.node_room(neighbour, size)
            messages = min(messages, most, room // size)
            if messages > 0:
                queues.hold(neighbour, messages, messages * size)
                mine.append((messages, messages * size))
        sums = {key[:TAG_BYTES]: (sum(n for n, _ in those), sum(b for _, b in those)) for key, those in held.items()}
        assert queues.held == {tag: one for tag, one in sums.items() if one[0]}
        assert queues.node.messages == sum(n for n, _ in sums.values()) <= 100
        assert queues.node.bytes == sum(b for _, b in sums.values()) <= 5_000
        assert all(n <= 50 and b <= 2_500 for n, b in sums.values()), "half of it for one"
        assert queues.node_room(None)[:2] == queues.node.room(), "an app of this node takes what there is"


@given(st.lists(st.tuples(KEYS, KEYS, KEYS, st.integers(1, 9), st.integers(1, 99), st.booleans())))
def test_counters_are_sums_whether_by_key_or_by_its_tag(
    steps: list[tuple[bytes, bytes, bytes, int, int, bool]],
) -> None:
    """Everything is reserved and given back in any order: all tallies match the rest, and empty ones are gone."""
    queues = RecipientQueues(TIGHT)
    held: Counter[tuple[bytes, bytes, bytes, int]] = Counter()
    for recipient, signer, neighbour, messages, size, back in steps:
        entry = recipient, signer, neighbour, size
        if back and held[entry] >= messages:
            queues.reserve(recipient, signer, neighbour, -messages, -messages * size)
            held[entry] -= messages
        else:
            queues.reserve(recipient, signer[:TAG_BYTES], neighbour[:TAG_BYTES], messages, messages * size)
            held[entry] += messages
    for key in (ANN, BOB, NEWS, CATS):
        mine = [(entry, count) for entry, count in held.items() if count and entry[0] == key]
        queue = queues.by_recipient.get(key)
        assert (queue.total.messages if queue else 0) == sum(count for _, count in mine)
        assert (queue.total.bytes if queue else 0) == sum(count * entry[3] for entry, count in mine)
        tags = {b"s" + entry[1][:8] for entry, _ in mine} | {b"n" + entry[2][:8] for entry, _ in mine}
        assert queue is None or set(queue.shares) == tags
        of_group = sum(count for entry, count in held.items() if entry[1] == key)
        assert of_group == (queues._groups[key[:8]].messages if key[:8] in queues._groups else 0)
