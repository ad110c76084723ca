"""One connection in this process: its waits, their length, and its use of the node's memory."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from rigs.patience import HANG_S
from samples.core import ALICE, BOB
from trio.testing import MockClock, wait_all_tasks_blocked

from router.core.link.session import Ended, Offer, Session, SettledUpTo, Welcome
from router.core.link.table import LinkLimits
from router.core.routing.admission import OUTLIVED, SIGN_ON_ANEW
from router.core.routing.intake import Arrived
from router.core.wire import link_items as link
from router.core.wire.codec import frame, split_frames
from router.core.wire.crypto import SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunPlace, claim_run, stop_run
from router.node.connection import FROM_BACKUP, NOT_LET_IN, SURVIVOR, Connection, NodeSide
from router.node.dialler import LastWords
from router.node.in_flight import InFlight
from router.node.link_events import LinkClosed, LinkEvent, LinkOpened, NeighbourRunStopped, OwnRunShown
from router.transport.contract import Stream
from router.transport.pace import BEAT_S, Pace, PaceLimits, Paces, next_beat
from transports.memory import MemoryStream, stream_pair

NODE = SigningKey(b"n" * 32)
UNLIMITED = 1 << 40
UNHURRIED = Paces(PaceLimits(0, 0, 0))  # of strangers where none is prescribed


class Clock:
    def wall_ns(self) -> int:
        return int(trio.current_time() * 1e9)

    mono_ns = wall_ns


def offer(role: str = "router") -> Offer:
    return Offer(role, bytes(8), True, 4096, 8 << 20, os.urandom(16))


class Ends:
    """A connection of a node, and its other end driven by hand."""

    def __init__(self, in_flight: InFlight, limits: LinkLimits, number: int, paces: Paces | None) -> None:
        ours, self.stream = stream_pair()
        self.told: list[LinkEvent] = []
        self.heard: set[float] = set()
        self.said = ""
        self.lets_in = self.is_stranger = True
        self.session = Session(
            offer("app"), ALICE, dialler=True, expect=NODE.public, limits=LinkLimits(link_items_per_s=1e6)
        )
        node = NodeSide(
            NODE, self._tell, in_flight, Clock(), lambda: None, lambda: False, paces, is_stranger=self._judge
        )
        self.connection = Connection(
            number,
            ours,
            offer(),
            node,
            dialled=False,
            expect=None,
            limits=limits,
            welcome=lambda _: Welcome(paces is not None) if self.lets_in else None,
        )
        self._ours: Stream = ours

    def _judge(self, number: int) -> bool:
        assert number == self.connection.link_writer.number
        return self.is_stranger

    def _tell(self, told: LinkEvent) -> None:
        self.told.append(told)
        if isinstance(told, Arrived):
            self.heard.add(trio.current_time())

    async def run(self) -> None:
        self.said = await self.connection.run()
        await self._ours.aclose()

    async def shake_hands(self) -> None:
        while not any(isinstance(one, LinkOpened) for one in self.told):
            await self.flush()
            self.session.receive(await self.stream.receive_some(1 << 16), 0)
            await self.flush()
            await wait_all_tasks_blocked()

    async def flush(self) -> None:
        await self.say(b"".join(self.session.output()))

    async def say(self, data: bytes) -> None:
        if data:
            await self.stream.send_all(data)
            await wait_all_tasks_blocked()

    async def goodbye(self) -> Ended:
        """Return the node's goodbye."""
        with trio.fail_after(HANG_S):
            while data := await self.stream.receive_some(1 << 16):
                for event in self.session.receive(data, 0):
                    if isinstance(event, Ended):
                        return event
        raise AssertionError("it closed without a word")

    @property
    def arrived(self) -> int:
        """Return how many bytes of messages the node got."""
        return sum(one.size for one in self.told if isinstance(one, Arrived))


@asynccontextmanager
async def connected(
    in_flight: InFlight | None = None,
    limits: LinkLimits | None = None,
    number: int = 1,
    *,
    paces: Paces | None = None,
    shakes_hands: bool = True,
) -> AsyncIterator[Ends]:
    ends = Ends(in_flight or InFlight(UNLIMITED, UNLIMITED), limits or LinkLimits(), number, paces)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.run)
        if shakes_hands:
            await ends.shake_hands()
        yield ends
        nursery.cancel_scope.cancel()


def letter(size: int) -> bytes:
    return frame(seal_unicast(ALICE, BOB.public, bytes(size), ttl_s=60, expiry_min=1))


# -- whom it turns down ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says_hello", [False, True])
async def test_other_end_is_turned_down_by_its_hello_alone(says_hello: bool, autojump_clock: MockClock) -> None:
    """One that ends before that may just be starting."""
    async with connected(shakes_hands=False) as ends:
        ends.lets_in = False
        if says_hello:
            await ends.flush()
            ends.session.receive(await ends.stream.receive_some(1 << 16), 0)
            await ends.flush()
        await ends.stream.aclose()
        while not ends.said:
            await wait_all_tasks_blocked()
        assert (ends.connection.is_turned_down, ends.connection.is_up) == (says_hello, False)


async def test_a_goodbye_is_written_even_by_a_loop_that_stood_still_for_longer_than_it_may_take(
    autojump_clock: MockClock,
) -> None:
    async with connected(limits=LinkLimits(goodbye_s=1)) as ends:
        ends.connection.link_writer.close(Reason.BAD_SIGNATURE, "false signatures")
        autojump_clock.jump(5)
        assert await ends.goodbye() == Ended(Reason.BAD_SIGNATURE, "false signatures")


# -- what is read and not settled --------------------------------------------------------------------------------


async def test_reading_pauses_while_too_much_is_not_settled(autojump_clock: MockClock) -> None:
    one = letter(1000)
    in_flight = InFlight(3 * len(one), UNLIMITED)
    async with connected(in_flight) as ends:
        for _ in range(5):
            await ends.say(one)
        assert ends.arrived == 3 * len(one) == in_flight.bytes, "the fourth waits in the stream"
        in_flight.give_back(1, len(one))
        await wait_all_tasks_blocked()
        assert ends.arrived == 4 * len(one)
        in_flight.give_back(1, 3 * len(one))
        await wait_all_tasks_blocked()
        assert ends.arrived == 5 * len(one)


async def test_one_message_alone_is_read_whatever_its_size(autojump_clock: MockClock) -> None:
    one = letter(5000)
    async with connected(InFlight(100, 100), paces=UNHURRIED) as ends:
        await ends.say(one)
        assert ends.arrived == len(one)


async def test_strangers_take_their_share_of_it_and_leave_the_rest_to_others(autojump_clock: MockClock) -> None:
    one = letter(1000)
    in_flight = InFlight(8 * len(one), 2 * len(one))
    async with (
        connected(in_flight, number=1, paces=UNHURRIED) as first,
        connected(in_flight, number=2, paces=UNHURRIED) as second,
        connected(in_flight, number=3) as known,
    ):
        for ends in (first, first, second, second, *[known] * 6):
            await ends.say(one)
        assert (first.arrived, second.arrived, known.arrived) == (2 * len(one), 0, 6 * len(one))
        in_flight.give_back(3, 6 * len(one))
        await wait_all_tasks_blocked()
        assert second.arrived == 0, "it is the strangers' share that is taken"
        in_flight.give_back(1, 2 * len(one))
        await wait_all_tasks_blocked()
        assert second.arrived == 2 * len(one) == in_flight.strangers_bytes
        in_flight.give_back(2, 2 * len(one))
        assert (in_flight.bytes, in_flight.strangers_bytes, in_flight._strangers) == (0, 0, {})


# -- the pace of strangers ---------------------------------------------------------------------------------------


def test_a_pace_is_kept_and_what_was_not_used_is_not_saved_up() -> None:
    pace = Pace(10)
    assert [pace.wait_s(5, 0), pace.wait_s(5, 0), pace.wait_s(5, 0)] == [0, 0, 0.5]
    assert pace.wait_s(1, 0.5) == pytest.approx(0.1)
    assert [round(pace.wait_s(10, 100), 6), round(pace.wait_s(10, 100), 6)] == [0, 1]
    assert Pace(0).wait_s(10**9, 0) == 0


@given(st.floats(0, 1e6))
def test_a_beat_is_never_before_its_time(at: float) -> None:
    assert 0 <= next_beat(at) - at < BEAT_S + 1e-6


async def test_what_strangers_bring_in_a_beat_comes_at_once(autojump_clock: MockClock) -> None:
    paces = Paces(PaceLimits(0, 0, 0))
    async with connected(number=1, paces=paces) as first, connected(number=2, paces=paces) as second:
        for _ in range(50):
            await first.say(letter(10))
            await second.say(letter(10))
            await trio.sleep(BEAT_S / 10)
        await until_heard(50, first, second)
        assert len(first.heard | second.heard) <= 7, "five beats, and those in which it began and ended"


async def until_heard(count: int, *several: Ends) -> float:
    """Return the seconds until the node got that many messages of each."""
    began = trio.current_time()
    with trio.fail_after(1000):
        while any(sum(len(one.rows) for one in ends.told if isinstance(one, Arrived)) < count for ends in several):
            await trio.sleep(0.05)
    return trio.current_time() - began


PACE = {
    "one": PaceLimits(10, 1000, 0), "all": PaceLimits(1000, 10, 0), "bytes": PaceLimits(0, 0, 10 * len(letter(1000))),
}  # fmt: skip


@pytest.mark.parametrize("limits", PACE.values(), ids=PACE)
async def test_a_stranger_is_read_at_its_pace_and_nothing_of_it_is_refused(
    limits: PaceLimits, autojump_clock: MockClock
) -> None:
    async with connected(paces=Paces(limits)) as ends:
        await trio.sleep(10)
        for _ in range(60):
            await ends.say(letter(1000))
        assert await until_heard(60, ends) == pytest.approx(5, abs=0.2), "ten at once, and ten a second"
        assert ends.connection.link_writer.closing is None


async def test_what_carries_a_stranger_s_bytes_counts_with_them(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In TLS one byte may come in a record of 23 bytes."""
    one, brought = letter(1000), count(20 * len(letter(1000)), 20 * len(letter(1000)))
    async with connected(paces=Paces(PaceLimits(0, 0, 10 * len(one)))) as ends:
        monkeypatch.setattr(MemoryStream, "received_bytes", property(lambda _: next(brought)))
        for _ in range(5):
            await ends.say(one)
            await trio.sleep(0.01)
        assert await until_heard(5, ends) > 2, "with a second's worth at once"


async def test_all_strangers_share_a_pace_and_a_known_key_has_none(autojump_clock: MockClock) -> None:
    paces = Paces(PaceLimits(10, 10, 0))
    async with (
        connected(number=1, paces=paces) as first,
        connected(number=2, paces=paces) as second,
        connected(number=3) as known,
    ):
        await trio.sleep(10)
        for _ in range(60):
            for ends in (first, second, known):
                await ends.say(letter(10))
        assert await until_heard(60, known) == 0
        assert await until_heard(60, first, second) == pytest.approx(11, abs=0.2)


async def test_stranger_that_is_charged_for_itself_is_read_without_a_pace_until_it_is_none_again(
    autojump_clock: MockClock,
) -> None:
    async with connected(paces=Paces(PaceLimits(10, 10, 0))) as ends:
        await trio.sleep(10)
        ends.is_stranger = False
        await ends.say(letter(10))  # the read that had begun before
        for _ in range(60):
            await trio.sleep(BEAT_S / 10)
            await ends.say(letter(10))
            assert trio.current_time() in ends.heard, "at once, with no beat and no pause after so few bytes"
        ends.is_stranger = True
        for _ in range(60):
            await ends.say(letter(10))
        assert await until_heard(121, ends) == pytest.approx(5, abs=0.2), "ten at once, and ten a second"


async def test_waiting_for_a_turn_among_short_pieces_takes_nothing_from_the_time_for_a_frame(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, pieces = letter(1000), count(100_000, 100_000)
    async with connected(limits=LinkLimits(frame_s=5)) as ends:
        monkeypatch.setattr(MemoryStream, "short_pieces", property(lambda _: next(pieces)))
        for piece in (one + one[:300], one[300:600], one[600:]):
            await ends.say(piece)
        await trio.sleep(60)
        assert ends.arrived == 2 * len(one) and ends.said == ""


@pytest.mark.parametrize("stay", [False, True])
async def test_a_stranger_does_not_wait_for_all_that_others_have_brought(
    *, stay: bool, autojump_clock: MockClock
) -> None:
    """Forty strangers bring a window full of three bytes each, and fifty messages a second are read, so all of it takes
    a minute."""
    paces = Paces(PaceLimits(1000, 50, 0))
    async with connected(number=100, paces=paces) as honest:
        async with AsyncExitStack() as crowd:
            for number in range(40):
                ends = await crowd.enter_async_context(connected(number=number, paces=paces))
                await ends.say(b"\x42\x82\x00" * 64)
            await trio.sleep(10)
            if stay:
                await honest.say(letter(10))
                assert await until_heard(1, honest) < 1
        if not stay:
            await honest.say(letter(10))
            assert await until_heard(1, honest) < 0.2


# -- time and items ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "said"), [(OUTLIVED, SURVIVOR), ("a newer connection of the same key", "")])
async def test_a_node_of_an_earlier_life_is_told_to_stop(text: str, said: str) -> None:
    async with connected() as ends:
        ends.session.goodbye(Reason.REPLACED, text)
        await ends.flush()
        assert ends.connection.last_words.text == said


@pytest.mark.parametrize(("text", "more"), [("another key has its place", ""), (SIGN_ON_ANEW, FROM_BACKUP)])
async def test_a_node_whose_key_or_claim_to_one_is_refused_is_told_why(text: str, more: str) -> None:
    async with connected() as ends:
        ends.session.goodbye(Reason.RENEWED, text)
        await ends.flush()
        said = f"{NOT_LET_IN}: {text}{more}"
        assert ends.connection.last_words == LastWords(said, lets_in=False, is_superseded=bool(more))


async def test_a_node_that_is_shown_a_later_run_of_its_key_says_that_it_stops() -> None:
    """It says so at once, since the other end closes the link; an earlier run is none of its business."""
    own, earlier, later = (claim_run(NODE, RunPlace(0, number, b"tag....8")) for number in (5, 4, 6))
    async with connected() as ends:
        ends.connection._claim = own
        for shown in (earlier, own):
            await ends.say(frame(link.encode_item(link.OtherRun(shown))))
        assert not [one for one in ends.told if isinstance(one, OwnRunShown)]
        await ends.say(frame(link.encode_item(link.OtherRun(later))))
        assert ends.told[-1] == OwnRunShown(later)
        data = await ends.stream.receive_some(1 << 16)
        said = [link.decode_item(data[start:end]) for _, start, end in split_frames(data)[0]]
        assert said[-1] == link.StoppedRun(stop_run(NODE, own.run, later.run))


@pytest.mark.parametrize("signer", [NODE, ALICE])
async def test_a_run_that_has_stopped_is_reported_by_whose_key_it_is(signer: SigningKey) -> None:
    said = stop_run(signer, RunPlace(0, 1, bytes(8)), RunPlace(0, 2, bytes(8)))
    async with connected() as ends:
        await ends.say(frame(link.encode_item(link.StoppedRun(said))))
        where = ends.connection.link_writer.where
        of_peer = NeighbourRunStopped(ALICE.public, where, said)
        assert ends.told[-1] == (OwnRunShown(said) if signer is NODE else of_peer)


@pytest.mark.parametrize(
    "item",
    [
        link.OtherRun(claim_run(ALICE, RunPlace(9, 9, bytes(8)))),
        link.StoppedRun(stop_run(BOB, RunPlace(0, 1, bytes(8)), RunPlace(0, 2, bytes(8)))),
    ],
)
async def test_a_statement_about_a_run_that_neither_end_has_signed_ends_the_link(item: link.Item) -> None:
    async with connected() as ends:
        await ends.say(frame(link.encode_item(item)))
        assert (await ends.goodbye()).reason is Reason.BAD_SIGNATURE
        assert not [one for one in ends.told if isinstance(one, OwnRunShown | NeighbourRunStopped)]


async def test_a_link_that_was_shown_another_run_is_read_for_its_answer_after_the_goodbye(
    autojump_clock: MockClock,
) -> None:
    said = stop_run(ALICE, RunPlace(0, 1, bytes(8)), RunPlace(0, 2, bytes(8)))
    async with connected() as ends:
        ends.connection.link_writer.say(link.OtherRun(claim_run(ALICE, RunPlace(0, 2, bytes(8)))))
        ends.connection.link_writer.close(Reason.REPLACED, "")
        await trio.sleep(1)
        await ends.say(frame(link.encode_item(link.StoppedRun(said))))
        assert any(isinstance(one, NeighbourRunStopped) for one in ends.told)
        await trio.sleep(5)
        assert isinstance(ends.told[-1], LinkClosed)


@pytest.mark.parametrize("hello_s", [0.5, 30.0])
async def test_a_hello_is_due(hello_s: float, autojump_clock: MockClock) -> None:
    limits = LinkLimits(hello_s=hello_s, goodbye_s=1)
    async with connected(limits=limits, shakes_hands=False) as ends:
        began = trio.current_time()
        assert (await ends.goodbye()).reason is Reason.CONNECT_TIMEOUT
        assert trio.current_time() - began == pytest.approx(hello_s, abs=0.1)


async def test_each_state_of_the_handshake_has_the_time_of_its_row(autojump_clock: MockClock) -> None:
    async with connected(limits=LinkLimits(hello_s=5, goodbye_s=1), shakes_hands=False) as ends:
        await trio.sleep(4)
        await ends.flush()  # the hello; no proof follows
        began = trio.current_time()
        assert (await ends.goodbye()).reason is Reason.CONNECT_TIMEOUT
        assert trio.current_time() - began == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("per_s", [2.0, 20.0])
async def test_more_link_items_a_second_than_are_taken_end_the_link(per_s: float, autojump_clock: MockClock) -> None:
    """Five seconds' worth may come at once."""
    limits = LinkLimits(link_items_per_s=per_s, goodbye_s=1)
    ping = frame(link.encode_item(link.Ping(1)))
    async with connected(limits=limits) as ends:
        for _ in range(int(per_s) * 5):
            await ends.say(ping)
        await trio.sleep(1)
        for _ in range(int(per_s)):
            await ends.say(ping)
        assert not ends.said and ends.connection.link_writer.closing is None
        await ends.say(ping)
        assert (await ends.goodbye()).reason is Reason.RATE_LIMITED


async def test_after_its_goodbye_the_node_says_no_more_than_what_is_settled(autojump_clock: MockClock) -> None:
    """The node sends neither pongs nor messages, which the other end would not take any more."""
    async with connected(limits=LinkLimits(goodbye_s=1)) as ends:
        await ends.say(letter(10))
        link_writer = ends.connection.link_writer
        link_writer.close(Reason.SHUTDOWN, "the node stops")
        await ends.say(frame(link.encode_item(link.Ping(1))))
        link_writer.tell(seal_unicast(NODE, ALICE.public, b"", ttl_s=0, expiry_min=1))
        link_writer.say(link.Redelivered(1))
        link_writer.settle(1, [])
        heard: list[object] = []
        with trio.fail_after(HANG_S):
            while data := await ends.stream.receive_some(1 << 16):
                heard += ends.session.receive(data, 0)
        assert heard == [Ended(Reason.SHUTDOWN, "the node stops"), SettledUpTo(1)]
