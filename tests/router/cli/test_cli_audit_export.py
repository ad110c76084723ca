"""`router audit-export`: an export audits like the logs, and the holder of the secret can look names up."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets
from rigs.commands import Run, RunningNode
from samples.logs import KEY, OTHER
from samples.segments import write_log

from router.actors.process import program
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.wire.text import key_text

SAME = (
    "messages", "owed", "delivered", "acked", "expired", "refused", "dropped", "pending", "unaccounted", "duplicates",
    "redelivered", "unknown", "residual", "watermark", "latency_ms", "custody_ms", "verdict",
)  # fmt: skip
LATE_NS = 4_102_444_800 * 10**9
"""The beginning of the year 2100."""


def router(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(program("router", *words), capture_output=True, text=True)


def summary(path: Path) -> dict[str, Any]:
    """Return what an audit says that begins after all of these logs."""
    return audit(list_logs([path]), AuditSpan(LATE_NS))


@pytest.fixture(scope="module")
def logs(fleets: Fleets) -> Path:
    return fleets(4, 400, 0)


def test_an_export_has_the_figures_of_the_logs_and_none_of_their_keys(logs: Path, tmp_path: Path) -> None:
    secret, out = tmp_path / "secret", tmp_path / "out"
    done = router("audit-export", str(logs), "--secret", str(secret), "--out", str(out), "--json")
    told = f"there was no secret in {secret}: made a new one, so names differ from those of earlier exports\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert json.loads(done.stdout)["routers"] == 4
    before, after = summary(logs), summary(out)
    assert {name: after[name] for name in SAME} == {name: before[name] for name in SAME}
    text = "".join(path.read_text() for path in out.rglob("*") if path.is_file())
    keys = {row["router"] for row in before["by_router"]} | {row["recipient"] for row in before["custody"]}
    assert len(keys) >= 4
    assert not [key for key in keys if key in text]
    one = before["by_router"][0]["router"]
    done = router("audit-export", "--secret", str(secret), "--whose", one, "--json")
    named = json.loads(done.stdout)
    assert done.stderr == "", "the secret was there"
    assert named["key"] in {row["router"] for row in after["by_router"]}


def test_what_cannot_be_believed_is_said_and_found_bad_in_the_export(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    *_, last = sorted(log.iterdir())
    last.write_bytes(last.read_bytes().replace(b"delivered", b"refused__"))
    secret, out = tmp_path / "secret", tmp_path / "out"
    done = router("audit-export", str(log), "--secret", str(secret), "--out", str(out))
    said = f"files that cannot be believed: 1; for each, {out} has a substitute"
    assert done.returncode == 0 and said in done.stderr
    assert done.stdout == f"6 events in 3 segments of 1 router in {out}\n"
    before, after = summary(log), summary(out)
    assert {name: after[name] for name in SAME} == {name: before[name] for name in SAME}
    assert after["verdict"] == "bad"


def test_the_newest_events_of_a_running_node_are_in_it(at_node: Run, node: RunningNode, tmp_path: Path) -> None:
    done = at_node("audit-export", str(node.home), "--secret", str(tmp_path / "S"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    assert [path.name.partition("-")[0] for path in (tmp_path / "out").rglob("*.jsonl")] == ["tail"]
    assert summary(tmp_path / "out")["logs"][0]["last"] > 0


def test_where_one_is_is_a_place_for_an_export(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    (tmp_path / "here").mkdir()
    words = ("audit-export", "../log", "--secret", "../S", "--out", ".")
    done = subprocess.run(program("router", *words), cwd=tmp_path / "here", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "8 events in 4 segments of 1 router in .\n")
    assert (tmp_path / "here" / "export.json").exists()


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_key_is_looked_up_in_any_form(router: Run, tmp_path: Path) -> None:
    secret, key = tmp_path / "S", KEY.public
    secret.touch(mode=0o600)
    secret.write_text("ab" * 32)
    forms = (
        key.hex(),
        key.hex().upper(),
        key_text("addr", key),
        key_text("group", key),
        key_text("msg", key),
        "friend",
    )
    assert router("init").exit_code == 0
    added = router("peer", "add", key_text("addr", key), "--name", "friend")
    assert added.exit_code == 0, added.output
    found = [router("audit-export", "--secret", str(secret), "--whose", form, "--json") for form in forms]
    assert [one.stderr for one in found] == [""] * len(forms)
    assert len({one.stdout for one in found}) == 1
    assert json.loads(found[0].stdout).keys() == {"key", "id"}
    unknown = router("audit-export", "--secret", str(secret), "--whose", "fiend")
    assert unknown.exit_code == 2 and '"fiend" is neither a name known here' in unknown.stderr


def test_names_need_the_secret_that_an_export_was_made_with(tmp_path: Path) -> None:
    done = router("audit-export", "--secret", str(tmp_path / "S"), "--whose", OTHER.public.hex())
    said = f"there is no secret in {tmp_path / 'S'}; name the one that the export was made with\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert list(tmp_path.iterdir()) == []


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("audit-export", "--secret", "S"), 2, "name the logs"),
        (("audit-export", "--secret", "S", "--whose", "abc"), 2, '"abc" is not a key or id'),
        (("audit-export", ".", "--secret", "S", "--out", "out"), 1, "no event log here"),
        (("audit-export", ".", "--out", "out"), 2, "--secret"),
    ],
)
def test_what_cannot_be_exported_is_said(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    here = [str(tmp_path / word) if word in ("S", ".", "out") else word for word in words]
    done = router(*here)
    assert done.returncode == code
    assert said in done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "S").exists()


def test_no_secret_is_made_for_nothing(tmp_path: Path) -> None:
    assert router("audit-export", "--secret", str(tmp_path / "S")).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_logs_that_cannot_be_believed_are_no_export(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events-0000000000000001.jsonl").write_text("rubbish\n")
    words = ("--secret", str(tmp_path / "S"), "--out", str(tmp_path / "new" / "out"))
    done = router("audit-export", str(tmp_path / "logs"), *words)
    *_, why, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert last == "none of the files holds a log that can be believed; nothing was exported"
    assert "events-0000000000000001.jsonl:1: not a line of an event log" in why
    assert {path.name for path in tmp_path.iterdir()} == {"logs"}


def test_a_secret_that_is_none_is_said_before_the_logs_are_read(tmp_path: Path) -> None:
    (tmp_path / "S").touch(mode=0o600)
    done = router("audit-export", str(tmp_path / "S"), "--secret", str(tmp_path / "S"), "--out", str(tmp_path / "out"))
    assert done.returncode == 1 and done.stderr.startswith(f"{tmp_path / 'S'} holds no secret for exports")


def test_on_a_terminal_it_says_what_it_is_doing(logs: Path, tmp_path: Path) -> None:
    words = ("audit-export", str(logs), "--secret", str(tmp_path / "S"), "--out", str(tmp_path / "out"))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        program("router", *words), stderr=slave, stdout=subprocess.DEVNULL,
        env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)
    shown = b""
    with suppress(OSError):  # The last one who could write has closed it.
        while data := os.read(master, 65536):
            shown += data
    os.close(master)
    assert process.wait() == 0
    assert b"writing the export" in shown
