"""The outbox: order, windows, refusals, and the effect of a lost connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from router.client.custody.outbox import Outbox, Submission
from router.client.errors import ClientError
from router.core.link.custody import Outgoing
from router.core.wire.codec import FRAME_BYTES_MAX, frame
from router.core.wire.reasons import Reason


@dataclass(eq=False)
class Diary:
    """Records the calls of all sinks."""

    ended: list[int] = field(default_factory=list)
    refusals: list[tuple[int, Reason, str]] = field(default_factory=list)
    errors: list[ClientError] = field(default_factory=list)


@dataclass(frozen=True)
class Told:
    """The sink of message `number`."""

    diary: Diary
    number: int

    def refused(self, reason: Reason, text: str) -> None:
        self.diary.refusals.append((self.number, reason, text))

    def ended(self) -> None:
        self.diary.ended.append(self.number)

    def failed(self, error: ClientError) -> None:
        self.diary.errors.append(error)


def frames(*bodies: bytes) -> list[bytes]:
    return [frame(body) for body in bodies]


def outbox() -> Outbox:
    return Outbox(100, 10_000)


def add(box: Outbox, diary: Diary, *bodies: bytes, first: int = 1, again: bool = True, urgent: bool = False) -> None:
    for number, body in enumerate(bodies, first):
        box.add(Submission(frame(body), Told(diary, number), again=again), urgent=urgent)


def test_the_window_is_kept() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(2, 1000)
    add(box, diary, b"a", b"b", b"c")
    assert box.take(outgoing) == frames(b"a", b"b")
    assert box.take(outgoing) == []
    outgoing.settle(1)
    box.settle(1)
    assert (box.take(outgoing), diary.ended, box.messages) == (frames(b"c"), [1], 2)
    outgoing.settle(3)
    box.settle(3)
    assert (diary.ended, box.messages, box.bytes) == ([1, 2, 3], 0, 0)


def test_what_is_urgent_overtakes_what_waits() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(1, 1000)
    add(box, diary, b"a", b"b")
    assert box.take(outgoing) == frames(b"a")
    add(box, diary, b"join", again=False, urgent=True)
    outgoing.window_messages = 9
    assert box.take(outgoing) == frames(b"join", b"b")


def test_what_is_urgent_keeps_its_own_order_also_if_some_of_it_is_taken_back() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(9, 1000)
    add(box, diary, b"a")
    back = Submission(frame(b"back"), Told(diary, 7), again=False)
    for body in (b"join", b"hint"):
        add(box, diary, body, again=False, urgent=True)
        box.add(back, urgent=True) if body == b"join" else None
    assert box.withdraw(back) and not box.withdraw(back)
    add(box, diary, b"ask", again=False, urgent=True)
    assert box.take(outgoing) == frames(b"join", b"hint", b"ask", b"a")
    add(box, diary, b"b")
    add(box, diary, b"last", again=False, urgent=True)
    assert box.take(outgoing) == frames(b"last", b"b")


def test_a_refusal_names_one_message() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(10, 1000)
    add(box, diary, b"a", b"b", b"c", b"d")
    box.take(outgoing)
    box.settle(1)
    for k in (0, 1, 3, 3, 5):
        box.refuse(k, Reason.BLOCKED, "no")
    assert diary.refusals == [(3, Reason.BLOCKED, "no")] and diary.ended == [1]
    box.settle(4)
    assert diary.ended == [1, 2, 3, 4]


def test_after_a_lost_connection_the_unsettled_go_first() -> None:
    box, diary, outgoing = outbox(), Diary(), Outgoing(4, 1000)
    add(box, Diary(), b"join", again=False)
    add(box, diary, b"a", b"b", b"c", b"d")
    box.take(outgoing)
    box.settle(2)  # join and a
    box.refuse(3, Reason.BLOCKED, "")  # b
    add(box, diary, b"e", first=5)
    box.restart(FRAME_BYTES_MAX)
    assert diary.ended == [1, 2]  # b will not be sent again
    assert box.take(Outgoing(10, 1000)) == frames(b"c", b"d", b"e")
    box.refuse(1, Reason.BLOCKED, "")
    assert [number for number, _, _ in diary.refusals] == [2, 3]
    box.settle(3)
    assert (diary.ended, box.messages, box.bytes) == ([1, 2, 3, 4, 5], 0, 0)


def test_too_large_frames_are_refused_here() -> None:
    box, diary = outbox(), Diary()
    add(box, diary, b"x" * 200, b"ok")
    box.restart(100)
    assert diary.refusals == [(1, Reason.TOO_LARGE, "202 bytes; this router takes 100, its limits.frame_bytes_max")]
    add(box, diary, b"fine", b"x" * 101, b"x" * 100, first=3)
    assert [number for number, _, _ in diary.refusals] == [1, 4]
    assert box.take(Outgoing(10, 1000)) == frames(b"ok", b"fine", b"x" * 100)
    box.settle(3)
    assert (sorted(diary.ended), box.messages, box.bytes) == ([1, 2, 3, 4, 5], 0, 0)


def test_only_what_was_never_sent_can_be_withdrawn() -> None:
    box, outgoing = outbox(), Outgoing(1, 1000)
    first, second = (Submission(frame(body), Told(Diary(), 1)) for body in (b"a", b"b"))
    box.add(first)
    box.add(second)
    box.take(outgoing)
    assert not box.withdraw(first) and box.withdraw(second) and not box.withdraw(second)
    box.restart(FRAME_BYTES_MAX)
    assert not box.withdraw(first)
    assert (box.messages, box.take(Outgoing(9, 999))) == (1, frames(b"a"))


def test_giving_up() -> None:
    box, diary = outbox(), Diary()
    add(box, diary, b"a", b"b")
    box.take(Outgoing(1, 1000))
    add(box, diary, b"c", first=3)
    add(box, diary, b"c again", first=3)
    error = ClientError("gone")
    assert box.fail(error) == 1
    assert diary.errors == [error] * 3 and box.messages == box.bytes == 0, "each sink once"
    assert box.fail(error) == 0


def test_full() -> None:
    box, diary = Outbox(2, 1000), Diary()
    add(box, diary, b"a")
    assert not box.full
    add(box, diary, b"b")
    assert box.full and repr(box) == "<outbox of 2 messages, 0 of them sent>"
    assert Outbox(2, 1000).full is False
    big = Outbox(10, 100)
    add(big, diary, b"x" * 200)
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
    """Compare with a plain list of unsettled messages, under any sequence of events."""
    box, diary, outgoing = Outbox(10_000, 1 << 30), Diary(), Outgoing(window, 400)
    unsettled: list[tuple[int, bytes]] = []
    sent, given = 0, 0
    for what, numbers in steps:
        if what == "add":
            some = [frame(b"%d" % (given + at) + bytes(size)) for at, size in enumerate(numbers)]
            for number, one in enumerate(some, given):
                box.add(Submission(one, Told(diary, number)))
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
        assert box.messages == len(unsettled) == given - len(diary.ended)
        assert box.bytes == sum(len(one) for _, one in unsettled)
    assert len({number for number, _, _ in diary.refusals}) == len(diary.refusals)
