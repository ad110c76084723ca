"""What is free in the heap goes back to the system."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from router.actors import heap

BLOCK_BYTES, BLOCKS = 64 << 10, 256
"""Blocks that lie on the heap, below the least size that the C library maps alone."""


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs malloc_trim(3) and /proc")
async def test_free_memory_between_used_blocks_goes_back_from_time_to_time(autojump_clock: MockClock) -> None:
    blocks, pins = list[bytes](), list[bytes]()
    for at in range(BLOCKS):
        blocks.append(at.to_bytes(2, "big") * (BLOCK_BYTES // 2))
        pins.append(at.to_bytes(2, "big") * (BLOCK_BYTES // 8))
    blocks.clear()
    full = anonymous_bytes()
    with trio.move_on_after(1.5 * heap.GIVE_BACK_S):
        await heap.keep_giving_back()
    assert full - anonymous_bytes() > BLOCKS * BLOCK_BYTES // 2
    assert len(pins) == BLOCKS


@pytest.mark.skipif(sys.platform != "linux", reason="needs malloc_trim(3)")
def test_giving_back_leaves_nothing_for_the_collector() -> None:
    heap.give_back()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            heap.give_back()
        assert len(gc.get_objects()) - before < 10
    finally:
        gc.enable()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="which free objects Python keeps is counted for 3.11")
def test_free_tuples_go_back_as_well() -> None:
    """Each tuple made of an iterator leaves one more in the list of its length, which is never taken from there."""
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(1000):
        tuple(number for number in range(17))
    assert sys.getallocatedblocks() - before > 900
    assert heap.Collecting().collect_if_due()
    assert sys.getallocatedblocks() - before < 100


def test_collecting_takes_a_part_of_the_time() -> None:
    each_time, once = heap.Collecting(0), heap.Collecting(1e12)
    assert [each_time.collect_if_due() for _ in range(3)] == [True, True, True]
    assert [once.collect_if_due() for _ in range(3)] == [True, False, False]


def test_another_c_library_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "another")
    heap.give_back()


def test_a_process_that_stands_still_for_long_while_it_collects_does_so_seldom() -> None:
    assert heap.pause_s(0.01) <= heap.GIVE_BACK_S
    assert heap.pause_s(0.3) > 6 * 3600
