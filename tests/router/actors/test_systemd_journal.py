"""Warnings as entries of the journal: their fields, byte by byte, and that each place that warns has a kind."""

from __future__ import annotations

import ast
import json
import logging
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.commands import ROUTER
from rigs.patience import HANG_S

from router.actors.journal import KINDS, PLACES, JournalHandler, journal_handler, leads_to_journal
from router.core.wire.text import SUBJECT

TREE = Path(__file__).parents[3]
WARNS = {"warning", "error", "exception", "critical"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that takes entries, in place of the journal's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "socket"))
        yield found


def fields(entry: bytes) -> dict[str, str]:
    """Read an entry as journald does."""
    found = {}
    while entry:
        name, _, rest = entry.partition(b"\n")
        size = int.from_bytes(rest[:8], "little")
        found[name.decode()] = rest[8 : 8 + size].decode()
        assert rest[8 + size : 9 + size] == b"\n"
        entry = rest[9 + size :]
    return found


def record(name: str, function: str, level: int, text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, level, "file", 1, text, args, None, function)


def test_a_warning_is_one_entry_with_the_id_of_its_kind(place: socket.socket) -> None:
    handler = JournalHandler(place.getsockname(), "pubsub: %(message)s")
    said = record("router.node.housekeeping", "_judge_clock", logging.WARNING, "the clock\n%s", "is doubted")
    setattr(said, SUBJECT, "web")
    handler.emit(said)
    assert fields(place.recv(1 << 16)) == {
        "MESSAGE": "pubsub: the clock is doubted", "PRIORITY": "4", "SYSLOG_IDENTIFIER": "router",
        "CODE_FUNC": "router.node.housekeeping._judge_clock", "MESSAGE_ID": KINDS["clock"].id, "ROUTER_KIND": "clock",
        "ROUTER_SERVICE": "web",
    }  # fmt: skip
    handler.close()


def test_a_function_may_have_another_kind_than_its_module_and_information_has_none(place: socket.socket) -> None:
    handler = JournalHandler(place.getsockname())
    for function, level in (("_look_at_disk", logging.WARNING), ("_lose", logging.ERROR), ("_tell", logging.INFO)):
        handler.handle(record("router.node.housekeeping", function, level, "said"))
    found = [fields(place.recv(1 << 16)) for _ in range(3)]
    assert [(one["PRIORITY"], one.get("ROUTER_KIND")) for one in found] == [("4", "disk"), ("3", "damage"), ("6", None)]
    handler.close()


def test_what_the_journal_does_not_take_is_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    handler = JournalHandler(str(tmp_path / "nobody"))
    handler.handle(record("router.cli", "main", logging.WARNING, "a\nb"))
    assert capsys.readouterr().err == "a b\n"
    handler.close()


def test_it_is_taken_where_standard_error_leads_to_the_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "stream").open("wb") as file:
        monkeypatch.delenv("JOURNAL_STREAM", raising=False)
        assert journal_handler(descriptor=file.fileno()) is None
        found = os.fstat(file.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        handler = journal_handler(descriptor=file.fileno())
        assert isinstance(handler, JournalHandler) and journal_handler() is None
        handler.close()
    assert not leads_to_journal(1 << 20)


JOURNALD = Path("/usr/lib/systemd/systemd-journald")
BESIDE = """
mount -t tmpfs tmpfs /run && mkdir -p /run/log/journal /run/lock
"$0" > /dev/null 2>&1 &
while [ ! -S /run/systemd/journal/stdout ]; do sleep 0.05; done
systemd-cat -- sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"' sh "$@"
journalctl --sync 2> /dev/null
journalctl --directory /run/log/journal --output json MESSAGE_ID="$ID"
kill %1
"""
"""A journal of its own, in which a command runs as systemd runs the command of a unit."""


@pytest.mark.long
@pytest.mark.skipif(
    os.geteuid() != 0 or not JOURNALD.exists(), reason="only root can run a systemd-journald of its own"
)
def test_a_real_journal_finds_a_warning_by_its_id(tmp_path: Path) -> None:
    home, kind = tmp_path / "home", KINDS["configuration"]
    subprocess.run([*ROUTER, "--home", home, "group", "new", "family"], check=True, capture_output=True)
    (home / "groups" / "family").write_text("torn")
    apart = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    within = [*apart, "bash", "-c", BESIDE, str(JOURNALD)]
    command = [*within, *ROUTER, "--home", str(home), "group", "list"]
    environment = {**os.environ, "ID": kind.id}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, env=environment)
    [entry] = [json.loads(line) for line in done.stdout.splitlines()]
    assert entry["MESSAGE"].startswith(f"{home / 'groups' / 'family'} should hold a whole group link")
    assert entry["_TRANSPORT"] == "journal"
    assert (entry["PRIORITY"], entry["ROUTER_KIND"]) == ("4", "configuration")


def places_that_warn() -> set[tuple[str, str]]:
    """Return (logger, function) for each call in the tree that writes a warning or worse, to its module's logger, or to
    that of the host of a service."""
    found = set()
    for path in (*TREE.glob("router/**/*.py"), *TREE.glob("services/**/*.py"), *TREE.glob("transports/*.py")):
        module = ".".join(path.relative_to(TREE).with_suffix("").parts)
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if "log." in text else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                warned = {warned_to(call, module) for call in ast.walk(function)}
                found |= {(logger, function.name) for logger in warned if logger}
    return found


def warned_to(node: ast.AST, module: str) -> str:
    """Return the logger to which this writes a warning or worse, "" if it does not."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name("log"), attr=attr)) if attr in WARNS:
            return module
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="log"), attr=attr)) if attr in WARNS:
            return "router.service.host"
    return ""


def test_each_place_that_warns_has_a_kind_and_no_place_is_gone() -> None:
    found = places_that_warn()
    assert not [one for one in found if not {one[0], ".".join(one)} & PLACES.keys()]
    assert PLACES.keys() <= {module for module, _ in found} | {".".join(one) for one in found}
    assert set(PLACES.values()) | {"other"} == KINDS.keys()


def test_ids_are_those_of_the_first_release() -> None:
    """Whoever filters by them does so for years."""
    assert len({one.id for one in KINDS.values()}) == len(KINDS)
    assert all(len(bytes.fromhex(one.id)) == 16 for one in KINDS.values())
    paper = (TREE / "docs/operators.md").read_text()
    assert not [name for name, kind in KINDS.items() if f"| `{name}` | `{kind.id}` | {kind.about} |" not in paper]
