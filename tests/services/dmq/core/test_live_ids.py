"""The index of ids against a dictionary, with ids that share a place, and numbers that go."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from services.dmq.core.id_index import PLACES_MIN, IdIndex


def test_it_finds_what_a_dictionary_finds() -> None:
    chance, ids = Random(16), dict[int, bytes]()
    index, plain = IdIndex(lambda number: ids[number]), defaultdict[bytes, list[int]](list)
    for number in range(1, 3000):
        own_id = chance.randbytes(1) if number % 3 else chance.randbytes(32)
        ids[number] = own_id
        index.add(own_id, number)
        plain[own_id].append(number)
        if number % 2:
            gone = chance.choice(list(ids))
            index.remove(ids[gone], gone)
            plain[ids.pop(gone)].remove(gone)
    assert len(ids) == 1499 and repr(index) == "<index of 1499 ids in 4096 places>"
    assert {own_id: sorted(index.numbers(own_id)) for own_id in plain} == plain
    assert index.numbers(b"another") == []


def test_its_table_stays_small_while_messages_come_and_go() -> None:
    index = IdIndex(lambda number: b"%d" % number)
    for number in range(1, 1000):
        index.add(b"%d" % number, number)
        if number > 5:
            index.remove(b"%d" % (number - 5), number - 5)
    assert repr(index) == f"<index of 5 ids in {PLACES_MIN} places>"
