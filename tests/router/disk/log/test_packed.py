"""The text of a compressed file is the file that was compressed, read in whatever parts."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples.packed_logs import packed, text_of

from router.disk.log import packed as packed_files
from router.disk.log.packed import FRAME_BYTES, NotUnpacked, open_text, pack, text_size
from spark_analytics.judgement.schema import UNPACKED_BYTES_MAX

PARTS = st.lists(st.binary(max_size=60) | st.integers(1, 3000).map(bytes), max_size=8).map(b"\n".join)
READS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 5000)), max_size=6)


def written(path: Path, text: bytes, *, has_table: bool = True) -> Path:
    with path.open("wb") as file:
        if has_table:
            assert pack(io.BytesIO(text), file) == len(text)
        else:
            file.write(packed(text))
    return path


@given(PARTS, READS, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_any_part_of_the_text_is_read_from_any_place(
    tmp_path: Path, text: bytes, reads: list[tuple[int, int]], has_table: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_files, "FRAME_BYTES", 1000)
        path = written(tmp_path / "a.zst", text, has_table=has_table)
    assert (text_of(path), text_size(path)) == (text, len(text))
    with open_text(path) as file:
        for at, size in reads:
            file.seek(at)
            assert file.read(size) == text[at : at + size]
        file.seek(0)
        assert list(file) == text.splitlines(keepends=True) if b"\r" not in text else file.read() == text


def test_last_line_is_read_without_the_frames_before(tmp_path: Path) -> None:
    """A frame in front is damaged, and nobody notices who reads the end only."""
    text = os.urandom(2 * FRAME_BYTES) + b"last\n"
    path = written(tmp_path / "a.zst", text)
    data = bytearray(path.read_bytes())
    data[4:8] = b"\xff" * 4
    path.write_bytes(data)
    with open_text(path) as file:
        file.seek(-5, os.SEEK_END)
        assert file.read() == b"last\n"
        file.seek(0)
        with pytest.raises(NotUnpacked, match="damaged after 0 bytes of text"):
            file.read(1)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_any_bytes_are_a_text_or_are_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Cut, with a byte changed, or with a table that lies: never another error, nor more than the limit."""
    text = bytes(range(256)) * 20
    path = written(tmp_path / "a.zst", text)
    found = bytearray(path.read_bytes())
    found[data.draw(st.integers(0, len(found) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(found[: data.draw(st.integers(0, len(found)))]))
    for at in (0, 3000):
        try:
            with open_text(path) as file:
                file.seek(0, os.SEEK_END)
                file.seek(at)
                assert len(file.read()) <= UNPACKED_BYTES_MAX
        except NotUnpacked as error:
            assert error.strerror


def test_bomb_is_refused_by_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "UNPACKED_BYTES_MAX", 1 << 20)
    path = tmp_path / "a.zst"
    path.write_bytes(packed(bytes(64 << 20), 19))
    assert path.stat().st_size < 10_000
    with open_text(path) as file, pytest.raises(NotUnpacked, match="more than 1,048,576 bytes, the most that is read"):
        file.read()
    with pytest.raises(NotUnpacked, match="more than 5 bytes"):
        pack(io.BytesIO(b"123456"), io.BytesIO(), 5)


def test_of_a_file_that_is_gone_the_compressed_form_is_read(tmp_path: Path) -> None:
    written(tmp_path / "a.zst", b"text")
    with open_text(tmp_path / "a") as file:
        assert file.read() == b"text"
    with pytest.raises(FileNotFoundError):
        open_text(tmp_path / "b")


def test_a_file_of_very_many_frames_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame without text has nine bytes, and costs as much time as one with some."""
    monkeypatch.setattr(packed_files, "FRAMES_READ_MAX", 20)
    path = tmp_path / "a.zst"
    path.write_bytes(packed(b"a\n") + packed(b"") * 19)
    with open_text(path) as file:
        assert file.read() == b"a\n"
    path.write_bytes(packed(b"a\n") + packed(b"") * 20)
    with open_text(path) as file, pytest.raises(NotUnpacked, match="more than 20 frames"):
        file.read()
