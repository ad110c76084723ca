"""Cursors: the content of a reply, its acknowledgement, breaking off, and one message that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from samples.dmq import NOW, POOLS

from services.dmq.core.clients import cursor as c
from services.dmq.core.clients.cursor import REPLY_BYTES_MAX, Cursor
from services.dmq.core.mempool import Mempool, MempoolLimits, Row


def mempool(count: int, size: int = 1088) -> Mempool:
    of = Mempool(MempoolLimits(pause_s=0))
    rows = (Row(n, n.to_bytes(32, "big"), POOLS[0].id, size, NOW.wall_s + 900, NOW.wall_s) for n in range(1, count + 1))
    of.restore(rows, 0)
    return of


def numbers(rows: Sequence[Row]) -> list[int]:
    return [row.number for row in rows]


def test_each_request_acknowledges_the_last_reply() -> None:
    of, cursor = mempool(250), Cursor()
    got: list[int] = []
    while cursor.requested() or not got or cursor.lag(of):
        got += numbers(cursor.reply(of))
    assert got == list(range(1, 251))
    assert (cursor.lag(of), cursor.reply(of), repr(cursor)) == (0, (), "<Cursor at 250, 0 offered, 0 set aside>")


def test_a_reply_is_bounded_and_never_empty_while_something_waits() -> None:
    assert len(Cursor().reply(mempool(250))) == 100
    by_bytes = Cursor().reply(mempool(250, 4000))
    assert len(by_bytes) == REPLY_BYTES_MAX // 4000
    assert len(Cursor().reply(mempool(3, REPLY_BYTES_MAX + 1))) == 1


def test_a_node_that_dies_offers_the_same_again() -> None:
    """The kept cursor is that before the next request; no consumer broke off."""
    of, cursor = mempool(30), Cursor()
    first = numbers(cursor.reply(of))
    after_a_crash = Cursor(cursor.last, (), cursor.most, cursor.breaks)
    assert numbers(after_a_crash.reply(of)) == first


def consume(cursor: Cursor, of: Mempool, unreadable: set[int]) -> tuple[list[int], list[int], int]:
    """Play a consumer that drops a whole reply and its connection because of one message; return the messages read, and
    those set aside."""
    read: list[int] = []
    aside: list[int] = []
    replies = 0
    while rows := numbers(cursor.reply(of)):
        replies += 1
        if unreadable & set(rows):
            number = cursor.broke_off()
            aside += [] if number is None else [number]
            assert cursor.requested() == (), "over a new connection, which acknowledges nothing"
        else:
            read += rows
            assert list(cursor.requested()) == rows
    return read, aside, replies


@pytest.mark.parametrize("unreadable", ({1}, {50}, {100}, {1, 2, 3}, {7, 64}, set()))
def test_one_message_that_cannot_be_read_does_not_hold_up_the_others(unreadable: set[int]) -> None:
    cursor = Cursor()
    read, aside, replies = consume(cursor, mempool(100), unreadable)
    assert read == [number for number in range(1, 101) if number not in unreadable]
    assert aside == sorted(unreadable) == cursor.set_aside
    assert replies <= 1 + 25 * len(unreadable)


def test_replies_grow_again_after_a_break() -> None:
    of, cursor = mempool(1000), Cursor()
    cursor.reply(of)
    cursor.broke_off()
    sizes = [len(cursor.reply(of)) for _ in range(4) if cursor.requested() is not None]
    assert sizes == [50, 100, 100, 100]


def test_what_is_set_aside_can_be_given_again() -> None:
    of, cursor = mempool(10), Cursor()
    consume(cursor, of, {4, 5})
    assert cursor.set_aside == [4, 5] and not cursor.give_again(3)
    assert cursor.give_again(5) and cursor.lag(of) == 1
    assert numbers(cursor.reply(of)) == [5]
    assert cursor.requested() == (5,) and cursor.last == 10 and cursor.reply(of) == ()
    assert cursor.give_again(4)
    assert consume(cursor, of, {4}) == ([], [4], 3), "it is set aside once more"
    cursor.forget([4])
    assert (cursor.set_aside, cursor.again, cursor.give_again(4)) == ([], [], False)


def test_what_is_set_aside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c, "SET_ASIDE_MAX", 2)
    cursor = Cursor()
    consume(cursor, mempool(10), {2, 4, 6})
    assert cursor.set_aside == [4, 6]


def test_a_break_before_any_reply_means_nothing() -> None:
    cursor = Cursor()
    assert [cursor.broke_off() for _ in range(5)] == [None] * 5
    assert cursor == Cursor()


def test_three_breaks_must_follow_each_other() -> None:
    of, cursor = mempool(1), Cursor()
    for _ in range(2):
        cursor.reply(of)
        assert cursor.broke_off() is None
    cursor.reply(of)
    assert cursor.requested() == (1,) and cursor.breaks == 0
