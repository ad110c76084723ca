"""An app's state: the same on disk and in memory, shared by those who open it, and in the form that its paper has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random

import cbor2
import lmdb
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.small_disk import on_a_small_disk

from router.client.old_places import attempts_row, prekey_row
from router.disk.room import DATA
from router.disk.state import environment
from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError
from router.disk.state.secrets import KEY_FILE

ROOT = Path(__file__).parents[4]
PLACE, GROUP = b"journal1" + b"g" * 32, b"g" * 32


def key_of(number: int) -> bytes:
    return b"journal1" + number.to_bytes(32, "big")


def some_batch(chance: Random) -> AppBatch:
    batch = AppBatch([(key_of(chance.randrange(40)), chance.randrange(1, 30)) for _ in range(chance.randrange(6))])
    for _ in range(chance.randrange(4)):
        table, key = chance.choice(("prekeys", "correspondents")), b"%d" % chance.randrange(5)
        if chance.random() < 0.3:
            batch.remove(table, key)
        else:
            batch.put(table, key, chance.randbytes(chance.randrange(40)), secret=chance.random() < 0.5)
    if chance.random() < 0.3:
        batch.heads[PLACE] = [(chance.randbytes(32), 20) for _ in range(chance.randrange(3))]
    if chance.random() < 0.3:
        batch.numbers[GROUP] = chance.randrange(1000)
    batch.forgets = chance.random() < 0.1
    return batch


def seen(state: AppState) -> tuple[object, ...]:
    return (
        state.rows("prekeys"), state.rows("correspondents"), state.rows("correspondents", b"3"),
        state.get("prekeys", b"1"),
        state.get("nowhere", b"1"), state.known([key_of(number) for number in range(40)]), state.heads(PLACE),
        state.number(GROUP), state.number(bytes(32)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_on_disk_and_in_memory_it_is_the_same_also_after_a_restart(tmp_path: Path, seed: int) -> None:
    chance, memory, disk = Random(seed), AppState.memory(), AppState(tmp_path)
    for number in range(40):
        batch = some_batch(chance)
        for state in (memory, disk):
            state.commit(batch)
        if number % 7 == 0:
            disk.close()
        assert seen(disk) == seen(memory)
    disk.close()


def test_nothing_is_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    state = AppState(tmp_path / "app")
    state.commit(AppBatch())
    assert not state.is_open and not list(tmp_path.iterdir())
    assert state.get("prekeys", b"a") is None and state.is_open
    state.close()


def test_a_decision_reads_and_writes_in_one_transaction(tmp_path: Path) -> None:
    one, other = AppState(tmp_path), AppState(tmp_path)

    def add(rows: AppRows) -> AppBatch:
        return AppBatch(numbers={GROUP: rows.number(GROUP) + 1})

    for state in (one, other, one):
        state.change(add)
    assert one.number(GROUP) == other.number(GROUP) == 3

    def fail(rows: AppRows) -> AppBatch:
        raise KeyError

    with pytest.raises(KeyError):
        one.change(fail)
    one.close()
    assert other.number(GROUP) == 3
    other.close()


ADD = """
import sys
from pathlib import Path
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
state = AppState(Path(sys.argv[1]))
for _ in range(50):
    state.change(lambda rows: AppBatch(numbers={bytes(32): rows.number(bytes(32)) + 1}))
batch = AppBatch()
for number in range(int(sys.argv[2])):
    batch.put("large", b"%d" % number, bytes(100_000))
state.commit(batch)
"""


def test_processes_share_a_state_which_one_of_them_makes_larger(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    assert state.number(bytes(32)) == 0
    adding = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), str(rows)]) for rows in (300, 0)]
    assert [one.wait() for one in adding] == [0, 0]
    assert state.number(bytes(32)) == 100 and len(state.rows("large")) == 300
    state.commit(AppBatch(numbers={bytes(32): 7}))
    assert state.number(bytes(32)) == 7
    state.close()


def test_a_state_grows_as_it_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAP_BYTES_MIN", 1 << 16)
    state, batch = AppState(tmp_path), AppBatch()
    for number in range(64):
        batch.put("large", b"%d" % number, bytes(100_000), secret=number % 2 == 0)
    state.commit(batch)
    state.commit(AppBatch(forgets=True))
    assert len(state.rows("large")) == 64
    state.close()


def test_a_reader_that_was_killed_does_not_let_a_state_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAP_BYTES_MIN", 1 << 20)
    reads = "import lmdb, sys; txn = lmdb.open(sys.argv[1], readonly=True).begin(); print(1, flush=True); input()"
    command = [sys.executable, "-c", reads, str(tmp_path)]
    state, batch = AppState(tmp_path), AppBatch()
    batch.put("large", b"", bytes(100_000))
    state.commit(batch)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.kill()
    for _ in range(30):
        state.commit(batch)
    state.close()
    assert (tmp_path / DATA).stat().st_size <= 1 << 20


@pytest.mark.parametrize(("table", "key"), [("Prekeys", b"a"), ("a/b", b"a"), ("", b"a"), ("a", b"k" * 401)])
def test_what_cannot_be_a_row_is_said_where_it_is_made(table: str, key: bytes) -> None:
    with pytest.raises(ValueError, match=r"no name of a table|where 400 are the most"):
        AppBatch().put(table, key, b"")
    with pytest.raises(ValueError, match=r"no name of a table|where 400 are the most"):
        AppBatch().remove(table, key)


FILL = """
import sys
from pathlib import Path
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

state, kept, said = AppState(Path("full/app")), 0, []
spare = Path("full/spare")
state.commit(AppBatch(numbers={bytes(32): 7}))
spare.write_bytes(bytes(300_000))
for forgets in (False, True):
    try:
        while True:
            batch = AppBatch(forgets=forgets)
            batch.put("rows", b"%d" % kept, b"x" * 20_000, secret=True)
            state.commit(batch)
            kept += 1
    except StateError as error:
        said.append(str(error))
spare.unlink()
state.commit(AppBatch(numbers={bytes(32): 8}))
rows = state.rows("rows")
print(said[0] == said[1], len(rows) == kept > 5, all(value == b"x" * 20_000 for _, value in rows), file=sys.stderr)
print(said[0], state.number(bytes(32)), file=sys.stderr)
"""


def test_on_a_full_disk_nothing_is_lost_and_it_goes_on_with_room(tmp_path: Path) -> None:
    script = tmp_path / "fill.py"
    script.write_text(FILL)
    lines = on_a_small_disk(tmp_path, f"{sys.executable} {script}")
    assert lines[0] == "True True True"
    assert lines[1] == (
        "the state in full/app cannot be written: its disk is full; make room, and start the app again: nothing that "
        "was settled is lost 8"
    )


READ = """
import sys
from pathlib import Path
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

for path in ("full/app", "full/new"):
    try:
        print(AppState(Path(path)).number(bytes(32)), file=sys.stderr)
    except StateError as error:
        print(error, file=sys.stderr)
"""


def test_on_a_disk_that_cannot_be_written_it_says_so(tmp_path: Path) -> None:
    for name, text in (("fill.py", FILL), ("read.py", READ)):
        (tmp_path / name).write_text(text)
    lines = on_a_small_disk(
        tmp_path, f"{sys.executable} fill.py; mount -o remount,bind,ro full; {sys.executable} read.py"
    )
    for path, line in zip(("full/app", "full/new"), lines[:2], strict=True):
        assert re.fullmatch(
            rf"the state in {path} cannot be opened: .*Read-only file system.*; make it writable for this user, "
            r"and start the app again: nothing that was settled is lost",
            line,
        ), line


# -- its form --------------------------------------------------------------------------------------------------------


@cache
def validator() -> Validator:
    return Validator(ROOT / "cddl" / "app-state.cddl")


def fits(rule: str, value: bytes | str) -> bool:
    return bool(validator().validate(cbor2.dumps(value), rule).valid)


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    with closing(AppState(tmp_path)) as state:
        state.commit(AppBatch([(key_of(1), 1)]))
    [data] = tmp_path.rglob("data.mdb")
    data.unlink()
    os.mkfifo(data)
    with (
        closing(AppState(tmp_path)) as state,
        pytest.raises(StateError, match=r"its data\.mdb is no regular file.*see to its disk"),
    ):
        state.known([key_of(1)])


def test_every_row_has_the_form_of_the_paper(tmp_path: Path) -> None:
    state, batch = AppState(tmp_path), AppBatch([(key_of(1), 9)], numbers={GROUP: 3})
    batch.heads[PLACE] = [(bytes(32), 9)] * 16
    batch.put("prekeys", bytes(8), prekey_row(bytes(32), 1_800_000_000), secret=True)
    batch.put("failed", bytes(32), attempts_row(1, 2))
    batch.put("taken", b"apps", bytes(32))
    state.commit(batch)
    assert fits("prekey", state.get("prekeys", bytes(8)) or b"")
    state.close()
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    with lmdb.open(str(tmp_path), max_dbs=10) as env, env.begin() as txn:
        for name in ("meta", "handled", "ends", "heads", "numbers", "rows", "secrets"):
            cursor = txn.cursor(env.open_db(name.encode(), txn, create=False))
            found[name] = [(bytes(key), bytes(value)) for key, value in cursor]
    meta = dict(found["meta"])
    assert meta.keys() == {b"version", b"secrets"}
    expected = {"handled": "minute", "ends": "nothing", "heads": "heads", "numbers": "number", "secrets": "sealed"}
    assert all(fits(rule, value) for name, rule in expected.items() for _, value in found[name])
    assert fits("last-record", bytes(8)) and fits("journal-file", "router journal 1 0123456789abcdef\n")
    assert fits("version", meta[b"version"]) and fits("key-id", meta[b"secrets"])
    assert [key for key, _ in found["ends"]] == [(9).to_bytes(4, "big") + key_of(1)]
    rows = dict(found["rows"])
    assert fits("failed", rows[b"failed/" + bytes(32)]) and fits("taken", rows[b"taken/apps"])
    assert fits("secret-key-file", (tmp_path / KEY_FILE).read_text())
    assert not fits("prekey", bytes(39)) and not fits("version", b"2") and not fits("secret-key-file", "key")


def test_a_repr_shows_no_secret(tmp_path: Path) -> None:
    batch = AppBatch()
    batch.put("prekeys", b"a", b"hidden", secret=True)
    assert "hidden" not in repr(batch)
    state = AppState(tmp_path)
    state.commit(batch)
    assert "hidden" not in repr(state) and repr(AppState.memory()) == "<state of an app, kept in memory>"
    state.close()


def test_a_state_error_is_one_of_the_router_s() -> None:
    with pytest.raises(StateError):
        AppState(Path("/dev/null/app")).number(bytes(32))
