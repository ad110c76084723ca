"""The facts of a file before its lines are read: first and last line, and the digest of the bytes before the last."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest
from samples.packed_logs import packed

from router.audit.file_facts import LINE_BYTES_MAX, READ_BYTES, file_facts, read_facts
from router.audit.spelling import Care
from router.disk.log import packed as packed_files
from spark_analytics.judgement.log_files import FileFacts


@pytest.mark.parametrize(
    ("data", "head", "last"),
    [
        (b"", b"", b""),
        (b"one", b"one", b"one"),
        (b"one\n", b"one\n", b"one\n"),
        (b"one\ntwo\nthree\n", b"one\n", b"three\n"),
        (b"one\ntwo", b"one\n", b"two"),
        (b"one\n\n", b"one\n", b"\n"),
        (b"a\n" + b"b" * (3 * READ_BYTES) + b"\nc\n", b"a\n", b"c\n"),
        (b"a" * (LINE_BYTES_MAX + 5) + b"\nb\n", b"a" * LINE_BYTES_MAX, b"b\n"),
    ],
)
def test_head_last_and_digest(tmp_path: Path, data: bytes, head: bytes, last: bytes) -> None:
    digest = sha256(data[: len(data) - len(last)]).hexdigest()
    for path, written in ((tmp_path / "file", data), (tmp_path / "file.zst", packed(data))):
        path.write_bytes(written)
        assert file_facts(str(path)) == FileFacts(str(path), len(data), head, last, digest)


def test_of_a_last_line_without_end_a_part_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (2 * LINE_BYTES_MAX))
    assert file_facts(str(path)).last == b"x" * LINE_BYTES_MAX


def test_compressed_file_that_is_damaged_or_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events-0000000000000001.jsonl.zst"
    whole = packed(os.urandom(300_000))

    def error(data: bytes) -> str:
        path.write_bytes(data)
        return file_facts(str(path), Care.EXACT).error

    assert error(whole) == error(b"") == ""
    assert error(whole[:-9]).startswith("it is cut off: its compression ends after ")
    assert error(b"{" + whole).startswith("its compression is damaged after 0 bytes of text (")
    of_a_wide_window = bytes.fromhex("28b52ffd00a0") + bytes(3)
    assert error(of_a_wide_window).startswith("it was compressed with a window of more than 8,388,608 bytes")
    monkeypatch.setattr(packed_files, "UNPACKED_BYTES_MAX", 100_000)
    assert error(packed(bytes(100_000))) == ""
    assert error(packed(bytes(100_001))).startswith("it unpacks to more than 100,000 bytes")


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = read_facts([str(tmp_path / name) for name in ("gone", "pipe", "")])
    assert [one.error for one in found] == ["No such file or directory", *["it is not a regular file"] * 2]


def test_many_files_in_order(tmp_path: Path) -> None:
    paths = []
    for number in range(50):
        paths.append(str(tmp_path / f"{number}"))
        Path(paths[-1]).write_bytes(b"%d\n" % number * number)
    heard: list[int] = []
    found = read_facts(paths, heard.append)
    assert [one.path for one in found] == paths
    assert heard == [one.size for one in found]
