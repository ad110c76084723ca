"""Agreement on groups by ranges: both sides find exactly what both want, in bounded bytes, whatever a liar says."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, BOB, GROUP

from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import NONCE_BYTES, TAG_BYTES, Meeting
from services.pubsub.core.meetings.group_sets import (
    FINGERPRINT_BYTES,
    FRAME_BYTES_MAX,
    LISTED_MAX,
    PARTS,
    Agreement,
    BrokenAgreement,
    GroupSet,
    ItemKind,
    Range,
    read_frame,
)

FIRST, SECOND = b"1" * NONCE_BYTES, b"2" * NONCE_BYTES
ROOT = Range().written


def meeting(own: PublicKey = ALICE.public, other: PublicKey = BOB.public, first: bytes = FIRST) -> Meeting:
    return Meeting(own, other, first, SECOND)


def keys(first: int, count: int) -> list[bytes]:
    chance = random.Random(7)
    return [chance.randbytes(32) for _ in range(first + count)][first:]


class Ended(NamedTuple):
    """Both sides at the end, the bytes sent, and the number of frames."""

    asker: Agreement
    answerer: Agreement
    bytes: int
    frames: int


def agree(mine: list[bytes], theirs: list[bytes], bytes_max: int = FRAME_BYTES_MAX) -> Ended:
    asker = Agreement(GroupSet(meeting(), mine), asks=True)
    answerer = Agreement(GroupSet(meeting(BOB.public, ALICE.public), theirs), asks=False)
    sent = frames = 0
    while not (asker.is_done and answerer.is_done):
        for sender, receiver in ((asker, answerer), (answerer, asker)):
            frame = sender.next_frame(bytes_max)
            sent, frames = sent + len(frame), frames + 1
            receiver.hear(frame)
        assert frames < 1_000
    return Ended(asker, answerer, sent, frames)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.sampled_from((1, 700, FRAME_BYTES_MAX)))
def test_both_find_exactly_what_both_want(both: int, mine: int, theirs: int, bytes_max: int) -> None:
    pool = keys(0, both + mine + theirs)
    found = agree(pool[: both + mine], [*pool[:both], *pool[both + mine :]], bytes_max)
    assert found.asker.common == found.answerer.common == set(pool[:both])


@pytest.mark.parametrize(
    ("both", "mine", "theirs", "bytes_max", "frames_max"),
    (
        (2_000, 0, 0, 100, 2),  # equal sets: a fingerprint and another one
        (2_000, 1, 0, 5_000, 10),
        (2_000, 10, 10, 40_000, 10),
        (1_000, 1_000, 1_000, 24 * 3_000, 10),  # all is listed once, and what is in common is listed again
        (0, 1_000, 1_000, 30 * 1_000, 10),
        (3, 0, 3_000, 2_000, 10),  # a small set beside a large one
        (3, 3_000, 0, 2_000, 10),
    ),
)
def test_bytes_and_frames_go_with_the_difference(
    both: int, mine: int, theirs: int, bytes_max: int, frames_max: int
) -> None:
    pool = keys(0, both + mine + theirs)
    found = agree(pool[: both + mine], [*pool[:both], *pool[both + mine :]])
    assert found.asker.common == found.answerer.common == set(pool[:both])
    assert found.bytes <= bytes_max and found.frames <= frames_max


def test_what_one_meeting_shows_is_nothing_in_another() -> None:
    """Neither places nor tags nor fingerprints of two meetings can be compared, so a frame of yesterday fails."""
    group = keys(0, 1)
    one, other = GroupSet(meeting(), group), GroupSet(meeting(first=SECOND), group)
    assert one.mine != other.mine and one.mine != one.theirs
    assert one.fingerprint(Range(), mine=True) != other.fingerprint(Range(), mine=True)
    assert one.fingerprint(Range(), mine=True) != one.fingerprint(Range(), mine=False)
    answerer = Agreement(GroupSet(meeting(BOB.public, ALICE.public), group), asks=False)
    answerer.hear(Agreement(other, asks=True).next_frame())
    assert not answerer.common


def test_saying_back_what_was_said_proves_nothing() -> None:
    """A router that knows none of the groups returns fingerprints and tags as if they were its own."""
    mine = keys(0, LISTED_MAX)
    asker = Agreement(GroupSet(meeting(), mine), asks=True)
    with pytest.raises(BrokenAgreement, match="is said to be the same"):
        asker.hear(asker.next_frame())
    lister = Agreement(GroupSet(meeting(), mine), asks=False)
    lister.hear(b"\0" + ROOT + bytes((ItemKind.SAME.value,)) + bytes(FINGERPRINT_BYTES))
    listed = lister.next_frame()
    assert [kind for _, kind, _ in read_frame(listed)[1]] == [ItemKind.LISTED]
    with pytest.raises(BrokenAgreement, match="none of the groups"):
        lister.hear(listed.replace(ROOT + b"\2", ROOT + b"\3", 1))
    assert not asker.common and not lister.common


def test_a_partner_with_one_group_proves_that_one_only() -> None:
    mine = keys(0, 500)
    liar = GroupSet(meeting(BOB.public, ALICE.public), mine[:1])
    honest = Agreement(GroupSet(meeting(), mine), asks=False)
    honest.hear(
        b"\0" + ROOT + bytes((ItemKind.LISTED.value,)) + (2).to_bytes(2, "big") + liar.mine[0] + bytes(TAG_BYTES)
    )
    assert honest.common == {mine[0]} and honest.is_done is False
    assert read_frame(honest.next_frame())[1] == [
        (Range(), ItemKind.SHARED, [honest._set.mine[honest._set.groups(range(500)).index(mine[0])]])
    ]
    assert honest.is_done


def test_one_that_divides_without_end_costs_no_more_than_a_list() -> None:
    """It answers each word by wrong fingerprints of all parts; each range is spoken of once, and lists are not."""
    honest, said, words = Agreement(GroupSet(meeting(), keys(0, 1_000)), asks=False), 0, 0
    to_say = [(Range(), ItemKind.SAME, 1)]
    while to_say:
        items = b"".join(
            of.written + bytes((kind.value,)) + (bytes(count * FINGERPRINT_BYTES) if count else bytes(2))
            for of, kind, count in to_say
        )
        honest.hear(b"\0" + items)
        to_say = []
        while True:
            frame = honest.next_frame()
            said, words = said + len(frame), words + 1
            for of, kind, _ in read_frame(frame)[1]:
                if kind is ItemKind.DIVIDED:
                    to_say += [(part, ItemKind.DIVIDED, PARTS) for part in of.parts()]
                elif kind is ItemKind.LISTED:
                    to_say.append((of, ItemKind.SHARED, 0))
            if frame[0] == 0:
                break
    assert honest.is_done and not honest.common
    assert said < 100_000 and words < 20


@given(st.binary(max_size=80), st.integers(0, 40))
def test_any_bytes_are_a_frame_or_refused(noise: bytes, cut: int) -> None:
    groups = GroupSet(meeting(BOB.public, ALICE.public), keys(0, 40))
    right = Agreement(GroupSet(meeting(), keys(20, 40)), asks=True).next_frame()
    for frame in (noise, b"\0" + noise, right[:cut] + noise, right + noise):
        answerer = Agreement(groups, asks=False)
        try:
            answerer.hear(frame)
        except BrokenAgreement:
            continue
        assert len(answerer.next_frame()) <= FRAME_BYTES_MAX


@pytest.mark.parametrize(
    ("frame", "cause"),
    (
        (b"", "no frame"),
        (b"\2", "no frame"),
        (bytes(FRAME_BYTES_MAX + 1), "no frame"),
        (b"\0\1\x10\0" + bytes(16), "does not exist"),
        (b"\0\x10" + bytes(8) + b"\0" + bytes(16), "does not exist"),
        (b"\0\0\4", "kind 4"),
        (b"\0\0\0" + bytes(15), "16 bytes are announced, 15 follow"),
        (b"\0\1\0\0" + bytes(16), "none is awaited"),
        (b"\0" + 2 * (b"\0\0" + bytes(16)), "answered by what is shared"),
        (b"\0\0\3\0\0", "answered by what is shared"),
    ),
)
def test_what_breaks_the_protocol_is_refused_with_its_cause(frame: bytes, cause: str) -> None:
    answerer = Agreement(GroupSet(meeting(), keys(0, 3)), asks=False)
    with pytest.raises(BrokenAgreement, match=cause):
        answerer.hear(frame)
    assert not answerer.common


def test_a_frame_that_comes_twice_is_refused() -> None:
    first = Agreement(GroupSet(meeting(), keys(0, 100)), asks=True).next_frame()
    answerer = Agreement(GroupSet(meeting(BOB.public, ALICE.public), keys(50, 100)), asks=False)
    answerer.hear(first)
    with pytest.raises(BrokenAgreement, match="none is awaited"):
        answerer.hear(first)


def test_both_ends_draw_the_same_whichever_key_is_lower() -> None:
    groups = keys(0, 5)
    for own, other in ((ALICE.public, BOB.public), (BOB.public, GROUP.public), (GROUP.public, ALICE.public)):
        one, two = GroupSet(meeting(own, other), groups), GroupSet(meeting(other, own), groups)
        assert one.mine == two.theirs and one.theirs == two.mine
        assert one.fingerprint(Range(), mine=True) == two.fingerprint(Range(), mine=False)
