"""The outbox: order, windows, refusals, and what a lost connection does to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client.custody.outbox import Outbox, Submission
from router.client.errors import ClientError
from router.core.link.custody import Outgoing
from router.core.wire.codec import FRAME_BYTES_MAX, frame
from router.core.wire.reasons import Reason


@dataclass(eq=False)
class Diary:
    """A sink that keeps what it is told."""

    ended_count: int = 0
    refusals: list[tuple[int, Reason, str]] = field(default_factory=list)
    errors: list[ClientError] = field(default_factory=list)

    def refused(self, number: int, reason: Reason, text: str) -> None:
        self.refusals.append((number, reason, text))

    def ended(self, count: int) -> None:
        self.ended_count += count

    def failed(self, error: ClientError) -> None:
        self.errors.append(error)


def frames(*bodies: bytes) -> list[bytes]:
    return [frame(body) for body in bodies]


def outbox() -> Outbox:
    return Outbox(100, 10_000)


def test_the_window_is_kept() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(2, 1000)
    box.add(Submission(frames(b"a", b"b", b"c"), diary))
    assert box.take(outgoing) == frames(b"a", b"b")
    assert box.take(outgoing) == []
    outgoing.settle(1)
    box.settle(1)
    assert (box.take(outgoing), diary.ended_count, box.messages) == (frames(b"c"), 1, 2)
    outgoing.settle(3)
    box.settle(3)
    assert (diary.ended_count, box.messages, box.bytes) == (3, 0, 0)


def test_what_is_urgent_overtakes_what_waits() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(1, 1000)
    box.add(Submission(frames(b"a", b"b"), diary))
    assert box.take(outgoing) == frames(b"a")
    box.add(Submission(frames(b"join"), diary, again=False), urgent=True)
    outgoing.window_messages = 9
    assert box.take(outgoing) == frames(b"join", b"b")


def test_a_refusal_names_one_message_of_a_run() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(10, 1000)
    box.add(Submission(frames(b"a"), Diary()))
    box.add(Submission(frames(b"b", b"c", b"d"), diary, first=7))
    box.take(outgoing)
    box.refuse(3, Reason.BLOCKED, "no")
    box.refuse(3, Reason.BLOCKED, "twice is once")
    assert diary.refusals == [(8, Reason.BLOCKED, "no")] and diary.ended_count == 0
    box.settle(4)
    assert diary.ended_count == 3


def test_after_a_lost_connection_the_unsettled_go_first() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(4, 1000)
    box.add(Submission(frames(b"join"), Diary(), again=False))
    box.add(Submission(frames(b"a", b"b", b"c", b"d"), diary, first=1))
    box.take(outgoing)
    box.settle(2)  # join and a
    box.refuse(3, Reason.BLOCKED, "")  # b
    box.add(Submission(frames(b"e"), diary, first=5))
    box.restart(FRAME_BYTES_MAX)
    assert diary.ended_count == 2  # b will not be sent again
    assert box.take(Outgoing(10, 1000)) == frames(b"c", b"d", b"e")
    box.refuse(1, Reason.BLOCKED, "")
    assert [number for number, _, _ in diary.refusals] == [2, 3]
    box.settle(3)
    assert (diary.ended_count, box.messages, box.bytes) == (5, 0, 0)


def test_too_large_frames_are_refused_here() -> None:
    box, diary = outbox(), Diary()
    box.add(Submission(frames(b"x" * 200, b"ok"), diary, first=1))
    box.restart(100)
    assert diary.refusals == [(1, Reason.TOO_LARGE, "202 bytes; this router takes 100, its limits.frame_bytes_max")]
    box.add(Submission(frames(b"fine", b"x" * 101, b"x" * 100), diary, first=3))
    assert [number for number, _, _ in diary.refusals] == [1, 4]
    assert box.take(Outgoing(10, 1000)) == frames(b"ok", b"fine", b"x" * 100)
    box.settle(3)
    assert (diary.ended_count, box.messages, box.bytes) == (5, 0, 0)


def test_only_what_was_never_sent_can_be_withdrawn() -> None:
    box, outgoing = outbox(), Outgoing(1, 1000)
    first, second = Submission(frames(b"a"), Diary()), Submission(frames(b"b"), Diary())
    box.add(first)
    box.add(second)
    box.take(outgoing)
    assert not box.withdraw(first) and box.withdraw(second) and not box.withdraw(second)
    box.restart(FRAME_BYTES_MAX)
    assert not box.withdraw(first)
    assert (box.messages, box.take(Outgoing(9, 999))) == (1, frames(b"a"))


def test_giving_up() -> None:
    box, one, two = outbox(), Diary(), Diary()
    box.add(Submission(frames(b"a", b"b"), one))
    box.take(Outgoing(1, 1000))
    box.add(Submission(frames(b"c"), two))
    error = ClientError("gone")
    assert box.fail(error) == 1
    assert one.errors == two.errors == [error] and box.messages == box.bytes == 0
    assert box.fail(error) == 0


def test_full() -> None:
    box = Outbox(2, 1000)
    box.add(Submission(frames(b"a"), Diary()))
    assert not box.full
    box.add(Submission(frames(b"b"), Diary()))
    assert box.full and repr(box) == "<outbox of 2 messages, 0 flights out>"
    assert Outbox(2, 1000).full is False
    big = Outbox(10, 100)
    big.add(Submission(frames(b"x" * 200), Diary()))
    assert big.full


Step: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 300), min_size=1, max_size=5)),
    st.tuples(st.just("take"), st.just([])),
    st.tuples(st.just("settle"), st.lists(st.integers(0, 5), min_size=1, max_size=1)),
    st.tuples(st.just("refuse"), st.lists(st.integers(0, 5), min_size=1, max_size=1)),
    st.tuples(st.just("restart"), st.just([])),
)


@given(st.lists(Step, max_size=40), st.integers(1, 6))
def test_every_message_ends_once_and_in_order(steps: list[tuple[str, list[int]]], window: int) -> None:
    """Against a plain list of what is unsettled, whatever happens in whatever order."""
    box, diary, outgoing = Outbox(10_000, 1 << 30), Diary(), Outgoing(window, 400)
    unsettled: list[tuple[int, bytes]] = []
    sent, given = 0, 0
    for what, numbers in steps:
        if what == "add":
            some = [frame(b"%d" % (given + at) + bytes(size)) for at, size in enumerate(numbers)]
            box.add(Submission(some, diary, first=given))
            unsettled += enumerate(some, given)
            given += len(some)
        elif what == "take":
            parts = box.take(outgoing)
            live = [one for number, one in unsettled if number not in {n for n, _, _ in diary.refusals}]
            if sent == 0 and outgoing.settled == 0:
                assert parts == live[: len(parts)]
            assert parts == [one for _, one in unsettled[sent : sent + len(parts)]]
            sent += len(parts)
        elif what == "settle":
            n = outgoing.settled + min(numbers[0], sent)
            more = outgoing.settle(n)
            box.settle(n)
            unsettled, sent = unsettled[more:], sent - more
        elif what == "refuse" and numbers[0] < sent:
            box.refuse(outgoing.settled + 1 + numbers[0], Reason.BLOCKED, "")
            assert diary.refusals[-1][0] == unsettled[numbers[0]][0] or len(diary.refusals) > 1
        elif what == "restart":
            refused = {number for number, _, _ in diary.refusals}
            unsettled = [one for one in unsettled if one[0] not in refused]
            outgoing, sent = Outgoing(window, 400), 0
            box.restart(FRAME_BYTES_MAX)
        assert box.messages == len(unsettled) == given - diary.ended_count
        assert box.bytes == sum(len(one) for _, one in unsettled)
    assert len({number for number, _, _ in diary.refusals}) == len(diary.refusals)


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_knows_its_sizes(count: int) -> None:
    run = Submission(frames(*[b"xy"] * count), Diary())
    assert run.size(0, count) == 3 * count
