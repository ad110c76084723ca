"""Private files: whole or not at all, 0600, nothing left behind."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from router.disk import private_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_create(tmp_path: Path) -> None:
    path = tmp_path / "a"
    private_file.create(path, b"one")
    with pytest.raises(FileExistsError):
        private_file.create(path, b"two")
    assert path.read_bytes() == b"one" and mode(path) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_create_behind_a_dangling_link_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    with pytest.raises(FileExistsError):
        private_file.create(tmp_path / "a", b"one")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_replace(tmp_path: Path) -> None:
    path = tmp_path / "a"
    private_file.replace(path, b"one")
    assert mode(path) == 0o600
    path.chmod(0o644)
    private_file.replace(path, b"two")
    assert path.read_bytes() == b"two" and mode(path) == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_failed_replace_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError):
        private_file.replace(tmp_path / "a", b"one")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_directories(tmp_path: Path) -> None:
    private_file.make_directory(tmp_path / "x" / "y")
    private_file.make_directory(tmp_path / "x" / "y")
    assert mode(tmp_path / "x" / "y") == 0o700


@pytest.mark.parametrize("open_mode", [0o640, 0o604, 0o602, 0o620, 0o777])
def test_read_refuses_what_others_can_read_or_write(tmp_path: Path, open_mode: int) -> None:
    path = tmp_path / "a"
    private_file.create(path, b"one")
    assert private_file.read(path, 10) == b"one"
    assert private_file.read(path, 1) == b"on"
    path.chmod(open_mode)
    with pytest.raises(private_file.Exposed, match=rf"\(mode {open_mode:o}\)"):
        private_file.read(path, 10)
