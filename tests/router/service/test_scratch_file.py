"""A service's scratch on a real disk: what is written is read again, and nothing is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.service.scratch_file import ASK_EVERY_BYTES, ScratchFile


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_blocks_are_read_as_they_were_written_last(tmp_path: Path) -> None:
    scratch = ScratchFile(tmp_path, 0, pytest.fail)
    assert scratch.write(2 * ASK_EVERY_BYTES, b"far") and scratch.write(0, b"near") and scratch.write(1, b"o")
    assert (scratch.read(0, 4), scratch.read(2 * ASK_EVERY_BYTES, 3)) == (b"noar", b"far")
    with pytest.raises(OSError, match="has lost 1 bytes at"):
        scratch.read(2 * ASK_EVERY_BYTES, 4)
    assert repr(scratch) == f"<scratch in {tmp_path}>"


def test_its_file_has_no_name_and_ends_with_it(tmp_path: Path) -> None:
    before = open_descriptors()
    scratch = ScratchFile(tmp_path, 0, pytest.fail)
    assert open_descriptors() == before, "none before the first block"
    assert scratch.write(0, b"one") and open_descriptors() == before + 1
    assert list(tmp_path.iterdir()) == []
    del scratch
    assert open_descriptors() == before


def test_it_says_once_why_nothing_is_written(tmp_path: Path) -> None:
    said = list[str]()
    place = tmp_path / "place"
    scratch = ScratchFile(place, 0, said.append)
    assert not scratch.write(0, b"one") and not scratch.write(0, b"one")
    assert said == [f"keeps more in memory than usual, as nothing can be written in {place}: No such file or directory"]
    place.mkdir()
    assert scratch.write(0, b"one") and scratch.read(0, 3) == b"one" and len(said) == 1


def test_it_leaves_of_the_disk_what_it_is_to_leave(tmp_path: Path) -> None:
    said = list[str]()
    assert not ScratchFile(tmp_path, 1 << 60, said.append).write(0, b"one")
    assert said[0].endswith(f"the disk has less than {(1 << 60) + ASK_EVERY_BYTES} bytes free")
