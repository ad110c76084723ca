"""Late ids of the duplicate index, compared with a dictionary."""

from __future__ import annotations

from random import Random

import pytest

from router.disk.store.late_ids import FLOORS, KEY_BYTES, LateIds, Row

DRAW = Random(3)


def a_row(minute: int, holder: bytes = b"") -> Row:
    """Return a row on one of two floors, so that a floor has many."""
    id = bytes((DRAW.choice((7, 250)),)) + DRAW.randbytes(31)
    return minute.to_bytes(4, "big") + id, DRAW.randbytes(8) + holder


def all_rows(late: LateIds) -> list[Row]:
    return [row for floor in range(FLOORS) for row in late.rows(floor)]


@pytest.mark.parametrize("holder", [b"", bytes(8), b"neighbou"])
def test_late_ids_are_those_that_were_added_and_not_dropped(holder: bytes) -> None:
    late, model = LateIds(), dict[bytes, bytes]()
    for _ in range(40):
        rows = [a_row(DRAW.randrange(5), holder) for _ in range(DRAW.randrange(6))]
        late.add(rows)
        model.update(rows)
        gone = DRAW.sample(sorted(model), min(len(model), DRAW.randrange(4)))
        late.drop([*gone, a_row(9)[0]])
        for key in gone:
            del model[key]
        assert dict(all_rows(late)) == model and len(late) == len(model)
        assert all(key in late for key in model) and not any(key in late for key in gone)
    assert [late.count(floor) for floor in (7, 250)] == [sum(key[4] == floor for key in model) for floor in (7, 250)]


def test_late_ids_that_expired_are_found_by_their_minute() -> None:
    late = LateIds()
    rows = [a_row(minute) for minute in (256, 3, 70_000, 3, 255)]
    late.add(rows)
    bound = (256).to_bytes(4, "big")
    old = {row for row in rows if row[0] < bound}
    assert set(late.before(bound, 9, ())) == old and len(old) == 3
    assert set(late.before(bound, 9, (7,))) == {row for row in old if row[0][4] != 7}
    assert len(late.before(bound, 2, ())) == 2
    assert late.has_before(bound) and not late.has_before((3).to_bytes(4, "big"))
    assert late.minutes(7) | late.minutes(250) == {key[:4] for key, _ in rows}


def test_an_emptied_floor_has_no_ids() -> None:
    late = LateIds()
    late.add([a_row(1), a_row(1)])
    late.clear(7)
    late.clear(250)
    assert len(late) == 0 and all_rows(late) == [] and KEY_BYTES == 36
