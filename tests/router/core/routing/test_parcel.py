"""Parcels: the place of each message, with and without VIA, and why it expires."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, BOB, GROUP

from router.core.link.custody import ADDED_BYTES_MAX
from router.core.routing.parcel import U32, Parcel, unbroken
from router.core.wire.codec import frame, split_frames
from router.core.wire.lifetime import expiry_s
from router.core.wire.message import message_id, seal_multicast, with_via
from router.core.wire.reasons import Reason

EXPIRY = 3_700_000
WIRES = [
    seal_multicast(GROUP, b"x" * size, ttl_s=60, expiry_min=EXPIRY)
    for size in (0, 60, 70, 80, 90, 100, 60_000, 65_300, 65_500)   # heads of 2, 3 and 5 bytes; VIA makes some longer
]  # fmt: skip
FRAMES = [frame(wire) for wire in WIRES]


def parcel(via: bytes | None = BOB.public) -> Parcel:
    count = len(WIRES)
    return Parcel(
        first=7, kind=1, signer=GROUP.public, destination=None, neighbour=BOB.public, via=via,
        recipients=(ALICE.public,), at_s=expiry_s(EXPIRY) - 100, blob=b"".join(FRAMES),
        ends=array(U32, accumulate(map(len, FRAMES))),
        ids=b"".join(map(message_id, WIRES)), ttls=array(U32, [60]) * count, expiries=array(U32, [EXPIRY]) * count,
        deadlines=array(U32, [expiry_s(EXPIRY) - 40] * (count - 1) + [expiry_s(EXPIRY)]),
    )  # fmt: skip


def test_each_message_is_found_as_it_came() -> None:
    one = parcel()
    assert one.count == len(WIRES)
    assert [one.wire(at) for at in range(one.count)] == WIRES
    assert [one.id(at) for at in range(one.count)] == [message_id(wire) for wire in WIRES]


@pytest.mark.parametrize(("start", "stop"), [(0, 9), (0, 1), (3, 5), (8, 9)])
def test_a_part_is_a_slice_of_the_bytes(start: int, stop: int) -> None:
    one = parcel()
    assert bytes(one.frames(start, stop)) == b"".join(FRAMES[start:stop])
    assert one.size(start, stop) == len(b"".join(FRAMES[start:stop]))
    assert one.frames(start, stop).obj is one.blob, "shared, not copied"


@pytest.mark.parametrize(("start", "stop"), [(0, 9), (3, 5), (8, 9)])
def test_local_services_see_the_router_it_came_through(start: int, stop: int) -> None:
    data = bytes(parcel().frames(start, stop, local=True))
    spans, rest = split_frames(data)
    assert rest == len(data)
    assert [data[at:end] for _, at, end in spans] == [with_via(wire, BOB.public) for wire in WIRES[start:stop]]


def test_what_a_local_service_sent_names_no_router() -> None:
    assert bytes(parcel(None).frames(0, 9, local=True)) == b"".join(FRAMES)


def test_the_growth_by_via_is_what_custody_grants() -> None:
    one = parcel()
    assert len(one.frames(0, 9, local=True)) - len(one.blob) <= 9 * ADDED_BYTES_MAX


def test_the_reason_is_the_one_that_came_first() -> None:
    one = parcel()
    assert [one.why_expired(at) for at in (0, 8)] == [Reason.TTL_EXPIRED, Reason.EXPIRY_PASSED]


# -- damage ------------------------------------------------------------------------------------------------------


def test_the_ids_vouch_for_the_frames() -> None:
    """Any byte of any frame is changed, with heads of all lengths, and frames are missing."""
    one = parcel()
    assert one.damaged() == []
    blob, starts = one.blob, [0, *one.ends]
    for index, (start, end) in enumerate(pairwise(starts)):
        for at in {start, start + 1, start + 2, start + 3, (start + end) // 2, end - 1}:
            one.blob = blob[:at] + bytes((blob[at] ^ 1,)) + blob[at + 1 :]
            assert one.damaged() == [(index, index + 1)]
    one.blob = blob[: one.ends[6]]
    assert one.damaged() == [(7, 9)]
    one.blob = b""
    assert one.damaged() == [(0, 9)]


@pytest.mark.parametrize("size", [1, 2, 23, 24, 25, 255, 256, 257, 65_535, 65_536])
def test_frames_at_the_edges_of_the_heads(size: int) -> None:
    wire = b"\x84" + bytes(size - 1)
    one = parcel()
    one.blob, one.ends, one.ids = frame(wire), array(U32, [len(frame(wire))]), message_id(wire)
    assert one.damaged() == []


@given(st.sets(st.integers(0, 40)))
def test_unbroken_runs(indexes: set[int]) -> None:
    runs = unbroken(sorted(indexes))
    assert [at for run in runs for at in range(*run)] == sorted(indexes)
    assert all(one[1] < other[0] for one, other in pairwise(runs))
