"""The newest events of a node as files: of a stopped node from its store, and with gaps where segments hold them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest
from samples.audit_logs import LATE, START, B, Log, audited, states
from samples.segments import accepted, outward

from router.audit.engine import AuditSpan, audit
from router.audit.listing import NO_KEY
from router.audit.tail import logs_of, node_paths, write_tails
from router.core.log.events import RouterChange, encode_events
from router.core.log.line import encode_line, rows
from router.disk.store.terms import StoreError
from router.settings import keyring
from router.settings.home import Home

BOOT = bytes(16)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    keyring.load_or_create(found, keyring.NODE)
    return found


def refuse(home: Home, word: str, argument: str) -> Any:
    raise AssertionError("nobody is to be asked")


def store(home: Home, *values: bytes) -> None:
    with lmdb.open(str(home.store_path), max_dbs=2, lock=False, map_size=1 << 20) as environment:
        log = environment.open_db(b"log")
        with environment.begin(write=True) as txn:
            for number, value in enumerate(values, 1):
                txn.put(number.to_bytes(8, "big"), value, db=log)


def test_the_store_of_a_stopped_node(home: Home, tmp_path: Path) -> None:
    store(
        home,
        encode_events([RouterChange(4, 5, "start", ()), accepted(3)], 1, BOOT),
        encode_events([outward()], 5, BOOT),
    )
    [path] = node_paths(home, tmp_path, refuse)
    assert path.name == "tail-0000000000000001.jsonl"
    found = audited(path)
    assert [log["last"] for log in found["logs"]] == [5]
    assert [log["router"] for log in found["logs"]] == [keyring.load(home, keyring.NODE).public.hex()]
    assert found["accepted"] == 3 and found["problems"] == []


def test_a_node_that_has_never_run_has_only_its_log_directory(home: Home, tmp_path: Path) -> None:
    assert node_paths(home, tmp_path, refuse) == [home.log_path]


def test_a_damaged_store_is_said(home: Home, tmp_path: Path) -> None:
    store(home, b"rubbish")
    with pytest.raises(StoreError, match="damaged"):
        node_paths(home, tmp_path, refuse)


def test_the_segments_of_a_node_with_a_damaged_store_are_audited(home: Home, tmp_path: Path) -> None:
    store(home, b"rubbish")
    with pytest.raises(StoreError, match="damaged"), logs_of([home.path], refuse):
        pass
    log = Log()
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 2)])
    log.write(home.log_path)
    for spoilt in ((home.store_path / "data.mdb").read_bytes(), b"", None):
        if spoilt is None:
            (home.store_path / "data.mdb").unlink()
        else:
            (home.store_path / "data.mdb").write_bytes(spoilt)
        with logs_of([home.path], refuse) as listing:
            found = audit(listing, AuditSpan(START + LATE * 10**9))
        assert (states(found), found["verdict"]) == ({"owed": 2, "delivered": 2}, "attention")
        [problem] = found["problems"]
        said = f"{home.store_path}: the newest events are not known: "
        assert problem.startswith(said + (f"{home.store_path}/data.mdb is not" if spoilt is None else "the store in"))


def test_a_store_that_was_cut_short_is_a_sentence(home: Home) -> None:
    """The test reads in a separate process, because reading beyond the end of the file would end it with a bus
    error."""
    store(home, *(encode_events([accepted(9)], 1 + 9 * number, BOOT) for number in range(200)))
    os.truncate(home.store_path / "data.mdb", 3 * 4096)
    command = [sys.executable, "-m", "router", "audit", str(home.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert ran.stderr.startswith(f"the store in {home.store_path} cannot be read: it is damaged (")


def test_a_running_node_is_asked_until_there_is_no_more(home: Home, tmp_path: Path) -> None:
    value = encode_events([RouterChange(4, 5, "start", ()), accepted(3), outward()], 1, BOOT)
    texts = [encode_line(row).decode() for row in rows(value, bytes(keyring.load(home, keyring.NODE).public))]
    answers = {
        "0": {"lines": texts[:1], "next_seq": 2, "sealed_seq": 0, "more": True},
        "1": {"lines": texts[1:], "next_seq": 6, "sealed_seq": 0, "more": False},
    }
    with home.lock():
        paths = node_paths(home, tmp_path, lambda home, word, argument: answers[argument] if word == "log" else None)
    assert [log["last"] for log in audited(*paths)["logs"]] == [5]


def test_what_a_running_node_tells_is_written_as_it_comes(home: Home, tmp_path: Path) -> None:
    values = [rows(encode_events([outward()] * 1000, seq, BOOT), bytes(32)) for seq in (1, 1001)]
    parts = [[encode_line(row).decode() for row in part] for part in values]

    def ask(home: Home, word: str, argument: str) -> Any:
        if argument == "0":
            return {"lines": parts[0], "next_seq": 1001, "sealed_seq": 0, "more": True}
        assert (tmp_path / "tail-0000000000000001.jsonl").stat().st_size > 0
        return {"lines": parts[1], "next_seq": 2001, "sealed_seq": 0, "more": False}

    with home.lock():
        [path] = node_paths(home, tmp_path, ask)
    assert path.read_text().splitlines()[1:] == parts[0] + parts[1]


def test_what_was_sealed_meanwhile_is_left_to_the_segment(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 1)])
    log.outward("delivered", [(2, 1)])
    sealed = Log()
    sealed.lines = log.lines[:2]
    paths = write_tails([log.lines[0], log.lines[2]], tmp_path)
    assert [path.name for path in paths] == ["tail-0000000000000001.jsonl", "tail-0000000000000004.jsonl"]
    assert states(audited(sealed.write(tmp_path / "log"), *paths)) == {"owed": 2, "delivered": 2}


def test_the_tails_of_homes_are_told_by_their_homes(tmp_path: Path) -> None:
    """Two homes with one key: the temporary files of their tails are gone when somebody reads the report."""
    homes = [Home(tmp_path / name) for name in ("b", "a")]
    for number, home in enumerate(homes):
        home.create()
        keyring.load_or_create(home, keyring.NODE)
        if number:
            home.key_path.write_bytes(homes[0].key_path.read_bytes())
        store(home, encode_events([RouterChange(4 + number, 5, "start", ())], 1, BOOT))
    with logs_of([home.path for home in homes], refuse) as listing:
        found = audit(listing, AuditSpan(START), out=tmp_path / "out")
        paths = list(listing.names)
    assert [(file["path"], file["status"]) for file in found["files"]] == [
        (f"{home.path} (unsealed events)", "fork") for home in homes
    ]
    published = (tmp_path / "out" / "summary.json").read_text()
    assert not any(path in str(found) or path in published for path in paths)


def test_tails_with_gaps_between_them_have_different_names(home: Home) -> None:
    store(home, encode_events([RouterChange(4, 5, "start", ())], 1, BOOT), encode_events([outward()], 5, BOOT))
    with logs_of([home.path], refuse) as listing:
        assert sorted(listing.names.values()) == [f"{home.path} (unsealed events from {seq})" for seq in (1, 5)]


def fleet(directory: Path) -> Path:
    """Make a directory with a log, and beside it the home of a node whose events are all in its store."""
    log = Log(B)
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 2)])
    log.write(directory / "logs")
    home = Home(directory / "deep" / "home")
    home.path.parent.mkdir()
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    store(home, encode_events([RouterChange(4, 5, "start", ()), accepted(3)], 1, BOOT))
    return home.path


@pytest.mark.parametrize("is_link", [False, True])
def test_homes_below_a_path_are_read_as_well(is_link: bool, tmp_path: Path) -> None:
    top = tmp_path / "fleet"
    top.mkdir()
    home = fleet(top)
    if is_link:
        home = home.rename(tmp_path / "elsewhere")
        (top / "link").symlink_to(home)
    with logs_of([top], refuse) as listing:
        found = audit(listing, AuditSpan(START + LATE * 10**9))
    assert found["accepted"] == 2 + 3 and len(found["logs"]) == 2 and found["problems"] == []
    assert any("(unsealed events)" in one["path"] for one in found["files"] if one["status"] == "tail")


def test_homes_that_have_all_their_events_in_their_stores_lack_no_log(tmp_path: Path) -> None:
    home = fleet(tmp_path)
    shutil.rmtree(tmp_path / "logs")
    for path in (tmp_path, home.parent):
        with logs_of([path], refuse) as listing:
            assert (len(listing.paths), listing.problems) == (1, [])


def test_a_store_below_a_path_without_its_key_is_a_problem(tmp_path: Path) -> None:
    home = fleet(tmp_path)
    (home / "keys" / "node.key").unlink()
    with logs_of([tmp_path], refuse) as listing:
        assert [(one.path, one.text) for one in listing.problems] == [(str(home / "store"), NO_KEY)]


def test_a_home_below_a_path_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    home = fleet(tmp_path)
    (home / "store" / "data.mdb").write_bytes(b"")
    with logs_of([tmp_path], refuse) as listing:
        found = audit(listing, AuditSpan(START + LATE * 10**9))
    [problem] = found["problems"]
    assert str(home / "store") in problem and "the newest events are not known" in problem
    assert found["accepted"] == 2 and found["verdict"] == "attention"


def test_a_home_below_a_path_has_no_module_of_its_choice_loaded(tmp_path: Path) -> None:
    """Homes among collected logs are other people's; loading a module runs its code. `this` prints a poem."""
    home = fleet(tmp_path)
    (home / "router.toml").write_text('[node]\nservices = ["services.pubsub", "this"]\n')
    sys.modules.pop("this", None)
    with logs_of([tmp_path], refuse):
        assert "this" not in sys.modules
    with logs_of([home], refuse):
        assert "this" in sys.modules, "of a home that is named, services of others are loaded"
