"""The work of messages: nonces in the reference's order, the priority for a life, and processes that agree with one."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import trio
from samples.capd import BORN

from services.capd import solver
from services.capd.core import solving
from services.capd.core.message import read_message
from services.capd.core.priority import LIFE_S, last_second
from services.capd.core.solving import Draft, Unsolvable, nonces, tried

VECTORS = Path(__file__).parents[3] / "vectors" / "capd"
LATE, NONCE = 0, "e3e303"
WIRES = [
    bytes.fromhex(one["wire"]) for one in json.loads((VECTORS / "pool_trace.json").read_text())["pool_trace"]["steps"]
]


def test_nonces_are_counted_up_in_each_width() -> None:
    assert list(nonces(0, 3)) == [b"\0", b"\1", b"\2"]
    assert list(nonces(254, 4)) == [b"\xfe", b"\xff", b"\0\0", b"\1\0"]
    assert list(nonces(256 + 65_535, 2)) == [b"\xff\xff", b"\0\0\0"]
    assert list(islice(nonces(256 + (1 << 16) + (1 << 24), 1 << 40), 1)) == [bytes(4)]


def test_tried_finds_the_first_nonce_in_order() -> None:
    for wire in WIRES[:12]:
        message = read_message(wire)
        nonce = tried(message.stage1(), message.difficulty_bits, 0)
        assert nonce is not None
        found = Draft(message.data, message.create_time, message.difficulty_bits).solved(nonce)
        assert found.has_work() and (len(nonce), nonce[::-1]) <= (len(message.nonce), message.nonce[::-1])


@pytest.mark.parametrize("life_s", (1, 60, 300, 594, 595, 598, 599))
def test_priority_for_a_life_keeps_a_message_above_the_line_as_long(life_s: int) -> None:
    priority = solving.priority_for(life_s)
    bits = solving.bits_of_priority(priority, 50, solving.HARDER_MAX)
    born = solving.born_at(BORN, life_s)
    initial = Draft(b"a" * 50, born, bits).solved(b"").initial_priority
    assert BORN + life_s <= last_second(initial, born, 2.0) <= BORN + life_s + 3
    assert BORN - 5 <= born <= BORN


@pytest.mark.parametrize("life_s", (600, 601, 10_000))
def test_priority_for_ten_minutes_is_unsolvable(life_s: int) -> None:
    with pytest.raises(Unsolvable, match=f"for {life_s} s: at {LIFE_S} s the priority"):
        solving.priority_for(life_s)


def test_solve_refuses_bits_that_cannot_be_met() -> None:
    with pytest.raises(Unsolvable, match="the target is 0"):
        trio.run(solver.solve, Draft(b"", BORN, 0), 1)
    with pytest.raises(Unsolvable, match="out of range"):
        solving.bits_of_priority(0.5, 10)


def test_solve_with_processes_finds_the_first_nonce() -> None:
    """The first nonce lies just beyond those that are tried at once."""
    draft = Draft(b"%d" % LATE, BORN, 0x1E7FFFFF)
    heard: list[int] = []
    found = trio.run(solver.solve, draft, 2, heard.append)
    assert found.has_work() and found == draft.solved(found.nonce) and heard == sorted(heard)
    assert found.nonce.hex() == NONCE and min(heard) == solver.AT_ONCE + solving.PART


async def test_solve_can_be_cancelled() -> None:
    heard = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(solver.solve, Draft(b"hard", BORN, 0x1900FFFF), 1, lambda tried: heard.set())
            await heard.wait()
            scope.cancel()
    assert scope.cancelled_caught


def test_expected_s_is_short_for_quick_work_and_long_for_slow() -> None:
    quick, slow = solver.expected_s(0x1F3FFFFF, 1), solver.expected_s(0x1D00FFFF, 1)
    assert 0 < quick < 1 < 1000 < slow
    assert solving.attempts_for(0x1D00FFFF) == pytest.approx(1 << 32, rel=1e-4)
