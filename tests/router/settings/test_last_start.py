"""How a node was started last: kept without its home, and told to who finds it stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.cli.exits import with_home
from router.settings import last_start
from router.settings.last_start import Start


def test_who_finds_a_node_stopped_is_told_how_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert last_start.remedy(tmp_path) == "`router serve`"
    last_start.keep(tmp_path, Start(["--home", "there", "dmq", "serve", "--home=x", "--stake", "a b"]))
    assert (tmp_path / last_start.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert last_start.remedy(tmp_path) == "`router dmq serve --stake 'a b'`"
    said = with_home("nobody listens; start one with `router serve`", str(tmp_path))
    assert said == f"nobody listens; start one with `router --home {tmp_path} dmq serve --stake 'a b'`"
    before = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert last_start.remedy(tmp_path) == f"`router dmq serve --stake 'a b'` in {before}"
    last_start.keep(tmp_path, Start(["dmq", "serve", "--stake", "/a b"], is_anywhere=True))
    monkeypatch.chdir(before)
    assert last_start.remedy(tmp_path) == "`router dmq serve --stake '/a b'`"


@pytest.mark.parametrize("arguments", [["serve"], ["serve", "--set", "x" * 900], ["serve", "`x`"]])
def test_what_helps_nobody_is_not_told(tmp_path: Path, arguments: list[str]) -> None:
    last_start.keep(tmp_path, Start(arguments))
    assert last_start.remedy(tmp_path) == "`router serve`"


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    for content in (b"", b"[]", b'{"arguments": 3, "directory": "", "unit": ""}', b"\xff"):
        (tmp_path / last_start.FILE_NAME).write_bytes(content)
        assert last_start.remedy(tmp_path) == "`router serve`"


def test_a_working_directory_that_has_been_removed_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    last_start.keep(tmp_path, Start(["dmq", "serve"]))
    assert last_start.remedy(tmp_path) == "`router dmq serve`"
    monkeypatch.chdir(tmp_path)
    assert last_start.remedy(tmp_path) == "`router dmq serve`"


def test_a_unit_of_systemd_is_started_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid() + 1))
    last_start.keep(tmp_path, Start(["dmq", "serve"]))
    assert last_start.remedy(tmp_path) == "`router dmq serve`", "a shell of a service is not that service"
    text = (tmp_path / last_start.FILE_NAME).read_text().replace('"unit": ""', '"unit": "router-dmq.service"')
    (tmp_path / last_start.FILE_NAME).write_text(text)
    assert last_start.remedy(tmp_path) == "`systemctl start router-dmq.service`"
