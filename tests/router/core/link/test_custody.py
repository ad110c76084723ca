"""Windows on both ends of a link: which messages may be sent, are settled, or may be refused."""

from __future__ import annotations

from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.link.custody import CONTROL_SLACK_BYTES, CONTROL_SLACK_MESSAGES, Incoming, Outgoing
from router.core.link.machine import RemoteProtocolError
from router.core.wire.reasons import Reason


def test_the_window_bounds_messages_and_bytes() -> None:
    outgoing = Outgoing(3, 100)
    assert outgoing.fits([10, 20, 30, 40]) == 3
    assert outgoing.fits([60, 90, 120]) == 2
    assert outgoing.send(2, 90) == 2
    assert (outgoing.in_flight, outgoing.room()) == (2, (1, 10))
    assert outgoing.fits([10, 20]) == 1 and outgoing.fits([11, 20]) == 0


def test_fits_counts_from_the_middle_of_a_parcel() -> None:
    outgoing = Outgoing(10, 25)
    assert outgoing.fits([10, 20, 30, 40, 50], at=2) == 2
    assert outgoing.fits([10, 20, 30, 40, 50], at=4) == 1
    assert outgoing.fits([10, 20], at=2) == 0
    assert outgoing.fits([]) == 0


def test_one_message_of_any_size_may_always_be_in_flight() -> None:
    outgoing = Outgoing(3, 100)
    assert outgoing.fits([5000, 5001]) == 1
    outgoing.send(1, 5000)
    assert outgoing.fits([1]) == 0
    outgoing.settle(1)
    assert outgoing.fits([7000]) == 1


def test_bytes_return_with_the_last_message_of_their_write() -> None:
    outgoing = Outgoing(10, 100)
    outgoing.send(3, 60)
    outgoing.send(1, 30)
    assert outgoing.settle(2) == 2
    assert outgoing.bytes_in_flight == 90
    assert outgoing.settle(3) == 1
    assert outgoing.bytes_in_flight == 30
    assert outgoing.settle(3) == 0
    assert outgoing.settle(4) == 1
    assert (outgoing.in_flight, outgoing.bytes_in_flight) == (0, 0)


@pytest.mark.parametrize("n", [1, 5, 1 << 63])
def test_what_was_never_sent_or_falls_cannot_be_settled(n: int) -> None:
    outgoing = Outgoing(10, 100)
    outgoing.send(4, 4)
    outgoing.settle(2)
    with pytest.raises(RemoteProtocolError, match=f"settled {n}, but 2 were settled and 4 sent") as error:
        outgoing.settle(n)
    assert error.value.reason is Reason.MALFORMED
    assert (outgoing.settled, outgoing.in_flight) == (2, 2)


@pytest.mark.parametrize(("k", "good"), [(0, False), (2, False), (3, True), (4, True), (5, False)])
def test_only_what_is_in_flight_can_be_refused(k: int, good: bool) -> None:
    outgoing = Outgoing(10, 100)
    outgoing.send(4, 4)
    outgoing.settle(2)
    if good:
        outgoing.check_refusal(k)
    else:
        with pytest.raises(RemoteProtocolError, match=f"refused {k}, which is not in flight"):
            outgoing.check_refusal(k)


def test_control_goes_beyond_the_window_by_the_slack() -> None:
    outgoing = Outgoing(2, 100)
    outgoing.send(2, 100)
    assert outgoing.takes_control(CONTROL_SLACK_BYTES) and not outgoing.takes_control(CONTROL_SLACK_BYTES + 1)
    outgoing.send(CONTROL_SLACK_MESSAGES - 1, 0)
    assert outgoing.takes_control(1)
    outgoing.send(1, 0)
    assert not outgoing.takes_control(1)
    outgoing.settle(outgoing.sent)
    assert outgoing.takes_control(1 << 30), "one message of any size"


def test_the_receiver_closes_a_link_that_ignores_the_window() -> None:
    incoming = Incoming(2, 1000)
    assert incoming.receive(2, 900) == 1
    assert incoming.receive(CONTROL_SLACK_MESSAGES, 10) == 3
    with pytest.raises(RemoteProtocolError, match="67 messages, 920 bytes unsettled; the window is 2") as error:
        incoming.receive(1, 10)
    assert error.value.reason is Reason.WINDOW_EXCEEDED
    incoming.settle(66)
    assert incoming.receive(1, 10) == 67


def test_the_receiver_closes_a_link_that_sends_too_many_bytes() -> None:
    incoming = Incoming(10, 1000)
    incoming.receive(1, 10 << 20)
    with pytest.raises(RemoteProtocolError) as error:
        incoming.receive(1, 1)
    assert error.value.reason is Reason.WINDOW_EXCEEDED


def test_what_messages_gain_on_the_way_is_granted() -> None:
    """5,000 small messages arrive, each longer by a VIA and a head than its sender counts."""
    sender, receiver = Outgoing(5000, 500_000), Incoming(5000, 500_000)
    assert sender.fits([100 * (at + 1) for at in range(6000)]) == 5000
    assert sender.send(5000, 500_000) == 5000
    for _ in range(50):
        receiver.receive(100, 13_900)
    with pytest.raises(RemoteProtocolError):
        receiver.receive(1, 100_000)


def test_a_read_that_is_partly_settled_does_not_count_against_the_sender() -> None:
    sender, receiver = Outgoing(10, 1 << 20), Incoming(10, 1 << 20)
    for _ in range(2):
        sender.send(1, 1 << 19)
    receiver.receive(2, 1 << 20)
    receiver.settle(1)
    sender.settle(1)
    assert sender.fits([1 << 19]) == 1
    assert receiver.receive(1, 1 << 19) == 3


def test_settling_frees_whole_reads() -> None:
    incoming = Incoming(10, 1000)
    incoming.receive(3, 300)
    incoming.receive(2, 50)
    assert incoming.settle(2) == 0
    assert incoming.settle(4) == 300
    assert incoming.bytes_in_flight == 50
    assert incoming.settle(3) == 0, "what is settled stays so"
    assert (incoming.settle(5), incoming.bytes_in_flight, incoming.settled) == (50, 0, 5)


@given(
    sizes=st.lists(st.integers(50, 3000), min_size=1, max_size=60),
    window=st.tuples(st.integers(1, 10), st.integers(1, 5000)),
    added=st.integers(0, 39),
    seed=st.integers(0, 1 << 30),
)
def test_a_sender_that_keeps_the_window_is_never_accused(
    sizes: list[int], window: tuple[int, int], added: int, seed: int
) -> None:
    """Any writes, reads and settlings are tried; every message gains a VIA on the way."""
    sender, receiver = Outgoing(*window), Incoming(*window)
    ends, sent, wire = list(accumulate(sizes)), 0, list[int]()
    choose = Random(seed).randrange
    while receiver.received < len(sizes):
        count = sender.fits(ends, sent)
        if count and choose(3):
            count = choose(count) + 1
            sender.send(count, sum(sizes[sent : sent + count]))
            wire += [size + added for size in sizes[sent : sent + count]]
            sent += count
        elif wire and choose(2):
            read = choose(len(wire)) + 1
            receiver.receive(read, sum(wire[:read]))
            del wire[:read]
        elif receiver.received > receiver.settled:
            n = receiver.settled + choose(receiver.received - receiver.settled) + 1
            receiver.settle(n)
            sender.settle(n)
        assert sender.in_flight <= window[0]
        assert sender.bytes_in_flight <= window[1] or len(sender._writes) == 1
    assert all(one[0] < other[0] for one, other in pairwise(sender._writes))
