"""A queue goes to another key in one transaction, with what that transaction brings and ends."""

from __future__ import annotations

from pathlib import Path
from random import Random

from rigs.plain_store import Disk, PlainStore
from samples.stores import (
    BOOT,
    KEYS,
    LIMITS,
    WALL_S,
    apply,
    batch,
    defer,
    due_shape,
    opened,
    owed_shape,
    recovered_shape,
)

ALL = 1 << 30


def test_queues_that_move_are_the_same_in_both_stores_and_after_a_restart(tmp_path: Path) -> None:
    random, store, plain = Random(3), opened(tmp_path), PlainStore(Disk(), LIMITS, BOOT)
    plain.recover(KEYS[0])
    recipients, moved = list(KEYS), 0
    for number in range(60):
        wall_s = WALL_S + 2 * number
        changes = batch(random, plain, wall_s).changes
        if number % 4 == 3:
            old, new = random.choice(recipients), bytes((100 + number,)) * 32
            changes.finished = [
                one._replace(recipient=new) if one.recipient == old else one for one in changes.finished
            ]
            changes.moved.append((old, new))
            recipients.append(new)
            moved += any(whom == old for whom, _ in plain.disk.owed)
        due = plain.due(wall_s)
        assert due_shape(store.due(wall_s)) == due_shape(due)
        defer(random, changes, due, wall_s)
        released = plain.apply(changes, wall_s).released
        plain.commit()
        assert sorted(apply(store, changes, wall_s)[0]) == sorted(released)
        for one in recipients:
            assert owed_shape(store.fetch(one, 0, ALL, ALL)) == owed_shape(plain.fetch(one, 0, ALL, ALL))
    assert moved > 5
    store.close()
    again = opened(tmp_path)
    assert recovered_shape(again.recover(KEYS[0])) == recovered_shape(plain.recover(KEYS[0]))


def test_a_transaction_that_is_not_committed_moves_nothing(tmp_path: Path) -> None:
    random, store, plain = Random(4), opened(tmp_path), PlainStore(Disk(), LIMITS, BOOT)
    plain.recover(KEYS[0])
    old = b""
    while not old:
        changes = batch(random, plain, WALL_S).changes
        plain.apply(changes, WALL_S)
        plain.commit()
        apply(store, changes)
        old = next((whom for whom, _ in plain.disk.owed), b"")
    before = owed_shape(store.fetch(old, 0, ALL, ALL))
    changes = batch(random, plain, WALL_S).changes
    changes.finished.clear()
    changes.parcels.clear()
    changes.moved.append((old, bytes((99,)) * 32))
    store.apply(changes, WALL_S)
    store.close()  # as a crash does: the transaction is not committed
    again = opened(tmp_path)
    assert owed_shape(again.fetch(old, 0, ALL, ALL)) == before
    assert again.fetch(bytes((99,)) * 32, 0, ALL, ALL) == ([], False)
