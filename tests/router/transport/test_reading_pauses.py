"""The pauses in reading a stream that comes in pieces smaller than its frames."""

from __future__ import annotations

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
    """Return the pause after each read: (bytes, short pieces, frames completed, whether none has begun)."""
    found, short = [], 0
    for size, more, frames, is_between in reads:
        short += more
        pieces.took(size, short, frames, now, is_between=is_between)
        found.append(pieces.pause_s)
    return found


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


def test_short_pieces_without_frames_are_taken_at_a_rate_that_all_streams_share() -> None:
    """Each of 64 streams waits for all of them."""
    shared, more = shared_pace(), AT_ONCE
    streams = [ReadingPauses(shared) for _ in range(64)]
    last = [pauses(one, [(TRICKLE_BYTES, more, 0, False)])[0] for one in streams]
    assert last == [number * more / SHORT_PER_S for number in range(64)]


def test_a_stream_has_some_short_pieces_of_its_own_while_others_bring_many() -> None:
    shared = shared_pace()
    assert pauses(ReadingPauses(shared), [(TRICKLE_BYTES, 100 * AT_ONCE, 0, False)])[0] > 20
    honest = ReadingPauses(shared)
    assert pauses(honest, [(1_400, OWN, 0, False)] * 2)[0] == 0
    assert honest.pause_s > 20, "by then it brings as many as the others"


def test_pieces_say_what_they_are() -> None:
    one = ReadingPauses(shared_pace())
    pauses(one, [(1, 1, 0, False)])
    assert repr(one) == "<reading pauses: 0.05 s before the next read, after 1 short pieces>"
