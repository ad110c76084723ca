"""A home of each release opens in this program, with what it had; a newer one is refused, and nothing in it changed."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import lmdb
import pytest
from rigs.commands import Run, run_in, start_node, stop_node

from homes.make import READ, WAITING
from router.cli.exits import Exit
from router.cli.version import versions
from router.disk.store.rows import VERSION

HERE = Path(__file__).parent
RELEASES = sorted(one.name.removesuffix(".tar.xz") for one in HERE.glob("*.tar.xz"))


def unpack(release: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the home of a release, put below `folder`, and the facts about it."""
    with tarfile.open(HERE / f"{release}.tar.xz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # of Python since 3.11.4
        tar.extractall(folder)
    for one in (folder / "home", *(folder / "home").rglob("*")):
        one.chmod(0o700 if one.is_dir() else 0o600)
    facts: dict[str, str] = json.loads((folder / "facts.json").read_text())
    return folder / "home", facts


def test_this_release_or_an_earlier_one_has_left_a_home() -> None:
    assert "0.1.0" in RELEASES and versions()["router"] >= max(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_the_home_of_a_release_opens_and_has_what_it_had(release: str, tmp_path: Path) -> None:
    home, facts = unpack(release, tmp_path)
    run = run_in(home)
    process, ready = start_node(home, "--listen", "tls://127.0.0.1:0", "--verifiers", "0")
    try:
        check(run, facts, ready)
    finally:
        code = stop_node(process)
    assert code == 0


def check(run: Run, facts: dict[str, str], ready: dict[str, Any]) -> None:
    """Check that the node of a home has its address and messages, their fates, and its invitation."""
    assert run("id").stdout.strip() == facts["address"] and ready["queue"]["messages"] == len(WAITING)
    heard = run("sub", "friends", "--as", "laptop", "--count", str(len(WAITING)), "--json")
    assert heard.exit_code == 0, heard.stderr
    assert [json.loads(line)["body"] for line in heard.stdout.splitlines()] == list(WAITING)
    for body in (READ, *WAITING):
        told = run("why", facts[body], "--json")
        assert told.exit_code == 0 and '"delivered"' in told.stdout, f"{body}: {told.stdout}{told.stderr}"
    invitation = run("invite", "list", "--json")
    assert invitation.exit_code == 0 and '"uses": 3' in invitation.stdout, invitation.stdout


def test_a_newer_home_is_refused_with_what_to_do_and_left_as_it_is(tmp_path: Path) -> None:
    home, _ = unpack(RELEASES[-1], tmp_path)
    with (
        lmdb.open(str(home / "store"), max_dbs=20, lock=False) as env,
        env.begin(write=True, db=env.open_db(b"meta")) as txn,
    ):
        _, *rest = cbor2.loads(txn.get(b"store") or b"")
        txn.put(b"store", cbor2.dumps([VERSION + 1, *rest]))
    before = dict(contents(home))
    for words in (("serve",), ("status",), ("peers",), ("doctor",)):
        told = run_in(home)(*words)
        assert told.exit_code == (Exit.FAILED if words == ("serve",) else Exit.NO_NODE), told.stderr
        if words == ("serve",):
            said = f"has format {VERSION + 1}, this program reads format {VERSION}: run the version that wrote it"
            assert said in told.stderr
    assert dict(contents(home)) == before


def contents(home: Path) -> Iterator[tuple[str, str]]:
    """Yield each file with its mode and digest, but for the lock, which is empty."""
    for path in sorted(home.rglob("*")):
        if path.is_file() and path.name != "lock":
            yield f"{path.relative_to(home)} {path.stat().st_mode:o}", hashlib.sha256(path.read_bytes()).hexdigest()
