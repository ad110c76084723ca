"""The frames of a stream that is passed on, however it is cut."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from router.core.link.frame_count import FrameCount
from router.core.wire.codec import frame, split_frames

ITEMS = st.lists(st.one_of(st.binary(max_size=40), st.just(bytes(300)), st.just(bytes(70_000))), max_size=6)


@given(ITEMS, st.lists(st.integers(0, 1 << 17), max_size=20), st.binary(max_size=4))
def test_frames_are_counted_however_they_are_cut(items: list[bytes], places: list[int], more: bytes) -> None:
    whole = b"".join(map(frame, items))
    data = whole + frame(bytes(400))[: len(more)]
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    count, found = FrameCount(), 0
    for begin, end in itertools.pairwise(at):
        found += count.took(data[begin:end])
        spans, rest = split_frames(data[:end])
        assert found == len(spans) and count.is_between == (rest == end)


def test_what_begins_no_frame_completes_none() -> None:
    count = FrameCount()
    assert count.took(frame(b"one") + frame(b"two")) == 2
    assert count.took(b"\xff" + frame(b"three")) == 0
    assert count.took(frame(b"four")) == 0 and not count.is_between
    assert repr(count) == "<frame count: in a frame>"
