"""Quick tests keep their files in memory only where there is room, and where the user has not chosen a place."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from rigs import files_in_memory
from rigs.files_in_memory import keep_them_in_memory


@pytest.fixture(autouse=True)
def _same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())


def chosen(place: Path, **environment: str) -> str | None:
    keep_them_in_memory(environment, place)
    return environment.get("TMPDIR")


def test_place_with_room_is_taken_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_in_memory, "ROOM_BYTES", 1)
    assert chosen(tmp_path) == str(tmp_path)
    assert chosen(tmp_path, TMPDIR="/elsewhere") == "/elsewhere"
    assert chosen(tmp_path / "missing") is None


def test_place_without_room_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_in_memory, "ROOM_BYTES", 1 << 60)
    assert chosen(tmp_path) is None
