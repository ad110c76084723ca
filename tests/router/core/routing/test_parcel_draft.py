"""Drafts of parcels: joined across reads, cut by count and size, refused together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.core.routing.intake import ArrivedMessage, Head
from router.core.routing.parcel_draft import ParcelDraft


def row(k: int, at: int, size: int) -> ArrivedMessage:
    return ArrivedMessage(k, bytes((k,)) * 32, Head(1, b"g" * 32, None, 60, 1, None), at, at + 2, at + size, at + 9)


def run_of(*sizes: int, gap: int = 0) -> tuple[ParcelDraft, bytes]:
    """Return a run of one read with that many bytes between its messages; and the blob that it must have."""
    run, data, at, blob = ParcelDraft("which"), bytes(range(256)) * 20, 0, b""
    for k, size in enumerate(sizes, 1):
        run.add(data, row(k, at, size))
        blob += data[at : at + size]
        at += size + gap
    return run, blob


def test_messages_without_a_gap_are_one_slice() -> None:
    run, blob = run_of(10, 20, 30)
    assert (run.count, run.size, len(run.pieces)) == (3, 60, 1)
    assert run.blob() == blob and [one.k for one in run.rows()] == [1, 2, 3] and run.first.k == 1


def test_gaps_and_reads_are_joined() -> None:
    run, blob = run_of(10, 20, 30, gap=3)
    other, more = run_of(7)
    for data, rows in other.pieces:
        run.add(bytes(data) + b"", rows[0])
    assert run.blob() == blob + more and run.count == 4


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(0, 25), st.integers(0, 600), st.booleans())
def test_a_cut_takes_what_fits_and_at_least_one(sizes: list[int], messages: int, size: int, gap: bool) -> None:
    run, blob = run_of(*sizes, gap=int(gap))
    head, tail = run.cut(messages, size)
    assert (head.blob() + tail.blob() if tail.count else head.blob()) == blob
    assert head.count >= 1 and head.count + tail.count == len(sizes) and head.size + tail.size == sum(sizes)
    assert head.count == 1 or (head.count <= messages and head.size <= size)
    if tail.count:
        assert head.count + 1 > messages or head.size + sizes[head.count] > size, "one more would not fit"
        assert tail.which == "which"


def test_those_at_least_as_large_as_the_first() -> None:
    run, _ = run_of(20, 20, 30, 10, 40)
    assert [one.k for one in run.no_smaller_than_first()] == [1, 2, 3]
