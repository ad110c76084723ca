"""A store that cannot be used is reported in a sentence: another router's, another format's, damaged, cut short."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import cbor2
import lmdb
import pytest
from rigs.small_disk import on_a_small_disk
from samples.stores import KEYS, WALL_S, apply, opened, parcel

from router.core.routing.effects import Changes
from router.core.wire.text import key_text
from router.disk.room import DATA, FREE_BYTES_MIN
from router.disk.store.file import check_format, owner, unusable
from router.disk.store.rows import VERSION
from router.disk.store.terms import StoreError

TESTS = Path(__file__).parents[3]


def test_another_routers_store_is_refused(tmp_path: Path) -> None:
    assert owner(tmp_path) is None
    opened(tmp_path).close()
    mine, other = (key_text("addr", key) for key in KEYS[:2])
    assert owner(tmp_path) == KEYS[0]
    with pytest.raises(StoreError, match=f"belongs to the router {mine}, this node is {other}: restore"):
        opened(tmp_path, owner=KEYS[1])


@pytest.mark.parametrize("meta", [[VERSION + 1, KEYS[0]], [VERSION + 1, KEYS[0], b"", "more"], [0, KEYS[0], b""]])
def test_another_format_is_refused(meta: list[object], tmp_path: Path) -> None:
    opened(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=20, lock=False) as env, env.begin(write=True, db=env.open_db(b"meta")) as txn:
        txn.put(b"store", cbor2.dumps(meta))
    text = f"the store in {tmp_path} has format {meta[0]}, this program reads format {VERSION}: .*store/ and log/ away"
    with pytest.raises(StoreError, match=text):
        opened(tmp_path)


def test_a_newer_store_with_other_tables_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=1, lock=False) as env, env.begin(write=True, db=env.open_db(b"meta")) as txn:
        txn.put(b"store", cbor2.dumps([VERSION + 1, KEYS[0], b""]))
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(StoreError, match=f"has format {VERSION + 1}, this program reads format {VERSION}: run the "):
        opened(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_the_format_of_a_store_that_a_newer_node_has_open_is_told_and_the_file_left_to_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    program = (
        "import cbor2, lmdb, sys\n"
        "env = lmdb.open(sys.argv[1], max_dbs=20)\n"
        "with env.begin(write=True, db=env.open_db(b'meta')) as txn:\n"
        "    txn.put(b'store', cbor2.dumps([int(sys.argv[2]), b'', b'']))\n"
        "print(flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(VERSION + 1)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None and node.stdout.readline()
        before = (tmp_path / DATA).read_bytes()
        with pytest.raises(
            StoreError, match=f"has format {VERSION + 1}, this program reads format {VERSION}: run the "
        ):
            check_format(tmp_path, is_open=True)
        assert (tmp_path / DATA).read_bytes() == before
        assert node.stdin is not None
        node.stdin.close()
    check_format(tmp_path / "none", is_open=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [b"not a store" * 2000, bytes(40_000), b"\xff" * 100])
def test_a_damaged_file_is_refused_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "data.mdb").write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot be opened: it is damaged .*move store/ and log/ away together"):
        opened(tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_pages_that_are_lost_or_changed_are_an_error_not_a_crash(seed: int, tmp_path: Path) -> None:
    """The error comes at the start, or when the pages are read. Reading beyond the end of a short file would end the
    process with a bus error."""
    store, random, first = opened(tmp_path), Random(seed), 1
    for _ in range(20):
        apply(store, Changes(parcels=[parcel(random, first, WALL_S)]))
        first += 9
    store.close()
    data = tmp_path / "data.mdb"
    pages = [data.read_bytes()[at : at + 4096] for at in range(0, data.stat().st_size, 4096)]
    if seed % 2:
        pages = pages[: random.randrange(2, len(pages) - 2)]
    else:
        for number in random.sample(range(2, len(pages)), len(pages) // 2):
            pages[number] = random.randbytes(4096)
    data.write_bytes(b"".join(pages))
    assert is_noticed(tmp_path)


def test_whose_a_store_is_that_was_cut_short_cannot_be_told(tmp_path: Path) -> None:
    """Asking does not end the process with a bus error either."""
    store = opened(tmp_path)
    for number in range(20):
        apply(store, Changes(parcels=[parcel(Random(number), 1 + 9 * number, WALL_S)]))
    store.close()
    os.truncate(tmp_path / DATA, 2 * 4096)
    script = "import pathlib, sys; from router.disk.store.file import owner; owner(pathlib.Path(sys.argv[1]))"
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "cannot be opened: it is damaged" in ran.stderr


def test_a_file_may_be_shorter_than_the_pages_that_were_ever_used(tmp_path: Path) -> None:
    """Pages at the end that one transaction wrote and deleted again are not in the file: such a store is good."""
    opened(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=20, lock=False) as env:
        log = env.open_db(b"log")
        for put, deleted in ((range(20), range(0)), (range(0), range(5)), (range(20, 60), range(30, 60))):
            with env.begin(write=True, db=log) as txn:
                for number in put:
                    txn.put(number.to_bytes(8, "big"), bytes(9000))
                for number in deleted:
                    txn.delete(number.to_bytes(8, "big"))
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    assert (tmp_path / DATA).stat().st_size < needed
    assert owner(tmp_path) == KEYS[0]
    opened(tmp_path).close()


def is_noticed(path: Path) -> bool:
    try:
        store = opened(path)
        with closing(store):
            for key in KEYS:
                store.fetch(key, 0, 1 << 40, 1 << 40)
            return bool(store.take_damaged())
    except StoreError as error:
        return "it is damaged" in str(error) and "move store/ and log/ away together" in str(error)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(StoreError, match=r"store cannot be opened"):
        opened(tmp_path / "store")


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / DATA)
    with pytest.raises(StoreError, match=rf"its {DATA} is no regular file.*see to its disk"):
        opened(tmp_path)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    opened(tmp_path / "store").close()
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "store" / "data.mdb").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("free", "said"), [(FREE_BYTES_MIN - 1, "its disk is full"), (FREE_BYTES_MIN, "its file fails")]
)
def test_a_write_cut_short_by_a_full_disk_is_not_called_a_failing_disk(
    free: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, (1 << 30) - free, free))
    text = str(unusable(tmp_path, "failed", lmdb.Error("mdb_txn_commit: Input/output error")))
    assert said in text and ("move store/" in text) == (said != "its disk is full")


def test_a_time_that_does_not_fit_is_a_wrong_clock_not_a_damaged_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with closing(store), pytest.raises(StoreError, match=r"set this machine's clock, which is wrong, and start again"):
        apply(store, Changes(away=[(KEYS[0], 1 << 32)]))


OPEN = """
from pathlib import Path
from samples.stores import opened
from router.disk.store.terms import StoreError
import sys
opened(Path("full/store")).close()
Path("full/store/lock.mdb").unlink()
try:
    Path("full/rest").write_bytes(bytes(1 << 20))
except OSError:
    pass
try:
    opened(Path("full/store"))
except StoreError as error:
    print(error, file=sys.stderr)
"""


def test_on_a_full_disk_a_store_without_a_lock_file_is_an_error_not_a_crash(tmp_path: Path) -> None:
    """So is one of a program that needed no lock file, and one that was restored."""
    (tmp_path / "open.py").write_text(OPEN)
    found = f"PYTHONPATH={TESTS}:{TESTS.parent} {sys.executable} open.py"
    said, code, _ = on_a_small_disk(tmp_path, found)
    assert code == "code 0" and "full/store cannot be opened: its disk is full" in said
