"""Messages that wait for loops: order, addresses, copies, settling without gaps, and bounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client.custody.arrivals import UNICASTS, Arrival
from router.client.custody.inbox import Inbox, Prefix
from router.client.errors import JournalError
from router.core.link.session import MessageRun
from router.core.routing.intake import Refusal
from router.core.wire.codec import encode, frame, split_frames
from router.core.wire.control import JoinAck, Leave, Report, encode_control
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

ROUTER, ALICE, BOB, GROUP, OTHER = (SigningKey(bytes((n,)) * 32) for n in range(1, 6))
UNTIL_MIN = 3_100_000


def multicast(body: bytes, group: SigningKey = GROUP) -> bytes:
    return seal_multicast(group, body, ttl_s=60, expiry_min=UNTIL_MIN)


def unicast(body: bytes, source: SigningKey = ALICE, until_min: int = UNTIL_MIN) -> bytes:
    return seal_unicast(source, BOB.public, body, ttl_s=60, expiry_min=until_min)


def control(until_min: int = UNTIL_MIN) -> bytes:
    return unicast(encode_control(JoinAck(GROUP.public, True)), ROUTER, until_min)


class World:
    """An inbox on its first connection, and its reports."""

    def __init__(self, window: int = 100, *, durable: bool = True) -> None:
        self.journal: set[MessageId] = set()
        self.journal_error: JournalError | None = None
        self.problems: list[str] = []
        self.loops_woken = self.link_woken = 0
        self.k = 1
        self.inbox = Inbox(
            window, 1 << 20, durable=durable, known=self._known, problem=self.problems.append,
            wake_loops=self._wake_loops, wake_link=self._wake_link,
        )  # fmt: skip
        self.connect()

    def connect(self) -> None:
        self.inbox.begin(ROUTER.public)
        self.k = 1

    def read(self, *wires: bytes) -> list[bytes]:
        data = b"".join(map(frame, wires))
        spans, _ = split_frames(data)
        self.k += len(wires)
        return self.inbox.take_in(MessageRun(self.k - len(wires), data, spans), 1.5)

    def take(self, address: bytes | None = None) -> Arrival:
        found = self.inbox.take(address)
        assert found is not None
        return found

    def _known(self, ids: Sequence[MessageId]) -> Collection[MessageId]:
        if self.journal_error is not None:
            raise self.journal_error
        return self.journal & set(ids)

    def _wake_loops(self) -> None:
        self.loops_woken += 1

    def _wake_link(self) -> None:
        self.link_woken += 1


def test_each_loop_gets_its_address_in_order() -> None:
    world = World()
    first, second, third, fourth = multicast(b"1"), unicast(b"2"), multicast(b"3", OTHER), multicast(b"4")
    assert world.read(first, second, third, fourth) == [] and world.loops_woken == 1
    inbox = world.inbox
    assert world.take(UNICASTS).wire == second
    assert world.take(OTHER.public).wire == third
    assert inbox.take(OTHER.public) is None
    one = world.take()
    assert (one.wire, one.id, one.k, one.at_s, one.redelivered) == (first, message_id(first), 1, 1.5, False)
    assert world.take(GROUP.public).wire == fourth
    assert inbox.take(None) is None


def test_settling_waits_for_the_gap() -> None:
    world = World()
    world.read(*(multicast(b"%d" % number) for number in range(4)))
    arrivals = [world.take() for _ in range(4)]
    settled = []
    for at in (2, 1, 0, 0, 3):
        world.inbox.done(arrivals[at])
        settled.append(world.inbox.settled)
    assert settled == [0, 0, 3, 3, 4] and world.link_woken == 2


def test_messages_of_a_read_are_taken_and_settled_together() -> None:
    world = World()
    first, second, third = multicast(b"1"), unicast(b"2"), multicast(b"3")
    assert world.read(first, control(), second) == [control()]
    world.read(third)
    reads = world.inbox.take_reads()
    assert [[read.data[start:end] for _, start, end in read.spans] for read in reads] == [[first, second], [third]]
    assert world.inbox.take_reads() == [] and world.inbox.take(None) is None
    settled = [world.inbox.settled]
    for at in (1, 0):
        world.inbox.reads_done(reads[at : at + 1])
        settled.append(world.inbox.settled)
    assert settled == [0, 0, 4]


@pytest.mark.parametrize("until_min", [0, 23, 24, 256, 65_536, 3_000_000])
def test_what_the_router_says_is_done_at_once(until_min: int) -> None:
    world = World()
    assert world.read(control(until_min)) == [control(until_min)]
    assert world.inbox.settled == 1 and world.loops_woken == 0
    assert world.read(multicast(b"a"), control(), unicast(b"b"), control()) == [control(), control()]
    assert world.inbox.settled == 1
    world.inbox.done(world.take())
    assert world.inbox.settled == 3
    world.inbox.done(world.take())
    assert world.inbox.settled == 5


def report(body: bytes = b"", ttl_s: int = 0) -> bytes:
    """Return what a router further on says of a message of this app."""
    said = Report(MessageId(bytes(32)), OTHER.public, "refused", 9, 1)
    return seal_unicast(ALICE, BOB.public, body or encode_control(said), ttl_s=ttl_s, expiry_min=1)


def test_what_a_router_further_on_reports_is_no_message() -> None:
    world = World()
    assert world.read(report()) == [report()] and world.inbox.settled == 1
    likenesses = [report(ttl_s=60), report(encode([6, {}])), report(encode_control(Leave(OTHER.public)))]
    assert world.read(*likenesses) == []
    assert [world.take().wire for _ in likenesses] == likenesses


def test_the_routers_key_in_the_wrong_place_proves_nothing() -> None:
    world = World()
    wires = [unicast(bytes(ROUTER.public) * 3), unicast(b"x"), b"\x84\x00" + bytes(ROUTER.public) * 3]
    for wire in wires:
        assert world.read(wire) == []
    assert [world.take().wire for _ in range(2)] == wires[:2] and world.inbox.settled == 0


def test_what_is_no_message_is_reported_and_settled() -> None:
    world = World()
    world.read(b"\x84\x01nonsense", multicast(b"a"))
    world.inbox.done(world.take())
    assert world.inbox.settled == 2 and "no message" in world.problems[0]


def test_redelivered_marks_the_next_ones() -> None:
    world = World()
    world.inbox.redelivered(3)
    world.read(control(), multicast(b"1"), multicast(b"2"))
    world.read(multicast(b"3"), multicast(b"4"))
    assert [world.take().redelivered for _ in range(4)] == [True, True, True, False]


def test_a_copy_takes_the_place_of_the_first() -> None:
    world = World()
    wires = [multicast(b"%d" % number) for number in range(4)]
    world.read(*wires)
    handled, held, waiting = world.take(), world.take(), 2
    world.inbox.done(handled)
    world.connect()
    assert world.inbox.settled == 0
    world.read(*wires, multicast(b"new"))
    rest = [world.take() for _ in range(waiting + 1)]
    assert [one.wire for one in rest] == [*wires[2:], multicast(b"new")]
    assert world.inbox.settled == 1
    world.inbox.done(held)
    assert world.inbox.settled == 2
    for one in rest:
        world.inbox.done(one)
    assert world.inbox.settled == 5 and world.inbox.take(None) is None


def test_a_copy_with_another_via_is_the_same_message() -> None:
    world = World()
    wire = multicast(b"a")
    world.read(wire)
    world.inbox.done(world.take())
    world.connect()
    world.read(b"\x85" + wire[1:] + b"\x58\x20" + ROUTER.public)
    assert world.inbox.take(None) is None and world.inbox.settled == 1


def test_done_on_an_earlier_connection_settles_nothing_here() -> None:
    world = World()
    world.read(multicast(b"a"))
    one = world.take()
    world.connect()
    world.inbox.done(one)
    assert world.inbox.settled == 0


def test_the_journal_knows_what_was_handled() -> None:
    world = World()
    wires = [multicast(b"%d" % number) for number in range(3)]
    world.journal = {message_id(wires[0]), message_id(wires[2])}
    world.read(*wires)
    one = world.take()
    assert one.wire == wires[1] and world.inbox.take(None) is None
    world.inbox.done(one)
    assert world.inbox.settled == 3


def test_a_journal_that_cannot_be_read_loses_nothing() -> None:
    world = World()
    world.read(b"\x84\x01nonsense", multicast(b"a"))
    world.journal_error = JournalError("the disk is gone")
    for _ in range(2):
        with pytest.raises(JournalError):
            world.inbox.take(None)
    world.journal_error = None
    world.inbox.done(world.take())
    assert world.inbox.settled == 2 and len(world.problems) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_nothing_two_connections_old_is_kept(durable: bool) -> None:
    world = World(durable=durable)
    world.read(multicast(b"1"))
    assert world.inbox.take(OTHER.public) is None  # it is parsed by now
    world.connect()
    world.read(multicast(b"2"))
    world.connect()
    assert [world.take().wire] == [multicast(b"2")]
    said = ["1 messages that the app had not asked for yet are lost with their connection"]
    assert world.problems == ([] if durable else said)
    world.read(multicast(b"1"))
    assert world.take().wire == multicast(b"1")


def test_the_ids_remembered_are_bounded() -> None:
    world = World(window=1)
    first = multicast(b"first")
    world.read(first)
    world.inbox.done(world.take())
    for number in range(9 * 65):  # there are three buckets for 65, and no one comes to one of them by chance only
        world.read(multicast(b"%d" % number))
        world.inbox.done(world.take())
    world.connect()
    world.read(first)
    assert world.take().wire == first


def test_what_is_remembered_of_a_message_that_ended_is_its_id_and_its_end() -> None:
    world, count = World(), 200
    wires = [multicast(b"%d" % number) for number in range(count)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for wire in wires:
            world.read(wire)
            world.inbox.done(world.take())
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert took < 150 * count
    world.connect()
    world.read(*wires)
    assert world.inbox.take(None) is None and world.inbox.settled == count


def test_what_nobody_reads_and_holds_up_the_rest_is_reported_once() -> None:
    world = World(window=8)
    world.read(*(multicast(b"%d" % number, OTHER) for number in range(3)))
    assert world.inbox.take(GROUP.public) is None and not world.problems
    world.read(multicast(b"3", OTHER), unicast(b"x"))
    for _ in range(2):
        assert world.inbox.take(GROUP.public) is None
    assert len(world.problems) == 2 and world.problems[0].startswith("4 messages of group1")
    assert world.problems[1].startswith("1 unicasts wait")
    world = World(window=8)
    world.read(*(multicast(b"%d" % number, OTHER) for number in range(8)))
    for _ in range(8):
        world.take()
    assert world.inbox.take(GROUP.public) is None and not world.problems


def test_repr() -> None:
    world = World()
    world.read(multicast(b"1"), multicast(b"2"))
    world.inbox.done(world.take())
    assert repr(world.inbox) == "<inbox: 1 messages wait, 1 of 2 settled on connection 1>"


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8), max_size=4))
def test_prefix(order: list[int], cuts: list[int]) -> None:
    """Compare ranges in any order with a set."""
    edges = sorted({0, 8, *cuts})
    ranges = [(a + 1, b) for a, b in pairwise(edges)]
    ranges.sort(key=lambda one: order.index(one[0]))
    prefix, done = Prefix(), set[int]()
    for first, last in ranges:
        prefix.add(first, last)
        done |= set(range(first, last + 1))
        n = 0
        while n + 1 in done:
            n += 1
        assert prefix.n == n


def test_what_is_refused_is_told_once_on_each_connection_and_settled() -> None:
    world = World()
    first, second = unicast(b"1"), unicast(b"2")
    world.read(first, second)
    one, other = world.inbox.take(None), world.inbox.take(None)
    assert one is not None and other is not None
    world.inbox.refuse(other, Reason.PEER_REFUSED, "no")
    assert world.link_woken == 1 and world.inbox.take_refusals() == [(2, Reason.PEER_REFUSED, "no")]
    world.inbox.done(one)
    world.inbox.refuse(one, Reason.PEER_REFUSED, "what is settled stays so")
    assert world.inbox.settled == 2 and not world.inbox.take_refusals()
    world.connect()
    world.inbox.redelivered(2)
    world.read(first, second)
    assert world.inbox.take(None) is None and world.inbox.settled == 2
    assert world.inbox.take_refusals() == [(2, Reason.PEER_REFUSED, "no")]


def later(*ks: int) -> list[Refusal]:
    return [(k, Reason.QUEUE_FULL_RECIPIENT, "nobody in this app reads it") for k in ks]


def test_what_nobody_reads_goes_back_to_the_node_before_it_holds_up_the_rest() -> None:
    world = World(window=6)
    inbox, unread = world.inbox, multicast(b"unread", OTHER)
    mine = [multicast(b"%d" % number) for number in range(3)]
    world.read(unread, mine[0])
    inbox.done(world.take(GROUP.public))
    assert inbox.take(GROUP.public) is None and inbox.take_refusals() == [], "there is room yet"
    world.read(*mine[1:])
    for _ in range(2):
        inbox.done(world.take(GROUP.public))
    assert inbox.settled == 0, "one message in front keeps all others from being settled"
    assert inbox.take(GROUP.public) is None
    assert inbox.take_refusals() == later(1) and inbox.settled == 4
    assert len(world.problems) == 1 and "stay in the node's queue" in world.problems[0]
    world.read(multicast(b"unread too", OTHER))
    assert inbox.take(GROUP.public) is None and inbox.take_refusals() == later(5), "at once, and nothing is said"
    assert len(world.problems) == 1


def test_what_no_loop_asks_for_yet_makes_room_for_what_is_pulled_and_is_not_reported() -> None:
    world = World(window=6)
    inbox, before = world.inbox, multicast(b"not read yet", OTHER)
    world.read(before, control())
    inbox.make_room()
    assert inbox.take_refusals() == [] and inbox.settled == 0, "there is room yet"
    world.read(control())
    inbox.make_room()
    assert inbox.take_refusals() == later(1) and inbox.settled == 3 and world.problems == []
    world.read(multicast(b"read", OTHER))
    assert inbox.take(OTHER.public) is None and inbox.take_refusals() == later(4), "none overtakes another"
    world.read(before)
    assert world.take(OTHER.public).k == 5, "the node begins again"


def test_who_reads_everything_gives_nothing_back_for_what_is_pulled() -> None:
    world = World(window=4)
    assert world.inbox.take(None) is None
    world.read(multicast(b"read", OTHER), control(), control())
    world.inbox.make_room()
    assert world.inbox.take_refusals() == [] and world.take(None).k == 1


def test_what_went_back_is_read_in_its_order_when_somebody_reads_it() -> None:
    world = World(window=4)
    inbox = world.inbox
    wires = [multicast(b"%d" % number, OTHER) for number in range(4)]
    world.read(*wires[:2])
    assert inbox.take(GROUP.public) is None and inbox.take_refusals() == later(1, 2)
    assert inbox.take(OTHER.public) is None
    world.read(wires[2])
    assert inbox.take(OTHER.public) is None and inbox.take_refusals() == later(3), "it would overtake"
    world.read(*wires[:3])
    world.read(wires[3])
    assert [world.take(OTHER.public).wire for _ in wires] == wires and not inbox.take_refusals()


def test_on_a_new_connection_the_node_begins_from_the_first_anyway() -> None:
    world = World(window=4)
    wires = [multicast(b"%d" % number, OTHER) for number in range(3)]
    world.read(*wires[:2])
    assert world.inbox.take(GROUP.public) is None
    world.connect()
    assert world.inbox.take_refusals() == []
    world.read(*wires)
    assert [world.take(OTHER.public).wire for _ in wires] == wires


def test_who_reads_everything_leaves_nothing() -> None:
    world = World(window=4)
    world.read(*(multicast(b"%d" % number, OTHER) for number in range(3)))
    first, _ = world.take(), world.take()
    assert first.address == OTHER.public
    assert world.inbox.take(GROUP.public) is None and not world.inbox.take_refusals()


def test_what_is_refused_for_now_is_no_copy_when_it_comes_again() -> None:
    world = World()
    world.read(unicast(b"1"))
    world.inbox.refuse(world.take(), Reason.INTERNAL, "")
    world.read(unicast(b"1"))
    assert world.take().wire == unicast(b"1")
