"""Which pages of a file are free is what LMDB itself leaves out; what is read of a damaged file is an error."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import lmdb
import pytest

from router.disk.room import DATA
from router.disk.snapshot.lmdb_pages import FileHead, PagesCheck, PagesFault, free_pages, read_head

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))]


def churned(folder: Path, seed: int) -> None:
    """Make a database of several tables whose rows come and go, with values of up to ten pages."""
    random = Random(seed)
    with lmdb.open(str(folder), map_size=256 << 20, max_dbs=4, sync=False) as environment:
        tables = [environment.open_db(name) for name in (b"one", b"two", b"three")]
        for _ in range(random.randrange(3, 30)):
            with environment.begin(write=True) as txn:
                for _ in range(random.randrange(1, 200)):
                    key, table = random.randbytes(2), random.choice(tables)
                    if random.random() < 0.5:
                        txn.put(key, bytes(random.choice((1, 20, 900, 5_000, 40_000))), db=table)
                    else:
                        txn.delete(key, db=table)
                if random.random() < 0.1:
                    txn.drop(random.choice(tables), delete=False)


def read(folder: Path) -> tuple[bytearray, FileHead]:
    data = bytearray((folder / DATA).read_bytes())
    with lmdb.open(str(folder), readonly=True) as environment:
        size = environment.stat()["psize"]
    heads = [read_head(bytes(data[at : at + size])) for at in (0, size)]
    head = max(heads, key=lambda one: one.transaction)
    data.extend(bytes(max(0, (head.last + 1) * size - len(data))))
    return data[: (head.last + 1) * size], head


def free_of(data: bytearray, head: FileHead) -> bytearray:
    size = head.page_bytes
    return free_pages(head, lambda first, count: bytes(data[first * size : (first + count) * size]))


def contents(folder: Path) -> list[list[tuple[bytes, bytes]]]:
    with lmdb.open(str(folder), readonly=True, max_dbs=4) as environment, environment.begin() as txn:
        tables = [environment.open_db(name, txn, create=False) for name in (b"one", b"two", b"three")]
        return [[*txn.cursor(table)] for table in tables]


@pytest.mark.parametrize("seed", SEEDS)
def test_free_pages_are_those_that_lmdb_leaves_out_and_nobody_misses(seed: int, tmp_path: Path) -> None:
    churned(tmp_path, seed)
    data, head = read(tmp_path)
    free = free_of(data, head)
    with lmdb.open(str(tmp_path), readonly=True) as environment, (tmp_path / "copy").open("wb") as copy:
        environment.copyfd(copy.fileno(), compact=True)
        assert head.transaction == environment.info()["last_txnid"]
    used = len(free) - free.count(1)
    # LMDB's list of free pages is a tree of its own, of which a compact copy has none
    assert 0 <= used - (tmp_path / "copy").stat().st_size // head.page_bytes <= 2 + len(free) // 50
    check, step = PagesCheck(head, free), 7 * head.page_bytes
    (tmp_path / "cleared").mkdir()
    with (tmp_path / "cleared" / DATA).open("wb") as file:
        file.write(data[: 2 * head.page_bytes])
        for at in range(2 * head.page_bytes, len(data), step):
            block = data[at : at + step]
            check.look(at // head.page_bytes, block)
            file.write(block)
    assert contents(tmp_path / "cleared") == contents(tmp_path)
    with lmdb.open(str(tmp_path / "cleared"), map_size=256 << 20, max_dbs=4) as environment:
        table = environment.open_db(b"one")
        for _ in range(3):  # free pages are used again
            with environment.begin(write=True, db=table) as txn:
                txn.put(b"new", bytes(100_000))
    changed = contents(tmp_path / "cleared")
    assert changed[1:] == contents(tmp_path)[1:] and (b"new", bytes(100_000)) in changed[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_bytes_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    churned(tmp_path, seed)
    data, head = read(tmp_path)
    random = Random(seed)
    for _ in range(20):
        harmed = bytearray(data)
        for _ in range(random.randrange(1, 40)):
            at = head.free_root * head.page_bytes + random.randrange(64) if random.random() < 0.5 else 0
            harmed[at or random.randrange(len(data))] ^= 1 << random.randrange(8)
        try:
            found = read_head(bytes(harmed[: head.page_bytes]))
            free = free_of(harmed, head)
            PagesCheck(head, free).look(2, harmed[2 * head.page_bytes :])
        except PagesFault:
            continue
        assert found.page_bytes and len(free) == head.last + 1


def test_a_page_that_is_in_use_and_was_exchanged_is_noticed(tmp_path: Path) -> None:
    churned(tmp_path, 3)
    data, head = read(tmp_path)
    free, size = free_of(data, head), head.page_bytes
    number = free_root = head.free_root
    while number == free_root or free[number]:
        number = 2 + Random(number).randrange(head.last - 1)
    data[free_root * size : (free_root + 1) * size] = os.urandom(size)
    with pytest.raises(PagesFault, match=f"page {free_root} is damaged"):
        PagesCheck(head, free).look(2, data[2 * size :])
