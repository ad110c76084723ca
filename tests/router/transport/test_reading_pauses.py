"""The pauses in reading a stream that comes in pieces smaller than its frames."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from router.transport.reading_pauses import (
    OWN_BURST_S,
    OWN_PER_S,
    SHORT_BURST_S,
    SHORT_PER_S,
    TRICKLE_BYTES,
    TRICKLE_MAX_S,
    TRICKLE_S,
    ReadingPauses,
    shared_pace,
)

OWN = int(OWN_PER_S * OWN_BURST_S)
AT_ONCE = int(SHORT_PER_S * SHORT_BURST_S)


def pauses(pieces: ReadingPauses, reads: list[tuple[int, int, int, bool]], *, now: float = 0.0) -> list[float]:
    """Return how long its bytes gather after each read: (bytes, short pieces, frames completed, whether none has
    begun)."""
    found, short = [], 0
    for size, more, frames, is_between in reads:
        short += more
        pieces.took(size, short, frames, now, is_between=is_between)
        found.append(pieces.trickle_s)
    return found


async def waited_s(pieces: ReadingPauses) -> float:
    """Return how long a stream waits for its turn."""
    began_s = trio.current_time()
    await pieces.wait_turn()
    return trio.current_time() - began_s


def test_whole_frames_are_never_waited_for_however_small_they_are() -> None:
    assert set(pauses(ReadingPauses(shared_pace()), [(10, 1, 1, True), (3_000, 250, 250, True)] * 10_000)) == {0}


def test_long_frames_are_never_waited_for_however_they_are_cut() -> None:
    """A packet of 1,400 bytes each time, whose last record is short; a frame is complete now and then."""
    whole, cut = (1_400, 0, 1, True), (1_400, 1, 0, False)
    assert set(pauses(ReadingPauses(shared_pace()), [cut] * OWN + [whole])) == {0}


def test_a_frame_that_trickles_in_is_read_ever_less_often_until_it_is_whole() -> None:
    byte, last, many = (1, 0, 0, False), (1, 0, 1, True), (TRICKLE_BYTES, 0, 0, False)
    begun = [TRICKLE_S, 2 * TRICKLE_S]
    assert pauses(ReadingPauses(shared_pace()), [byte] * 4) == [*begun, TRICKLE_MAX_S, TRICKLE_MAX_S]
    assert pauses(ReadingPauses(shared_pace()), [byte, byte, last, byte]) == [*begun, 0, TRICKLE_S]
    assert pauses(ReadingPauses(shared_pace()), [byte, byte, many, byte]) == [*begun, 0, TRICKLE_S]


async def test_short_pieces_without_frames_are_taken_at_a_rate_that_all_streams_share(
    autojump_clock: MockClock,
) -> None:
    shared, more, began_s = shared_pace(), AT_ONCE, trio.current_time()
    streams = [ReadingPauses(shared) for _ in range(64)]
    async with trio.open_nursery() as nursery:
        for one in streams:
            pauses(one, [(TRICKLE_BYTES, more, 0, False)])
            nursery.start_soon(one.wait_turn)
    assert trio.current_time() - began_s == pytest.approx(63 * more / SHORT_PER_S, rel=0.01)


async def test_stream_has_some_short_pieces_of_its_own_while_others_bring_many(autojump_clock: MockClock) -> None:
    honest = ReadingPauses(shared_pace())
    pauses(honest, [(1_400, OWN, 0, False)])
    assert honest.excess == 0
    pauses(honest, [(1_400, 2 * OWN, 0, False)])
    assert honest.excess == OWN, "by then it brings as many as others"


async def test_stream_of_few_short_pieces_does_not_wait_for_all_of_those_of_others(autojump_clock: MockClock) -> None:
    """A hundred streams bring what takes three minutes; a hundred others have brought as much, and are gone."""
    shared = shared_pace()
    honest, gone = ReadingPauses(shared), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        with gone:
            async with trio.open_nursery() as ended:
                for number in range(200):
                    one = ReadingPauses(shared)
                    pauses(one, [(TRICKLE_BYTES, OWN + 14_000, 0, False)])
                    (nursery if number % 2 else ended).start_soon(one.wait_turn)
                await trio.sleep(1)
                gone.cancel()
        pauses(honest, [(1_400, OWN, 0, False), (1_400, 10, 0, False)])
        assert await waited_s(honest) < 1
        nursery.cancel_scope.cancel()


def test_pieces_say_what_they_are() -> None:
    one = ReadingPauses(shared_pace())
    pauses(one, [(1, 1, 0, False)])
    assert repr(one) == "<reading pauses: 0.05 s and 0 of 1 short pieces to wait for>"
