"""A large file goes in steps, and never under the hands of who has it open or by another name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.disk import removal
from router.disk.removal import freed_in_steps, remove_file, remove_tree

STEP, SIZE = 1 << 12, 10_000


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes to which files are cut before each sync; a step is 4 KiB."""
    found, sync = list[int](), os.fdatasync

    def note(descriptor: int) -> None:
        found.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(removal, "STEP_BYTES", STEP)
    return found


def made(path: Path, size: int = SIZE) -> Path:
    path.write_bytes(bytes(size))
    return path


def test_remove_file_frees_a_large_one_in_synced_steps(tmp_path: Path, freed: list[int]) -> None:
    remove_file(made(tmp_path / "large"))
    assert freed == [SIZE - STEP, SIZE - 2 * STEP]
    remove_file(made(tmp_path / "small", STEP))
    remove_file(tmp_path / "missing")
    assert freed == [SIZE - STEP, SIZE - 2 * STEP]
    assert not [*tmp_path.iterdir()]


def test_a_file_that_is_replaced_is_freed_in_steps(tmp_path: Path, freed: list[int]) -> None:
    with freed_in_steps(made(tmp_path / "file")):
        (tmp_path / "newer").write_bytes(b"newer")
        (tmp_path / "newer").rename(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"newer"
    assert freed == [SIZE - STEP, SIZE - 2 * STEP]


def test_remove_file_leaves_the_content_to_who_reads_it(tmp_path: Path, freed: list[int]) -> None:
    path = made(tmp_path / "read")
    with path.open("rb") as file:
        remove_file(path)
        assert len(file.read()) == SIZE
    assert not freed and not path.exists()


def test_remove_file_leaves_the_content_to_another_name(tmp_path: Path, freed: list[int]) -> None:
    path, other = made(tmp_path / "path"), tmp_path / "other"
    other.hardlink_to(path)
    remove_file(path)
    assert other.stat().st_size == SIZE
    link, target = tmp_path / "link", other
    link.symlink_to(target)
    remove_file(link)
    assert [*tmp_path.iterdir()] == [other] and other.stat().st_size == SIZE and not freed


def test_a_name_that_cannot_be_removed_keeps_its_content(tmp_path: Path, freed: list[int]) -> None:
    path = made(tmp_path / "file")
    with pytest.raises(ZeroDivisionError), freed_in_steps(path):
        raise ZeroDivisionError
    with freed_in_steps(path):
        pass
    assert path.stat().st_size == SIZE and not freed


def test_remove_tree_frees_large_files_in_steps_and_follows_no_link(tmp_path: Path, freed: list[int]) -> None:
    kept, tree = tmp_path / "kept", tmp_path / "tree"
    (tree / "in it").mkdir(parents=True)
    kept.mkdir()
    made(kept / "file")
    made(tree / "in it" / "file")
    (tree / "link").symlink_to(kept)
    remove_tree(tree)
    assert [*tmp_path.iterdir()] == [kept] and (kept / "file").stat().st_size == SIZE
    assert freed == [SIZE - STEP, SIZE - 2 * STEP]
    with pytest.raises(FileNotFoundError):
        remove_tree(tree)
    remove_tree(tree, ignore_errors=True)
