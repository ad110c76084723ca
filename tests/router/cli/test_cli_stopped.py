"""`router why` on a node that does not run, whose store is missing, empty or damaged beside a good log."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import lmdb
import pytest
from rigs.commands import Run, run_in, start_node, stop_node
from rigs.patience import HANG_S

from router.cli.exits import Exit
from router.client import running_or_stopped as held_home
from router.core.log.events import Outward
from router.core.routing.effects import Changes, Finished
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.disk.store.store import Store
from router.settings import keyring
from router.settings.config_services import NOBODY
from router.settings.home import Home

DATA = Path("store", "data.mdb")


class Kept(NamedTuple):
    """The home of a stopped node; a closed segment shows that it took this message for bob, who is away."""

    home: Path
    message: str


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    home = tmp_path_factory.mktemp("stopped") / "home"
    Home(home).create(residents=NOBODY)  # else pub/sub may take the message as well
    process, _ = start_node(home, "--set", "log.segment_s=1", "--verifiers", "0")
    run = run_in(home)
    try:
        assert run("group", "new", "friends").exit_code == 0
        assert run("sub", "friends", "--as", "bob", "--timeout", "0.01").exit_code == 5
        message = json.loads(run("pub", "friends", "hello", "--json").stdout)["id"]
        until = time.monotonic() + HANG_S
        while not any(message in path.read_text() for path in (home / "log").glob("events-*.jsonl")):
            assert time.monotonic() < until, "the segment is not closed"
            time.sleep(0.05)
    finally:
        assert stop_node(process) == 0
    return Kept(home, message)


@pytest.fixture
def copy(kept: Kept, home: Path) -> Kept:
    """Return a copy of the home that a test may damage."""
    shutil.copytree(kept.home, home)
    return Kept(home, kept.message)


def take_away(data: Path) -> None:
    shutil.rmtree(data.parent)


def empty(data: Path) -> None:
    os.truncate(data, 0)


def overwrite(data: Path) -> None:
    data.write_bytes(b"no database " * 1000)


def spoil_pages(data: Path) -> None:
    """Corrupt all pages but the first two, which hold the places of the others."""
    raw = data.read_bytes()
    data.write_bytes(raw[:8192] + b"\xab" * (len(raw) - 8192))


def begin_anew(data: Path) -> None:
    data.unlink()
    Store(data.parent, StoreLimits(), bytes(16)).close()


def of_another(data: Path) -> None:
    data.unlink()
    store = Store(data.parent, StoreLimits(), bytes(16))
    store.recover(SigningKey(b"x" * 32).public)
    store.close()


SPOILT: list[tuple[Callable[[Path], None], str]] = [
    (take_away, "is not there"), (empty, "cannot be read: it is empty, of 0 bytes"),
    (overwrite, "cannot be opened: it is damaged"), (spoil_pages, "cannot be opened: it is damaged"),
    (begin_anew, "is new: no node has written to it"),
    (of_another, f"belongs to another router, {key_text('addr', SigningKey(b'x' * 32).public)}"),
]  # fmt: skip


def test_with_its_store(router: Run, copy: Kept) -> None:
    answer = json.loads(router("why", copy.message, "--json").stdout)
    assert answer["states"] == {"queued": 1} and "store_problem" not in answer


@pytest.mark.parametrize(("spoil", "said"), SPOILT)
def test_without_a_store_the_log_answers(router: Run, copy: Kept, spoil: Callable[[Path], None], said: str) -> None:
    """Ask twice with the same answer: asking creates no store that the second question would take for a real one."""
    spoil(copy.home / DATA)
    for _ in range(2):
        result = router("why", copy.message, "--json")
        answer = json.loads(result.stdout)
        assert result.exit_code == 0 and answer["states"] == {"pending": 1}
        assert answer["store_problem"].startswith(f"{copy.home / DATA} {said}")
        assert "; the log was read without it, and ends 20" in answer["store_problem"]
        assert "move store/" not in answer["store_problem"], "nobody is about to start it"
    text = router("why", copy.message).stdout
    assert f"store       {copy.home / DATA} {said}" in text and "only the store could tell" in text
    assert not any(word in text for word in ("never run", "unaccounted", "fault", "is away"))


def test_what_is_not_in_that_log_may_be_newer(router: Run, copy: Kept) -> None:
    empty(copy.home / DATA)
    result = router("why", "abcd" * 5)
    assert result.exit_code == 1 and f"begins with {'abcd' * 5} is in the log" in result.stderr
    assert f"; {copy.home / DATA} cannot be read" in result.stderr
    assert result.stderr.endswith("newer messages were not looked for\n")


def test_what_a_crash_left_of_the_log_stays_if_no_store_can_make_it_again(router: Run, copy: Kept) -> None:
    rest = copy.home / "log" / ".open-0000000000000099"
    rest.write_bytes(b"the newest events\n")
    before = sorted(path.name for path in rest.parent.iterdir())
    empty(copy.home / DATA)
    assert router("why", copy.message).exit_code == 0
    assert sorted(path.name for path in rest.parent.iterdir()) == before
    assert (copy.home / DATA).stat().st_size == 0


def test_another_router_s_log_is_named_by_its_place(router: Run, copy: Kept) -> None:
    take_away(copy.home / DATA)
    (copy.home / "keys" / "node.key").unlink()
    assert router("init").exit_code == 0
    result = router("why", copy.message)
    assert result.exit_code == 1 and f"Move {copy.home / 'log'} away" in result.stderr
    scratch = str(Path(tempfile.gettempdir(), "tmp"))
    assert scratch not in result.stderr.replace(str(copy.home), "")


def empty_table(data: Path, name: bytes) -> None:
    """Corrupt the table's first page, to which the last 8 bytes of its entry point: reading notices that, opening does
    not."""
    with lmdb.open(str(data.parent), lock=False, readonly=True) as environment, environment.begin() as txn:
        page, size = int.from_bytes((txn.get(name) or b"")[-8:], "little"), environment.stat()["psize"]
    with data.open("r+b") as file:
        file.seek(page * size)
        file.write(bytes(size))


@pytest.mark.parametrize("name", [b"log", b"queues"])
def test_a_store_whose_damage_shows_only_when_it_is_read(router: Run, copy: Kept, name: bytes) -> None:
    rest = copy.home / "log" / ".open-0000000000000099"
    rest.write_bytes(b"the newest events\n")
    empty_table(copy.home / DATA, name)
    Store(copy.home / "store", StoreLimits(), bytes(16)).close()
    answer = json.loads(router("why", copy.message, "--json").stdout)
    assert answer["states"] == {"pending": 1}
    assert answer["store_problem"].startswith(f"{copy.home / DATA} failed: it is damaged")
    assert rest.read_bytes() == b"the newest events\n", "the store cannot make it again"


def test_an_index_that_is_missing_is_made_once(router: Run, copy: Kept) -> None:
    names = sorted(path.name for path in (copy.home / "log").iterdir())
    for path in (copy.home / "log").glob(".index-*"):
        path.unlink()
    assert router("why", copy.message).exit_code == 0
    assert sorted(path.name for path in (copy.home / "log").iterdir()) == names


def test_another_router_s_log_beside_a_good_store(router: Run, copy: Kept) -> None:
    data = copy.home / DATA
    data.unlink()
    (copy.home / "keys" / "node.key").unlink()
    assert router("init").exit_code == 0
    mine = keyring.load(Home(copy.home), keyring.NODE).public
    with closing(Store(data.parent, StoreLimits(), bytes(16))) as store:
        store.recover(mine)
    for command in (("why", copy.message), ("serve",)):
        result = router(*command)
        assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
        assert "belongs to the log of the router" in result.stderr
        assert f"Move {copy.home / 'log'} away, or use the home that this key belongs to" in result.stderr


def seal(copy: Kept, *, settles: bool = False) -> Path:
    """Seal all events that the store still has for the log, and, if it `settles`, the message's delivery; return the
    path of the segment after that of the acceptance."""
    key = keyring.load(Home(copy.home), keyring.NODE)
    segments = Segments(copy.home / "log", key, LogLimits())
    sealer = Sealer(segments)
    with closing(Store(copy.home / "store", StoreLimits(), bytes(16))) as store:
        store.recover(key.public)
        found = store.message(bytes.fromhex(copy.message))
        assert found is not None
        one, at_s = found[0], found[0].at_s
        said = Outward(at_s * 10**9, 6, "delivered", one.recipients[0], 1, ((one.first, 1),), None, 0, 1, 0, one.first)
        ended = Changes(events=[said], finished=[Finished(one.recipients[0], one.first, 0, 1, 0)])
        for changes in (Changes(), *([ended] if settles else []), Changes()):
            store.apply(changes, at_s)
            store.commit()
            for _, value in store.log_values(segments.last_sealed(), 1000):
                sealer.add(value, 0)
            store.log_is_sealed(sealer.seal())
        assert store.log_values(0, 1) == []
    return segment(copy)


def segment(copy: Kept) -> Path:
    """Return the segment in which the message was accepted."""
    return next(one for one in (copy.home / "log").glob("events-*.jsonl") if copy.message in one.read_text())


def edit_a_line(path: Path) -> None:
    path.write_text(
        re.sub(r'"expiries":\[(\d+)\]', lambda found: f'"expiries":[{" " * len(found[1])}]', path.read_text())
    )


def edit_the_footer(path: Path) -> None:
    path.write_text(re.sub(r'"signature":"....', '"signature":"0000', path.read_text()))


@pytest.mark.parametrize("spoil", [edit_a_line, edit_the_footer, Path.unlink])
def test_what_the_log_has_lost_the_store_still_tells(router: Run, copy: Kept, spoil: Callable[[Path], None]) -> None:
    """The answer names the recipients it waits for, until when, and the file that is not trusted, in words and in
    JSON."""
    path = seal(copy)
    spoil(path)
    answer = json.loads(router("why", copy.message[:10], "--json").stdout)
    [one] = answer["recipients"]
    assert (answer["message"], answer["acceptance"], one["state"]) == (copy.message, "store", "queued")
    assert one["until"] and "which is stopped, to start again; it expires 20" in one["next"]
    assert not answer["complete"] and not one["attempts_complete"] and answer["missing_events"]
    people = router("why", copy.message).stdout
    assert " UTC (the store knows it to the second), brought by " in people
    assert "queued, no attempt known" in people and "this is what the store holds of it" in people
    said = f"{path} is not believed, for its bytes cannot be read or are not those that were signed"
    assert (said in people) == (said in answer["incomplete"]) == (spoil is not Path.unlink)


def test_where_no_segment_is_believed_it_is_not_said_that_there_is_none(router: Run, copy: Kept) -> None:
    path = segment(copy)
    for one in path.parent.glob("events-*.jsonl"):
        edit_the_footer(one)
    take_away(copy.home / DATA)
    result = router("why", copy.message)
    assert result.exit_code == 1 and str(path) in result.stderr
    assert "not believed, for " in result.stderr and "never run" not in result.stderr


@pytest.mark.parametrize("spoil", [edit_a_line, edit_the_footer])
def test_without_the_store_a_file_that_is_not_believed_is_named(
    router: Run, copy: Kept, spoil: Callable[[Path], None]
) -> None:
    path = seal(copy)
    spoil(path)
    take_away(copy.home / DATA)
    result = router("why", copy.message)
    said = f"{path} is not believed, for its bytes cannot be read or are not those that were signed"
    assert result.exit_code == 1 and said in result.stderr


def test_no_fault_is_claimed_of_what_may_have_ended_in_a_file_that_is_not_believed(router: Run, copy: Kept) -> None:
    """The damaged file is the last one, and the store holds no later event."""
    seal(copy, settles=True)
    assert json.loads(router("why", copy.message, "--json").stdout)["states"] == {"delivered": 1}
    path = max((copy.home / "log").glob("events-*.jsonl"))
    edit_the_footer(path)
    answer = json.loads(router("why", copy.message, "--json").stdout)
    [one] = answer["recipients"]
    assert one["state"] == "unknown" and one["next"].startswith("cannot be known: the event")
    assert f"({path} is not believed)" in one["next"]


def test_a_log_that_cannot_be_opened_is_named_by_its_place(router: Run, copy: Kept) -> None:
    pruned = copy.home / "log" / "pruned.jsonl"
    pruned.mkdir()
    take_away(copy.home / DATA)
    result = router("why", copy.message)
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"the event log in {copy.home / 'log'} cannot be read: [Errno 21] Is a directory: '{pruned}'; mend"
    )


@pytest.mark.parametrize("command", ["why", "audit"])
def test_a_home_that_another_command_reads(
    router: Run, copy: Kept, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_home, "PATIENCE_S", 0.0)
    with Home(copy.home).lock():
        result = router(command, copy.message if command == "why" else str(copy.home))
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"the home {copy.home} is in use by pid {os.getpid()} (a node that starts or stops,"
    )


def test_neither_log_nor_store(router: Run, home: Path) -> None:
    assert router("init").exit_code == 0
    result = router("why", "abcd")
    said = (
        f"the node in {home} has no store, and its log no closed segment: it has never run, or they were taken away\n"
    )
    assert (result.exit_code, result.stderr) == (1, said)
    (home / DATA).touch()
    result = router("why", "abcd")
    assert result.exit_code == 1 and f"{home / DATA} cannot be read" in result.stderr and "never" not in result.stderr


def test_a_group_that_is_owed_messages_is_not_forgotten_while_the_node_is_stopped(router: Run, copy: Kept) -> None:
    refused = router("group", "remove", "friends")
    assert refused.exit_code == Exit.FAILED and "leave friends --as bob`" in refused.stderr
    assert "friends" in router("group", "list").stdout
    (copy.home / DATA).unlink()
    assert router("group", "remove", "friends").exit_code == 0
