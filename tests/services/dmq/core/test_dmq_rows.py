"""Rows on disk: written ones can be read again, also by the clocks of another start, and no other bytes can."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from random import Random

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import NOW, POOLS

from router.core.wire.codec import encode
from services.dmq.core import rows
from services.dmq.core.clients.cursor import BREAKS_MAX, REPLY_MESSAGES_MAX, SET_ASIDE_MAX, Cursor
from services.dmq.core.mempool import Mempool, MempoolLimits, Row
from services.dmq.core.messages.authentication import Moment, PoolRecord
from services.dmq.core.rows import BadRow, State

NUMBERS = st.integers(0, (1 << 64) - 1)
TIMES = st.floats(1e9, 1e10)
POOL_IDS = st.sampled_from([pool.id for pool in POOLS])
ROWS = st.builds(Row, NUMBERS, st.binary(max_size=64), POOL_IDS, st.integers(0, 4096), TIMES, TIMES)
LISTS = st.lists(NUMBERS, max_size=40)
CURSORS = st.builds(
    Cursor, NUMBERS, st.just(()), st.integers(1, REPLY_MESSAGES_MAX), st.integers(0, BREAKS_MAX - 1), LISTS, LISTS
)
STATES = st.builds(State, st.sampled_from(rows.ENCODINGS), st.integers(0, (1 << 32) - 1), NUMBERS)


@given(ROWS)
def test_a_live_message_is_the_same_again(row: Row) -> None:
    """The times of a message are the same to the last bit: an expiry that moved by one would be judged otherwise."""
    assert rows.read_row(row.number, rows.encode_row(row)) == row


@given(CURSORS, STATES)
def test_cursors_and_state_are_the_same_again(cursor: Cursor, state: State) -> None:
    assert rows.read_cursor(rows.encode_cursor(cursor), rows.encode_aside(cursor)) == cursor
    assert rows.read_state(rows.encode_state(state)) == state


@given(st.lists(NUMBERS))
def test_keys_sort_as_numbers_do(numbers: list[int]) -> None:
    assert [rows.number_of(key) for key in sorted(map(rows.key_of, numbers))] == sorted(numbers)


@given(st.floats(0, 1e6), st.floats(-1e5, 1e6), st.floats(0, 1e6))
def test_the_rate_clock_goes_on_over_a_restart(ago_s: float, down_s: float, boot_s: float) -> None:
    """The time since the last message is by the wall clock; the clock that never steps began anew. If the wall clock
    was set back, the time is not in the future."""
    row = rows.encode_record(PoolRecord(7, NOW.mono_s - ago_s), NOW)
    later = Moment(NOW.wall_s + down_s, boot_s)
    read = rows.read_record(row, later)
    assert read.issue_number == 7
    assert later.mono_s - read.taken_mono_s == pytest.approx(max(0.0, ago_s + down_s), abs=1e-5)


def test_a_mempool_and_a_cursor_go_on_from_their_rows() -> None:
    limits = MempoolLimits()
    before = Mempool(limits)
    before.restore((Row(n, bytes((n,)) * 32, POOLS[n % 3].id, 1088, NOW.wall_s + n, NOW.wall_s) for n in (1, 2, 5)), 8)
    kept = {rows.key_of(row.number): rows.encode_row(row) for row in before.after(0)}
    cursor = Cursor(most=1)
    cursor.reply(before)
    cursor.requested()
    cursor.reply(before)
    told = rows.encode_cursor(cursor)
    after = Mempool(limits)
    after.restore((rows.read_row(rows.number_of(key), row) for key, row in sorted(kept.items())), before.last)
    assert list(after.after(0)) == list(before.after(0)) and after.last == 8
    assert (after.bytes, after.expires_next()) == (before.bytes, before.expires_next())
    assert rows.read_cursor(told, None).reply(after)[0].number == 2, "what was offered, and not acknowledged"


ROW = rows.encode_row(Row(3, bytes(32), POOLS[0].id, 1088, NOW.wall_s, NOW.wall_s))


@pytest.mark.parametrize("row", [ROW[:-1], ROW + b"\x00", b"\x9f" + ROW[1:] + b"\xff", b"\x98\x05" + ROW[1:], b""])
def test_a_row_that_is_not_as_written_is_refused_with_a_remedy(row: bytes) -> None:
    with pytest.raises(BadRow, match=r"^the row of message 3 .*; put a backup .* or move it away"):
        rows.read_row(3, row)


def test_another_version_is_named() -> None:
    with pytest.raises(BadRow, match="version 2 of the DMQ node's store, and this program knows version 1; start"):
        rows.read_state(encode([2, {"of": "another shape"}]))
    with pytest.raises(BadRow, match="the key of a message has 7 bytes"):
        rows.number_of(bytes(7))


def test_no_list_is_longer_than_a_node_keeps() -> None:
    longest = list(range(SET_ASIDE_MAX))
    cursor = Cursor(set_aside=longest, again=longest)
    assert rows.read_cursor(rows.encode_cursor(cursor), rows.encode_aside(cursor)) == cursor
    assert not cursor.give_again(0), "as many as may wait do"
    with pytest.raises(BadRow, match="holds more than 1000 items"):
        rows.read_cursor(rows.encode_cursor(cursor), encode([*longest, 1000]))


def test_a_row_is_written_in_its_shortest_form() -> None:
    for id_bytes, size, ns in product((31, 32, 33), (255, 256), ((1 << 32) - 1, 1 << 32)):
        row = [bytes(id_bytes), bytes(POOLS[0].id), size, ns, ns]
        written = rows.encode_row(Row(1, bytes(id_bytes), POOLS[0].id, size, ns / 1e9, ns / 1e9))
        assert written == cbor2.dumps(row, canonical=True)


def test_times_are_whole_nanoseconds_exactly() -> None:
    chance = Random(16)
    times = [0.0, 1.5, 2.0**30, 2.0**31 - 2.0**-22, *(chance.uniform(2.0**29, 2.0**33) for _ in range(1000))]
    for wall_s in times:
        row = cbor2.loads(rows.encode_row(Row(1, b"", POOLS[0].id, 90, wall_s, wall_s)))
        assert row[3] == row[4] == math.floor(Fraction(wall_s) * 10**9 + Fraction(1, 2))
