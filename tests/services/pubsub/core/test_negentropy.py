"""Comparison of sets of ids: the reference's transcripts, set difference, its cost in bytes, and bad frames."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.pubsub.core.comparison.id_set import IdSet, key_of, minute_of
from services.pubsub.core.comparison.negentropy import (
    CLOSING_BYTES,
    FRAME_BYTES_MAX,
    BadFrame,
    Differences,
    IdRange,
    answer,
    ask,
    go_on,
    judge,
)

VECTORS = json.loads((Path(__file__).parents[3] / "vectors/negentropy.json").read_text())["cases"]
MINUTE = 3_626_000
CLOSED = bytes.fromhex("000001")  # bound and mode of the fingerprint that closes a full frame
NOT_AT_ALL = b"\x61\x00\x00\x01" + bytes(16)  # a fingerprint of everything that nothing has


def view(keys: Any, lo: int = 0, hi: int = 1 << 32) -> IdRange:
    return IdRange(IdSet(keys), lo, hi)


def frames(mine: IdRange, theirs: IdRange, found: Differences, most: int = FRAME_BYTES_MAX) -> Iterator[bytes]:
    """Yield the frames of a whole comparison, the asker's and the answerer's in turn."""
    frame = ask(mine, most)
    while frame:
        yield frame
        yield (frame := answer(theirs, frame, most).frame)
        frame = go_on(mine, frame, found, most)


def ids(keys: Any) -> set[bytes]:
    return {key[4:] for key in keys}


# -- the reference -------------------------------------------------------------------------------------------


def sides(case: dict[str, Any]) -> tuple[IdRange, IdRange]:
    if "client" in case:
        mine, theirs = (
            [key_of(minute, bytes.fromhex(one)) for minute, one in case[side]] for side in ("client", "server")
        )
    else:
        items = [key_of(MINUTE + i // 3, sha256(b"item %d" % i).digest()) for i in range(400)]
        mine, theirs = [one for i, one in enumerate(items) if i % 7], items
    return view(mine), view(theirs)


def without_closing(frame: bytes) -> bytes:
    return frame[:-16] if frame[-19:-16] == CLOSED else frame


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_frames_of_the_reference(case: dict[str, Any]) -> None:
    """The frames match byte for byte, except for the fingerprint that closes a full frame: the reference leaves the
    range that did not fit out of it, so an asker without ids there, and with the same ids after it, would not be told
    of it."""
    found, (mine, theirs) = Differences(), sides(case)
    got = list(frames(mine, theirs, found, case.get("frame_limit", FRAME_BYTES_MAX)))
    wanted = [bytes.fromhex(frame) for _, frame in case["messages"]]
    if "frame_limit" not in case:
        assert got == wanted
    assert [*map(without_closing, got)] == [*map(without_closing, wanted)]
    needed = {key[4:]: minute_of(key) for key in theirs.ids.keys(0, len(theirs.ids))}
    assert set(found.need) == needed.keys() - ids(mine.ids.keys(0, len(mine.ids)))
    assert all(first <= needed[id] <= last for id, (first, last, _) in found.need.items())


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_the_reference_at_the_other_end(case: dict[str, Any]) -> None:
    """The reference's frames can be read on either side, whatever ours would have been."""
    found, (mine, theirs) = Differences(), sides(case)
    for side, frame in case["messages"]:
        if side == "client":
            assert answer(theirs, bytes.fromhex(frame)).frame
        else:
            go_on(mine, bytes.fromhex(frame), found)
    assert len(found.need) == case.get("need_count", len(case["need"]))
    assert {bytes.fromhex(one) for one in case["need"]} <= set(found.need)
    assert {key[4:].hex() for key in found.have} == set(case.get("have", ()))


def test_what_did_not_fit_is_not_taken_for_the_same() -> None:
    """A frame is full before a range in which only the answerer has ids, and there are none after that range."""
    random = Random(1)
    first, last = (
        [key_of(minute, random.randbytes(32)) for _ in range(count)] for minute, count in ((1, 40), (2, 100))
    )
    nothing = sha256(bytes(33)).digest()[:16]
    asked = b"\x61\x03\x00\x02\x00" + b"\x00\x00\x01" + nothing  # minute 1: none; behind it: fingerprint of none
    answered, found = answer(view(first + last), asked, 200 + 40 * 32 + 100).frame, Differences()
    assert answered[-19:-16] == CLOSED and answered[-16:] != nothing
    go_on(view([]), answered, found)
    assert set(found.need) == ids(first)
    list(frames(view(first), view(first + last), found, 1_600))
    assert set(found.need) == ids(first + last)


# -- set difference ------------------------------------------------------------------------------------------

KEYS = st.integers(0, 400).map(lambda n: key_of(MINUTE + n % 6, sha256(b"%d" % n).digest()))


@given(
    st.frozensets(KEYS, max_size=300), st.frozensets(KEYS), st.frozensets(KEYS), st.integers(1_500, 5_000),
    st.tuples(st.integers(MINUTE - 1, MINUTE + 6), st.integers(0, 6)),
)  # fmt: skip
def test_set_difference(
    both: frozenset[bytes], mine: frozenset[bytes], theirs: frozenset[bytes], most: int, window: tuple[int, int]
) -> None:
    lo, hi = window[0], sum(window)
    left, right = ({key for key in keys | both if lo <= int.from_bytes(key[:4], "big") < hi} for keys in (mine, theirs))
    found = Differences()
    sent = list(frames(view(mine | both, lo, hi), view(theirs | both, lo, hi), found, most))
    assert set(found.need) == ids(right) - ids(left)
    assert set(found.have) == {key for key in left if key[4:] not in ids(right)}
    assert len(found.have) == len(set(found.have))
    assert max(map(len, sent)) <= most


@pytest.mark.parametrize("seed", range(3))
def test_set_difference_of_many(seed: int) -> None:
    random = Random(seed)
    keys = [key_of(MINUTE + random.randrange(60), random.randbytes(32)) for _ in range(6_000)]
    mine, theirs = (random.sample(keys, 5_500) for _ in "ab")
    found = Differences()
    assert len(list(frames(view(mine), view(theirs), found))) <= 12
    assert set(found.need) == ids(set(theirs) - set(mine))
    assert set(found.have) == set(mine) - set(theirs)


def test_most_that_is_noted_as_missing_there() -> None:
    random = Random(1)
    keys = [key_of(MINUTE, random.randbytes(32)) for _ in range(500)]
    found = Differences(have_max=100)
    list(frames(view(keys), view([]), found))
    assert len(found.have) == 100 and set(found.have) < set(keys) and found.is_cut


# -- what it costs -------------------------------------------------------------------------------------------


def test_bytes() -> None:
    """Sets of 100,000 ids are compared: the goals of docs/measured/pubsub.md, as counts."""
    random = Random(1)
    keys = [key_of(MINUTE + at // 70, random.randbytes(32)) for at in range(100_000)]
    full, found = view(keys), Differences()
    assert sum(map(len, frames(full, full, found))) <= 400 and not found.need
    assert sum(map(len, frames(view(keys[:-20_000]), full, found))) <= 1.05 * 32 * 20_000
    assert set(found.need) == ids(keys[-20_000:])
    some, found = IdSet(keys), Differences()
    some.remove(gone := random.sample(keys, 100))
    sent = list(frames(IdRange(some), full, found))
    assert sum(map(len, sent)) <= 130_000 and len(sent) <= 8
    assert set(found.need) == ids(gone)


# -- bad frames ----------------------------------------------------------------------------------------------

BAD = {
    "no frame": b"",
    "no version": b"\x12\x00\x00\x00",
    "a number without end": b"\x61" + b"\xff" * 60_000,
    "half a bound": b"\x61\x05",
    "a bound without its bytes": b"\x61\x05\x20\x01\x02",
    "a bound of 33 bytes": b"\x61\x05\x21" + bytes(33) + b"\x00",
    "an end with an id": b"\x61\x00\x01\x00\x00",
    "a mode of later": b"\x61\x05\x00\x03",
    "half a fingerprint": b"\x61\x00\x00\x01" + bytes(15),
    "a million ids announced": b"\x61\x00\x00\x02\xbd\x84\x40" + bytes(64),
    "ranges that run backwards": b"\x61\x05\x01\x09\x00\x01\x01\x08\x00",
    "ranges behind the end": b"\x61\x00\x00\x00\x05\x00\x00",
    "a range behind the end, of the minute before the first": b"\x61\x00\x00\x00\x01\x00\x00",
    "two ends": b"\x61\x00\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD.keys())
def test_bad_frames(frame: bytes) -> None:
    keys = view([key_of(MINUTE, bytes(32))])
    with pytest.raises(BadFrame):
        answer(keys, frame)
    with pytest.raises(BadFrame):
        judge(frame)
    with pytest.raises(BadFrame):
        go_on(keys, frame, Differences())


def test_other_versions() -> None:
    assert answer(view([]), b"\x62\x00") == (b"\x61", [])
    with pytest.raises(BadFrame, match="version 62 of negentropy; this is 61"):
        go_on(view([]), b"\x62\x00", Differences())


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(b"\0\1\2\x7f\x80\xff"), max_size=200).map(bytes)))
def test_any_bytes(frame: bytes) -> None:
    """Any bytes are answered within the limit, or refused: those too that come near to ranges."""
    frame = b"\x61" + frame
    keys = view(key_of(minute, bytes((minute,)) * 32) for minute in range(100))
    try:
        assert len(answer(keys, frame, 1_500).frame) <= 1_500
    except BadFrame:
        pass


def test_fingerprints_that_never_agree() -> None:
    """One side answers each frame with a fingerprint of nothing: the asker lists its ids and is never done, so its
    caller counts rounds; no frame grows, and nothing is recorded."""
    random = Random(1)
    keys, found = view(key_of(MINUTE, random.randbytes(32)) for _ in range(5_000)), Differences()
    sent = [go_on(keys, NOT_AT_ALL, found) for _ in range(70)]
    assert {len(one) for one in sent} == {len(ask(keys))}
    assert not found.need and not found.have


def test_ids_that_nobody_has() -> None:
    """A frame holds a limited number of ids, so invented ones cost memory for one frame."""
    found = Differences()
    list_of_all = b"\x61\x00\x00\x02\x8e\x50" + Random(1).randbytes(32 * 1_872)
    assert len(list_of_all) <= FRAME_BYTES_MAX
    assert go_on(view([]), list_of_all, found) == b""
    assert len(found.need) == 1_872


def test_a_full_frame_has_room_for_its_end() -> None:
    random = Random(1)
    many = view(key_of(1, random.randbytes(32)) for _ in range(3_000))
    for most in range(FRAME_BYTES_MAX - 40, FRAME_BYTES_MAX):
        frame = answer(many, b"\x61\x00\x00\x02\x00", most).frame
        assert most - CLOSING_BYTES < len(frame) <= most
