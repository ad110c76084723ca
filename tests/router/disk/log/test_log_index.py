"""The index beside a segment: its content, and that it is used for its own segment only."""

from __future__ import annotations

from array import array
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from samples.logs import KEY, Store, open_log

from router.core.log.events import Accepted, Outward, RouterChange, Turned
from router.core.log.line import event_rows
from router.disk.log import index as log_index
from router.disk.log.index import NOTED_BYTES, Columns, Growing, ids_in

PEER = b"p" * 32
IDS = [bytes([number]) * 32 for number in range(5)]


def accepted(first: int, *ids: bytes) -> Accepted:
    column = pack(f"<{len(ids)}I", *[1] * len(ids))
    return Accepted(1, 2, first, 1, PEER, None, PEER, 1, (PEER,), b"".join(ids), column, column, column)


def outward(parcel: int, *ranges: tuple[int, int]) -> Outward:
    return Outward(1, 2, "delivered", PEER, 1, ranges, None, 0, 0, 0, parcel)


def grown() -> Growing:
    index = Growing()
    index.note(100, [accepted(7, IDS[0], IDS[1]), outward(7, (7, 1)), outward(7, (8, 1))])
    index.note(9_000, [RouterChange(1, 2, "join", ()), outward(3, (3, 1))])
    index.note(
        18_000, [Turned(1, 2, "duplicate", PEER, 1, 5, IDS[0], 3, None), accepted(9, IDS[2]), outward(7, (7, 2))]
    )
    index.note_gap(40, 6)
    return index


def spans(columns: Columns, identity: bytes) -> list[tuple[int, int | None]]:
    return [columns.lines_of_id(at) for at in columns.holding_ids(identity)]


def test_where_ids_and_parcels_stand() -> None:
    index = grown()
    assert repr(index) == "<index of 3 places, 4 ids, 3 parcels>"
    columns = index.columns()
    assert spans(columns, IDS[0]) == [(100, 9_000), (18_000, None)]
    assert spans(columns, IDS[1]) == [(100, 9_000)] and spans(columns, IDS[2]) == [(18_000, None)]
    assert spans(columns, IDS[4]) == []
    assert columns.lines_of_parcels([7]) == [(100, 9_000), (18_000, None)]
    assert columns.lines_of_parcels([3]) == [(9_000, 18_000)] and columns.lines_of_parcels([3, 7, 8]) == [
        (100, 9_000), (9_000, 18_000), (18_000, None),
    ]  # fmt: skip
    assert list(columns.gaps) == [40, 6] and list(columns.unnamed) == [1, 2]


def test_values_share_a_place_until_their_lines_are_long_enough() -> None:
    """The index of the open segment is in memory: a place for each value of the store would be most of it."""
    index, values = Growing(), range(0, 1 << 20, 400)
    for number, offset in enumerate(values):
        index.note(offset, [accepted(number, number.to_bytes(8, "big") + bytes(24)), outward(number // 50, (1, 1))])
    columns = index.columns()
    steps = {after - before for before, after in pairwise(columns.places[0::3])}
    assert steps == {NOTED_BYTES + 400 - NOTED_BYTES % 400} and len(columns.ids) == 8 * len(values)
    assert len(columns.parcels) < 8 * (len(columns.places) / 3 + len(values) / 50 + 1)
    for number in (0, 1, 10, 11, len(values) - 1):
        [(start, stop)] = spans(columns, number.to_bytes(8, "big"))
        assert start <= values[number] and (stop is None or values[number] < stop)
        assert all(start <= 400 * 50 * (number // 50 + 1) for start, _ in columns.lines_of_parcels([number // 50]))


def test_what_is_said_of_an_invitation_is_found_by_its_id_in_what_is_noted_and_what_is_read_back() -> None:
    events = [
        RouterChange(1, 2, "invite", (("invitation", IDS[1]), ("change", "made"))),
        RouterChange(1, 2, "invite", (("times", 3),)),
    ]
    events.append(RouterChange(1, 2, "join", (("invitation", IDS[2]),)))
    noted, made = Growing(), Growing()
    noted.note(7, events)
    rows = event_rows(1, bytes(16), events, bytes(32))
    made.note_lines(7, rows)
    assert noted.columns() == made.columns() and spans(noted.columns(), IDS[1]) == [(7, None)]
    assert len(noted.columns().ids) == 8
    assert [ids_in(row) for row in rows] == [IDS[1].hex(), "", ""]


def test_bytes_that_look_like_an_id_across_two_are_none() -> None:
    index = Growing()
    one, two = b"aaaaXYZW" + bytes(24), b"ABCDbbbb" + bytes(24)
    index.note(0, [accepted(1, one, two)])
    assert spans(index.columns(), b"XYZWABCD") == [] and spans(index.columns(), two[:8]) == [(0, None)]


def test_what_is_noted_later_does_not_change_what_was_taken() -> None:
    index = grown()
    before = index.columns()
    index.note(30_000, [accepted(20, IDS[4])])
    assert spans(before, IDS[4]) == [] and spans(index.columns(), IDS[4]) == [(30_000, None)]


def test_what_was_written_is_read_and_fits_only_its_segment(tmp_path: Path) -> None:
    segment, digest = tmp_path / "events-0000000000000041.jsonl", "ab" * 32
    log_index.write(segment, 1234, digest, grown().columns())
    assert [path.name for path in tmp_path.iterdir()] == [".index-0000000000000041"]
    assert log_index.path_of(segment).stat().st_mode & 0o777 == 0o600
    assert log_index.read(segment, 1234, digest) == grown().columns()
    assert log_index.read(segment, 1235, digest) is None
    assert log_index.read(segment, 1234, "ac" * 32) is None
    data = log_index.path_of(segment).read_bytes()
    for at in range(0, len(data), 7):
        log_index.path_of(segment).write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        found = log_index.read(segment, 1234, digest)
        assert found is None or found[:4] == grown().columns()[:4]


@pytest.mark.parametrize(
    "odd", [{"ids": b"x" * 9}, {"parcels": b"x" * 9}, {"places": array("Q", (1, 2))}, {"places": array("Q")}]
)
def test_of_columns_that_are_none_another_index_is_made(tmp_path: Path, odd: dict[str, Any]) -> None:
    segment, digest = tmp_path / "events-0000000000000041.jsonl", "ab" * 32
    log_index.write(segment, 1234, digest, grown().columns()._replace(**odd))
    assert log_index.read(segment, 1234, digest) is None


def test_made_from_the_file_it_finds_the_same_lines(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(accepted(7, IDS[0], IDS[1]), outward(7, (7, 1))), 0)
    store.last += 3
    sealer.add(store.commit(outward(8, (8, 1)), accepted(9, IDS[2])), 0)
    sealer.add(store.commit(Turned(5, 6, "refused", PEER, 1, 5, IDS[3] + IDS[4], 9, None)), 0)
    sealer.seal()
    [one] = segments.kept()
    stored = log_index.read(one.path, one.size, one.footer.sha256 or "")
    made = log_index.make(one.path, one.size, one.footer)
    assert stored is not None and KEY.public.hex() == one.footer.router
    for field in ("ids", "gaps", "unnamed"):
        assert getattr(stored, field) == getattr(made, field)
    assert list(stored.unnamed) == [5, 7]
    assert sorted(memoryview(stored.parcels).cast("Q")) == sorted(memoryview(made.parcels).cast("Q")) == [7, 8]
    assert spans(made, IDS[2]) == [(0, None)] and len(spans(stored, IDS[2])) == 1
