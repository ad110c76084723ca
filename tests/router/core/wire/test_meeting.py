"""Meetings: tags that only the two partners can compare, padding that hides their number, and the shape of the
messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, BOB, GROUP
from samples.discovery import FILLER, FIRST, MEETING, SECOND

from router.core.wire.codec import Malformed
from router.core.wire.crypto import digest
from router.core.wire.meeting import (
    FILLER_BYTES,
    TAG_BYTES,
    TAGS_MAX,
    TAGS_STEP,
    Meet,
    Meeting,
    Met,
    meet_fields,
    met_fields,
    read_meet,
    read_met,
)

THEIRS = Meeting(BOB.public, ALICE.public, FIRST, SECOND)
GROUPS = st.sets(st.binary(min_size=32, max_size=32), max_size=70)
FILLERS = st.randoms(use_true_random=False).map(lambda random: random.randbytes(FILLER_BYTES))


def test_exact_tags_and_topics() -> None:
    said = b"upsycle meet 1" + ALICE.public + BOB.public + FIRST + SECOND + GROUP.public
    assert digest(said)[:16] in MEETING.tags([GROUP.public], FILLER)
    topic = digest(b"upsycle topic 1" + FIRST + SECOND + GROUP.public)[:16]
    assert MEETING.topic(GROUP.public) == THEIRS.topic(GROUP.public) == topic


@given(GROUPS, GROUPS, GROUPS, FILLERS, FILLERS)
def test_both_find_what_they_share_and_nothing_else(
    both: set[bytes], mine: set[bytes], theirs: set[bytes], filler: bytes, other_filler: bytes
) -> None:
    mine, theirs = mine | both, theirs | both
    shared = MEETING.shared(mine, THEIRS.tags(theirs, other_filler))
    assert set(shared) == set(THEIRS.shared(theirs, MEETING.tags(mine, filler))) == mine & theirs


@given(GROUPS, FILLERS)
def test_padding_hides_how_many_and_the_order_tells_nothing(groups: set[bytes], filler: bytes) -> None:
    tags = MEETING.tags(groups, filler)
    assert len(tags) == max(TAGS_STEP, -(-len(groups) // TAGS_STEP) * TAGS_STEP)
    assert list(tags) == sorted(tags) and {len(one) for one in tags} == {TAG_BYTES}


@pytest.mark.parametrize(
    "elsewhere",
    (
        THEIRS,
        Meeting(GROUP.public, BOB.public, FIRST, SECOND),
        Meeting(ALICE.public, GROUP.public, FIRST, SECOND),
        Meeting(ALICE.public, BOB.public, SECOND, FIRST),
        Meeting(ALICE.public, BOB.public, FIRST, b"x" * 16),
    ),
    ids=["reflected", "sender", "receiver", "nonces", "replayed"],
)
def test_a_tag_is_worth_nothing_elsewhere(elsewhere: Meeting) -> None:
    """The tag is reflected, relayed in another's name, relayed to another, or kept for a later meeting."""
    told = MEETING.tags([GROUP.public], FILLER)
    hears = Meeting(elsewhere.other, elsewhere.own, elsewhere.first, elsewhere.second)
    assert THEIRS.shared([GROUP.public], told) == [GROUP.public]
    assert hears.shared([GROUP.public], told) == []


def test_limits() -> None:
    groups = [n.to_bytes(32, "big") for n in range(TAGS_MAX + 1)]
    assert len(MEETING.tags(groups[:-1], FILLER)) == TAGS_MAX
    with pytest.raises(ValueError, match="at most 1024 groups, not 1025"):
        MEETING.tags(groups, FILLER)
    with pytest.raises(ValueError, match="padded from 512 random bytes, not 0"):
        MEETING.tags([], b"")


def test_round_trips() -> None:
    meet, met = Meet(FIRST), Met(SECOND, FIRST, (b"t" * 16,))
    assert (read_meet(meet_fields(meet)), read_met(met_fields(met))) == (meet, met)


@pytest.mark.parametrize(
    ("read", "value", "cause"),
    (
        (read_meet, {}, "MEET lacks n"),
        (read_meet, {"n": FIRST, "to": SECOND}, "MEET has a key that is not known"),
        (read_meet, {"n": FIRST[1:]}, "n has 15 bytes instead of 16"),
        (read_met, {"n": FIRST, "to": SECOND}, "MET lacks tags"),
        (read_met, {"n": FIRST, "to": b"", "tags": []}, "to has 0 bytes instead of 16"),
        (read_met, {"n": FIRST, "to": SECOND, "tags": [b"t"]}, "a tag has 1 bytes instead of 16"),
        (read_met, {"n": FIRST, "to": SECOND, "tags": [b"t" * 16] * 1025}, "tags has 1025 items; 0 to 1024"),
        (read_met, [], "MET is not a map"),
    ),
)
def test_refused(read: Any, value: Any, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        read(value)
    assert str(caught.value).startswith(cause)
