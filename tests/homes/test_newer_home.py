"""An older program changes nothing in the home of a newer one: each command that writes into a home refuses first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cbor2
import click
import lmdb
import pytest
from click.testing import Result
from rigs.commands import run_in

from homes.test_homes import RELEASES, contents, unpack
from router.cli import main
from router.cli.exits import Exit
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.text import key_text
from router.disk.store.rows import VERSION

LINK = new_group(b"n" * 32, b"k" * 32, "club").text()
OTHER = key_text("addr", SigningKey(b"o" * 32).public)
NEWER = VERSION + 1
SAID = f"has format {NEWER}, this program reads format {VERSION}: run the version that wrote it"

WRITE: dict[str, tuple[str, ...]] = {
    "init": (),
    "serve": (),
    "sub": ("friends", "--as", "phone", "--timeout", "0.1"),
    "pub": ("friends", "hello", "--as", "laptop"),
    "send": (OTHER, "hello", "--as", "phone"),
    "recv": ("--as", "phone", "--timeout", "0.1"),
    "leave": ("friends", "--as", "laptop"),
    "group add": (LINK,),
    "group new": ("club",),
    "group remove": ("friends",),
    "keys renew": ("laptop",),
    "keys rotate": ("pubsub",),
    "keys rotate-node": (),
    "peer add": (OTHER, "tls://127.0.0.1:1"),
    "peer block": (OTHER,),
    "peer remove": (OTHER,),
    "peer unblock": (OTHER,),
    "invite": (),
    "invite revoke": ("ab", "--with-guests"),
    "backup take": ("{out}/one.snapshot", "--plain"),
    "backup schedule": ("--off",),
    "audit": ("{home}", "--out", "{out}/audit", "--sign"),
    "web invite": ("--group", "friends"),
    "capd post": ("hello", "--rescindable"),
    "dmq serve": ("--network", "preview"),
    "id": ("--link",),
}
"""The commands that write files into a home, with arguments by which they would."""
READ: dict[str, tuple[str, ...]] = {
    "group list": (),
    "group share": ("friends",),
    "keys": (),
    "peer list": (),
    "invite list": (),
    "status": (),
    "top": ("--once",),
    "peers": (),
    "queue": (),
    "groups": (),
    "health": (),
    "copy": (),
    "clock": (),
    "doctor": (),
    "why": ("ab" * 16,),
    "config check": (),
    "config show": (),
    "audit-export": ("{home}", "--out", "{out}/export", "--secret", "{out}/secret"),
    "capd rescind": ("ab" * 32,),
    "pubsub peers": (),
    "web status": (),
}
"""The commands that read files of a home, with arguments."""
ASK = {
    "queue drop", "copy keep", "clock confirm", "move", "lan list", "lan off", "lan on", "capd address", "capd export",
    "capd get", "capd import", "capd info", "capd peers", "capd query", "capd reply", "capd watch", "dmq again",
    "dmq mempool", "dmq peers", "dmq reload", "dmq status", "dmq submit", "dmq watch", "web logins", "web open",
    "web token", "web tokens",
}  # fmt: skip
"""The commands that ask the node, which has the format of its own home; they write no file in it themselves."""
ELSEWHERE = {
    "service install", "service logs", "service remove", "service restart", "service start", "service status",
    "service stop", "backup list", "backup verify", "restore", "ask", "audit-verify", "completion", "man",
    "bench", "chaos", "demo", "capd bench", "capd conform", "capd decode", "capd demo", "capd solve", "dmq bench",
    "dmq conform", "dmq demo", "dmq doctor", "dmq keygen", "dmq sign", "dmq verify", "web demo",
}  # fmt: skip
"""The commands that use no home, or make one of their own where there is none; so do those of `router simulate`."""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """Return a home whose store has the format of the next version."""
    home, _ = unpack(RELEASES[-1], tmp_path)
    with (
        lmdb.open(str(home / "store"), max_dbs=20, lock=False) as env,
        env.begin(write=True, db=env.open_db(b"meta")) as txn,
    ):
        _, *rest = cbor2.loads(txn.get(b"store") or b"")
        txn.put(b"store", cbor2.dumps([NEWER, *rest]))
    return home


def named(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of each command below this one that can be run."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from named(below, (*path, name))


def run(home: Path, words: str, given: tuple[str, ...]) -> Result:
    return run_in(home)(*words.split(), *(one.format(home=home, out=home.parent) for one in given))


def test_each_command_of_the_tree_is_known_to_write_into_a_home_or_not() -> None:
    known = [*WRITE, *READ, *ASK, *ELSEWHERE]
    found = {one for one in named(main, ()) if not one.startswith("simulate ")}
    assert found == set(known) and len(known) == len(set(known))


def test_each_command_that_writes_into_a_home_refuses_a_newer_one_and_changes_nothing(newer: Path) -> None:
    before = dict(contents(newer))
    for words, given in WRITE.items():
        told = run(newer, words, given)
        assert SAID in told.stderr and told.exit_code == Exit.FAILED, (words, told.output, told.exception)
        assert dict(contents(newer)) == before, words


def test_a_command_that_reads_changes_nothing_in_a_newer_home(newer: Path) -> None:
    before = dict(contents(newer))
    for words, given in READ.items():
        told = run(newer, words, given)
        assert "something is wrong in" not in told.stderr, (words, told.stderr)
        assert dict(contents(newer)) == before, words


def test_doctor_says_that_nothing_may_be_changed_in_a_newer_home(newer: Path) -> None:
    found = {one["check"]: one for one in json.loads(run(newer, "doctor", ("--json",)).stdout)}
    assert found["format"]["ok"] is False and SAID in found["format"]["found"]
