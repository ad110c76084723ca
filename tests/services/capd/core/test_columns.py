"""Columns, their index of prefixes, and the order of the weakest, against lists that are searched row by row."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from samples.capd import BORN

from services.capd.core import prefix_index
from services.capd.core.columns import NEVER_S, Columns, Row
from services.capd.core.pattern import Pattern
from services.capd.core.priority import aged

Held = dict[int, tuple[Row, bytes]]


def data_of(chance: Random) -> bytes:
    """Return data whose first bytes are often equal, zero, or 255."""
    return bytes(chance.choice((0, 0, 1, 254, 255)) for _ in range(chance.choice((0, 1, 2, 5, 16, 16, 16, 40))))


def pattern_of(chance: Random) -> Pattern:
    size = chance.randrange(17)
    if chance.random() < 0.5:
        return Pattern.prefix(data_of(chance)[:size])
    value = bytes(chance.choice((0, 1, 255)) for _ in range(size))
    return Pattern.of(value, bytes(chance.choice((0, 1, 255, 255, 255)) for _ in range(size)))


def found(columns: Columns, pattern: Pattern) -> list[int]:
    return [int(number) for number in columns.numbers[columns.find(pattern, None)]]


def check(columns: Columns, held: Held, chance: Random, now_s: int) -> None:
    assert len(columns) == len(held)
    for _ in range(12):
        pattern = pattern_of(chance)
        assert found(columns, pattern) == [number for number, (_, data) in held.items() if pattern.matches(data)]
    priorities = {number: aged(row.initial, row.create_time, now_s) for number, (row, _) in held.items()}
    columns_say = columns.priorities(now_s)
    assert {int(columns.numbers[place]): columns_say[place] for place in columns.live()} == priorities

    def rank(row: Row) -> tuple[float, ...]:
        age = now_s - row.create_time
        return (
            (0, -age, row.initial, row.number) if age >= 600 else (1, priorities[row.number], row.initial, row.number)
        )

    order = sorted((row for row, _ in held.values()), key=rank)
    for count in (1, len(held) // 3, len(held), len(held) + 5):
        assert [one[2] for one in columns.weakest(count, now_s)] == [row.number for row in order[:count]]
    if held:
        by_height = sorted(priorities.values())
        assert columns.middle_and_highest(now_s) == (by_height[len(by_height) // 2], by_height[-1])
    after = chance.randrange(max(held, default=0) + 2)
    rest = [number for number in held if number > after][:5]
    assert [int(columns.numbers[place]) for place in columns.after(after, 5)] == rest


@pytest.mark.parametrize("seed", range(3))
def test_columns_equal_plain_lists_while_rows_come_and_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_index, "UNMERGED_MIN", 50)
    chance, columns, held = Random(seed), Columns(), Held()
    number = 0
    for _ in range(8):
        for _ in range(chance.randrange(900)):
            number += chance.randrange(1, 4)
            initial = chance.choice((2.0, 2.0, 2.5, 7.0 * chance.random() + 1))
            created = BORN + chance.choice((0, 1, 300, chance.randrange(700)))
            data = data_of(chance)
            row = Row(number, chance.randbytes(32), initial, created, 128 + len(data), NEVER_S)
            columns.add(row, data)
            held[number] = row, data
            if chance.random() < 0.4:
                place = columns.place(gone := chance.choice(list(held)))
                assert place is not None and columns.row(place) == held.pop(gone)[0]
                columns.remove(place)
                assert columns.place(gone) is None
        check(columns, held, chance, BORN + chance.choice((-50, 0, 350, 699, 5000)))


def test_columns_rank_equal_rows_by_their_numbers() -> None:
    columns = Columns()
    for number in range(1, 2000):
        columns.add(Row(number, bytes(32), 2.0, BORN, 128, NEVER_S), b"")
    assert [one[2] for one in columns.weakest(700, BORN)] == list(range(1, 701))
    assert len(columns.find(Pattern.prefix(b""), BORN)) == 1999 and len(columns.find(Pattern.prefix(b"\0"), BORN)) == 0


def test_columns_grow_by_little_and_not_at_all_in_a_full_pool() -> None:
    columns, sizes = Columns(), []
    for number in range(1, 25_000):
        columns.add(Row(number, bytes(32), 2.0, BORN, 128, NEVER_S), b"")
        sizes.append(len(columns.numbers))
        if (place := columns.place(max(0, number - 9_000))) is not None:
            columns.remove(place)
    grown = [after / before for before, after in pairwise(sizes) if after > before > 8_192]
    assert len(columns) == 9_000 and max(grown) < 1.13 and sizes[-1] < 1.3 * 9_000
    assert columns.numbers[columns.live()].tolist() == list(range(16_000, 25_000))
