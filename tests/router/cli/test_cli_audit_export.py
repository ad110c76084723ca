"""`router audit-export`: the export audits like the logs; who has the secret can look names up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from router.audit.sample import write_sample

SAME = (
    "messages", "owed", "delivered", "acked", "expired", "refused", "dropped", "pending", "unaccounted", "duplicates",
    "redelivered", "unknown", "residual", "watermark", "latency_ms", "custody_ms", "verdict",
)  # fmt: skip


def router(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-m", "router", *words), capture_output=True, text=True)


def summary(path: Path) -> dict[str, Any]:
    done = router("audit", str(path), "--json", "--as-of", "2100-01-01")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs")
    write_sample(directory, 4, 600, 3)
    return directory


def test_an_export_has_the_figures_of_the_logs_and_none_of_their_keys(logs: Path, tmp_path: Path) -> None:
    secret, out = tmp_path / "secret", tmp_path / "out"
    done = router("audit-export", str(logs), "--secret", str(secret), "--out", str(out), "--json")
    told = f"there was no secret in {secret}: made a new one, whose names no earlier export has\n"
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


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("audit-export", "--secret", "S"), 2, "name the logs"),
        (("audit-export", "--secret", "S", "--whose", "abc"), 2, "'abc' is not a key or an id"),
        (("audit-export", ".", "--secret", "S", "--out", "out"), 1, "no event log here"),
        (("audit-export", ".", "--out", "out"), 2, "--secret"),
    ],
)
def test_what_cannot_be_exported_is_said(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    here = [str(tmp_path / word) if word in ("S", ".", "out") else word for word in words]
    done = router(*here)
    assert done.returncode == code
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


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
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "S"}
