"""What an older version kept of an app in four places is taken over once, and nothing of it is lost.

`samples/old_app` was written by the program of commit 326c34af: an app "reader" with the key of 32 × "r" has numbered 6
messages to one group and 3 to another, given out two prekeys, failed on two messages, and handled 250 with a journal,
the last 49 of them before it was killed. Modes are not kept there: the files are private again here.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import trio
from rigs.killed_state import forked, kill_at, nothing
from rigs.router_end import RouterEnd

import router
from router.client.errors import JournalError
from router.client.journal import Journal
from router.client.options import state_of
from router.client.prekeys import Prekeys, SealedError
from router.client.sealing.rows import PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing
from router.client.state_writer import StateWriter
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError
from router.settings.home import Home

OLD = Path(__file__).parents[2] / "samples" / "old_app"
ONE, TWO = (PublicKey(SigningKey(bytes((number,)) * 32).public) for number in (1, 2))
IDS = [MessageId(number.to_bytes(32, "big")) for number in range(300)]
NOW_S = 1_800_000_000.0
FILES = ("reader.failed", "reader.prekeys", "reader.seq")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = tmp_path / "home"
    shutil.copytree(OLD, made)
    (made / "apps").chmod(0o700)
    for one in (made / "apps").iterdir():
        one.chmod(0o600)
    (made / "keys").mkdir(mode=0o700)
    (made / "keys" / "reader.key").write_text((b"r" * 32).hex() + "\n")
    (made / "keys" / "reader.key").chmod(0o600)
    return Home(made)


def journal_of(home: Home, state: AppState) -> Journal:
    journal = Journal(home.path / "handled.db", StateWriter(state, lambda: NOW_S))
    journal.open()
    return journal


def check(home: Home) -> None:
    """Compare the state with all that the older version kept."""
    state = state_of(home, "reader")
    journal = journal_of(home, state)
    assert set(journal.known(IDS)) == {*IDS[:200], *IDS[201:250]}, "but the one that cannot come any more"
    assert journal.heads(ONE) == [(IDS[0], 40_000_000), (IDS[1], 40_000_001)]
    assert journal.heads(TWO) == [(IDS[2], 40_000_000)]
    assert (state.number(ONE), state.number(TWO)) == (261, 3), "the rest of a block is skipped after a crash"
    counts = [(key[:1], int.from_bytes(row[8:], "big")) for key, row in state.rows("failed")]
    assert counts == [(b"\x07", 2), (b"\x08", 1)]
    journal._let_go()
    state.close()
    opened = [
        Prekeys("reader", home=home).open((OLD / f"sealed-to-{which}").read_bytes()) for which in ("first", "second")
    ]
    assert [one.content for one in opened] == [b"to the first", b"to the second"]


def test_all_four_places_are_taken_over_and_stay_beside_until_a_stop_in_order(home: Home) -> None:
    for _ in range(2):
        check(home)
        assert all((home.path / "apps" / one).exists() for one in FILES)
        assert (home.path / "handled.db").read_bytes().startswith(b"SQLite")
    state = state_of(home, "reader")
    journal = journal_of(home, state)
    journal.close()
    state.remove_old()
    state.close()
    assert [one.name for one in (home.path / "apps").iterdir()] == ["reader.state"]
    assert (home.path / "handled.db").read_bytes().startswith(b"router journal 1 ")
    assert not [*home.path.glob("handled.db-*")]
    check(home)


def test_old_prekeys_open_for_a_week_what_is_under_way_and_are_given_out_no_more(home: Home) -> None:
    os.utime(home.path / "apps" / "reader.prekeys", (NOW_S - 10_000_000, NOW_S - 10_000_000))
    state = state_of(home, "reader")
    sealing = UnicastSealing(SigningKey(b"r" * 32), PrekeyRows(state, state.commit), os.urandom)
    now_min = expiry_min(time.time())
    sealing.tick(now_min)
    assert sealing.own.is_due(now_min + 1)
    sealing.tick(now_min + 6 * 1440)
    state.close()
    check(home)
    sealing.tick(now_min + 8 * 1440)
    state.close()
    with pytest.raises(SealedError, match="not ours, or no longer"):
        Prekeys("reader", home=home).open((OLD / "sealed-to-first").read_bytes())


def test_what_was_taken_over_is_not_taken_over_again(home: Home) -> None:
    check(home)
    state = state_of(home, "reader")
    state.commit(AppBatch(numbers={ONE: 517, TWO: 2}))
    state.close()
    again = state_of(home, "reader")
    assert (again.number(ONE), again.number(TWO)) == (517, 2)
    again.close()


def test_what_the_older_version_did_when_it_was_started_again_is_taken_over_too(home: Home) -> None:
    check(home)
    state = state_of(home, "reader")
    state.commit(AppBatch(numbers={TWO: 900}))
    state.close()
    apps = home.path / "apps"
    (apps / "reader.seq").write_text(f"{ONE.hex()} 517\n{TWO.hex()} 256\n")
    seeds = (apps / "reader.prekeys").read_bytes()
    (apps / "reader.prekeys").write_bytes(seeds + b"s" * 32)
    with closing(sqlite3.connect(home.path / "handled.db", isolation_level=None)) as database:
        database.execute("INSERT INTO handled (id, until_s) VALUES (?, 4000000000)", (bytes(IDS[299]),))
    state = state_of(home, "reader")
    journal = journal_of(home, state)
    assert (state.number(ONE), state.number(TWO)) == (517, 900), "no number is used twice"
    assert [row[8:] for _, row in state.rows("prekeys")] == [seeds[:32], seeds[32:], b"s" * 32]
    assert set(journal.known(IDS)) == {*IDS[:200], *IDS[201:250], IDS[299]}
    journal.close()
    state.close()


def test_the_old_secrets_are_overwritten_when_anything_is_to_be_forgotten(home: Home) -> None:
    path = home.path / "apps" / "reader.prekeys"
    kept = os.open(path, os.O_RDONLY)
    seeds = path.read_bytes()
    state = state_of(home, "reader")
    batch = AppBatch(forgets=True)
    batch.remove("prekeys", bytes(8))
    state.commit(batch)
    state.close()
    assert not path.exists() and not os.pread(kept, 1000, 0).strip(b"\0")
    os.close(kept)
    found = b"".join(one.read_bytes() for one in home.path.rglob("*") if one.is_file())
    assert seeds[:32] not in found and seeds[32:] not in found
    mine = Prekeys("reader", home=home)
    with pytest.raises(SealedError, match="not ours, or no longer"):
        mine.open((OLD / "sealed-to-first").read_bytes())
    assert mine.open((OLD / "sealed-to-second").read_bytes()).content == b"to the second"


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_at_any_step_of_taking_over_loses_nothing(home: Home, tmp_path: Path, stride: int) -> None:
    for step in range(1, 500, stride):
        copy = Home(shutil.copytree(home.path, tmp_path / str(step)))

        def work(out: int, copy: Home = copy, step: int = step) -> None:
            kill_at(step)
            state = state_of(copy, "reader")
            journal_of(copy, state).close()
            state.remove_old()
            state.close()

        was_killed, _ = forked(work, nothing)
        check(copy)
        shutil.rmtree(copy.path)
        if not was_killed:
            break
    assert 10 < step < 490


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("reader.seq", b"nonsense", r"reader.seq is damaged; move it away, and sequence numbers begin again at 0"),
        ("reader.seq", b"00 1", r"reader.seq is damaged; move it away"),
        ("reader.seq", b"\xff", r"reader.seq is damaged; move it away"),
        (
            "reader.prekeys",
            b"short",
            r"reader.prekeys is damaged; move it away, and a new prekey is made: what was sealed",
        ),
        ("reader.failed", b"rubbish", r"reader.failed is damaged; move it away, and attempts are counted anew"),
    ],
)
def test_a_damaged_file_is_named_and_the_others_are_taken_over_once_it_is_gone(
    home: Home, name: str, content: bytes, said: str
) -> None:
    path = home.path / "apps" / name
    path.write_bytes(content)
    with pytest.raises(StateError, match=said):
        state_of(home, "reader").number(ONE)
    assert path.read_bytes() == content
    path.unlink()
    state = state_of(home, "reader")
    assert state.number(ONE) == (0 if name == "reader.seq" else 261)
    state.close()


def test_a_file_that_others_can_change_is_named(home: Home) -> None:
    (home.path / "apps" / "reader.seq").chmod(0o644)
    with pytest.raises(StateError, match=r"\(mode 644\); run: chmod 600 "):
        state_of(home, "reader").number(ONE)


def test_a_journal_that_the_older_version_still_uses_is_left_to_it(home: Home) -> None:
    state = state_of(home, "reader")
    hold = (
        f"import sqlite3, sys; it = sqlite3.connect({str(home.path / 'handled.db')!r}, isolation_level=None); "
        "it.execute('PRAGMA locking_mode = EXCLUSIVE'); it.execute('BEGIN IMMEDIATE'); print(flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(JournalError, match="in use by another process; stop that one first"):
            journal_of(home, state)
        other.communicate()
    journal = journal_of(home, state)
    assert len(journal.known(IDS)) == 249
    journal.close()
    state.close()


def test_a_damaged_journal_of_an_older_version_is_left_as_it_is(home: Home) -> None:
    path = home.path / "handled.db"
    for kind in ("-wal", "-shm"):
        Path(f"{path}{kind}").unlink(missing_ok=True)
    path.write_bytes(path.read_bytes()[:16] + b"\xff" * 5000)
    before = path.read_bytes()
    state = state_of(home, "reader")
    with pytest.raises(JournalError, match=r"handled.db cannot be taken over: .*; see to its disk, or move a"):
        journal_of(home, state)
    assert path.read_bytes() == before
    state.close()


async def test_an_app_goes_on_where_its_older_version_was_and_leaves_one_place(
    home: Home, nursery: trio.Nursery
) -> None:
    end = RouterEnd()
    await nursery.start(end.run)
    problems: list[str] = []
    async with router.connect(
        url=end.url, home=home.path, as_name="reader", journal=home.path / "handled.db", on_problem=problems.append
    ) as node:
        assert node.key == SigningKey(b"r" * 32).public
        assert (home.path / "apps" / "reader.seq").exists()
    assert not problems
    assert [one.name for one in (home.path / "apps").iterdir()] == ["reader.state"]
    check(home)
