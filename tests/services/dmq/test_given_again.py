"""How `router dmq serve` is given again from another directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.dmq.given_again import absolute_command, given_again, is_anywhere
from services.dmq.serve_command import serve


def again(*words: str) -> list[str]:
    return given_again(serve.params, serve.make_context("serve", list(words)).params)


def test_its_paths_are_absolute_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stake.json").touch()
    given = ["--network", "preview", "--local-socket", "a.socket", "--consumer", "one=b.socket", "--consumer"]
    given += ["two=/run/c.socket", "--stake", "stake.json", "-p", "6161", "-c", "dmq.config.json", "--json"]
    assert again(*given) == [
        "--network", "preview", "--local-socket", f"{tmp_path}/a.socket", "--consumer", f"one={tmp_path}/b.socket",
        "--consumer", "two=/run/c.socket", "--stake", f"{tmp_path}/stake.json",
        "--configuration-file", f"{tmp_path}/dmq.config.json", "--port", "6161", "--json",
    ]  # fmt: skip
    assert again("--local-socket", "unix:in-the-home.socket") == ["--local-socket", "unix:in-the-home.socket"]
    assert again("--stake", "./ask.sh 'a b'") == ["--stake", f"{tmp_path}/ask.sh 'a b'"]
    assert again() == []


def test_a_command_of_the_path_stays(tmp_path: Path) -> None:
    assert absolute_command("cardano-cli query stake-snapshot") == ["cardano-cli", "query", "stake-snapshot"]
    assert absolute_command("") == []


def test_where_it_is_the_same_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stake.json").touch()
    assert is_anywhere({}) and is_anywhere({"stake_file": "/a", "genesis": "/b"})
    assert is_anywhere({"stake_file": "", "stake_command": ("cat", f"{tmp_path}/stake.json")})
    assert not is_anywhere({"stake_file": "stake.json"})
    assert not is_anywhere({"genesis": "genesis.json"})
    assert not is_anywhere({"stake_command": ("cat", "stake.json")})
