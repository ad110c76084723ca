"""Old segments are compressed in place: nothing else about the log changes, whatever happens meanwhile."""

from __future__ import annotations

import os
from errno import ENOSPC
from pathlib import Path

import pytest
from samples.log_facts import read_log
from samples.logs import BOOT, KEY, names, open_log, outward, problems, seal_each
from samples.packed_logs import text_of
from samples.stores import opened

from router.core.log.events import encode_events
from router.core.wire.now import Now
from router.disk.limits import LogLimits
from router.disk.log import eventlog, logbook
from router.disk.log import index as log_index
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.log.search import LogSnapshot, Search
from router.disk.snapshot import take

FIRST, SECOND, THIRD = (f"events-000000000000000{number}.jsonl" for number in (1, 2, 3))


def fail(*_: object) -> None:
    raise OSError(ENOSPC, os.strerror(ENOSPC))


def test_segments_older_than_the_age_are_compressed_oldest_first(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    texts = {path.name: path.read_bytes() for path in tmp_path.glob("events-*")}
    assert segments.compress(250, 150, 8) == 0
    assert segments.compress(350.5, 150, 1) == 1
    assert names(tmp_path) == [f"{FIRST}.zst", SECOND, THIRD]
    assert segments.compress(350.5, 150, 8) == 1
    assert names(tmp_path) == [f"{FIRST}.zst", f"{SECOND}.zst", THIRD]
    assert {path.name.removesuffix(".zst"): text_of(path) for path in tmp_path.glob("events-*")} == texts
    assert (tmp_path / f"{FIRST}.zst").stat().st_mode & 0o777 == 0o600
    assert problems(tmp_path) == []


def test_log_of_compressed_segments_goes_on_where_it_was(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200)
    segments.compress(1e6, 1, 8)
    again, sealer = open_log(tmp_path)
    assert (again.head(), again.newest_ns()) == (segments.head(), segments.newest_ns())
    assert again.runs(1, 9) == {BOOT.hex(): (1, 2)}
    assert [(one.size, one.stored) for one in again.kept()] == [(one.size, one.stored) for one in segments.kept()]
    sealer.add(encode_events([outward(3)], 3, BOOT), 0)
    assert sealer.seal() == 3
    assert problems(tmp_path) == []
    assert len(list(tmp_path.glob(".index-*"))) == 3, "no index is taken for an orphan"


def test_compressed_segments_are_pruned_by_their_size_on_the_disk(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    segments.compress(1e6, 1, 8)
    size = sum(path.stat().st_size for path in tmp_path.glob("events-*"))
    assert size < sum(one.size for one in segments.kept())
    assert segments.prune(300, 1e6, size) == 0
    assert segments.prune(300, 1e6, size - 1) == 1
    assert names(tmp_path) == [f"{SECOND}.zst", f"{THIRD}.zst", "pruned.jsonl"]
    assert problems(tmp_path) == []


def test_segment_whose_lines_are_not_as_signed_stays_as_it_is(tmp_path: Path) -> None:
    seal_each(tmp_path, 100, 200)
    path = tmp_path / FIRST
    path.write_bytes(damaged := path.read_bytes().replace(b'"depth":9', b'"depth":8'))
    segments, _ = open_log(tmp_path)
    assert segments.compress(1e6, 1, 8) == 1 and segments.compress(1e6, 1, 8) == 0
    assert names(tmp_path) == [FIRST, f"{SECOND}.zst"] and path.read_bytes() == damaged


def test_crash_before_or_after_the_rename_loses_nothing(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100)
    text = (tmp_path / FIRST).read_bytes()
    segments.compress(1e6, 1, 8)
    (tmp_path / FIRST).write_bytes(text)  # the plain one was not removed yet
    (tmp_path / f".open-{FIRST}.zst").write_bytes(b"half")
    again, _ = open_log(tmp_path)
    assert names(tmp_path) == [FIRST, f"{FIRST}.zst"]
    assert [one.path.name for one in again.kept()] == [FIRST]
    assert [file.status for file in read_log(tmp_path, KEY.public).evidence.files] == ["good", "copy"]
    assert again.compress(1e6, 1, 8) == 1
    assert names(tmp_path) == [f"{FIRST}.zst"] and text_of(tmp_path / f"{FIRST}.zst") == text
    (tmp_path / FIRST).write_bytes(text)
    again, _ = open_log(tmp_path)
    assert again.prune(1e6, 1, 1 << 30) == 1
    assert names(tmp_path) == ["pruned.jsonl"]


def test_disk_that_fails_leaves_the_plain_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = seal_each(tmp_path, 100)
    with monkeypatch.context() as patch:
        patch.setattr(eventlog, "finish", fail)
        with pytest.raises(OSError, match="No space left"):
            segments.compress(1e6, 1, 8)
    assert names(tmp_path) == [FIRST]
    assert segments.compress(1e6, 1, 8) == 1


def test_spoilt_compressed_segment_is_set_aside_when_written_again(tmp_path: Path) -> None:
    seal_each(tmp_path, 100, 200).compress(1e6, 1, 8)
    (tmp_path / f"{SECOND}.zst").write_bytes(b"rubbish")
    segments, sealer = open_log(tmp_path)
    assert [path.name for path in segments.spoilt()] == [f"{SECOND}.zst"]
    sealer.add(encode_events([outward(200)], 2, BOOT), 0)
    assert sealer.seal() == 2
    assert names(tmp_path) == [f".aside-{SECOND}.zst", f"{FIRST}.zst", SECOND] and segments.spoilt() == []


def test_search_that_began_before_finds_what_is_compressed_meanwhile(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200)
    before = segments.kept()
    segments.compress(1e6, 1, 8)
    for kept in (before, segments.kept()):
        for one in kept:
            log_index.path_of(one.path).unlink(missing_ok=True)
        search = Search(LogSnapshot(kept, [], 0))
        lines = [line for span in search._spans() for line in search._lines(span, 0, None, (b'"delivered"',))]
        assert [line.seq for line in lines if line.event == "delivered"] == [1, 2]


async def test_running_log_compresses_what_is_old_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logbook, "COMPRESSED_MAX", 2)
    seal_each(tmp_path / "log", 100, 200, 300, 400)
    store = opened(tmp_path / "store")
    segments = Segments(tmp_path / "log", KEY, LogLimits(compress_after_s=3600))
    book = Logbook(segments, store, 1e9, 1 << 40)
    now = Now((400 + 3599) * 10**9, 10**12)
    seen = []
    while book.is_due(now):
        await book.tidy(now)
        seen.append(sum(name.endswith(".zst") for name in names(tmp_path / "log")))
    assert seen == [2, 3], "the last is too young, and nothing is due until a minute has passed"
    assert problems(tmp_path / "log") == []
    book.close()
    store.close()


async def test_log_that_cannot_be_compressed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seal_each(tmp_path / "log", 100)
    store = opened(tmp_path / "store")
    book = Logbook(Segments(tmp_path / "log", KEY, LogLimits(compress_after_s=1)), store, 1e9, 1 << 40)
    monkeypatch.setattr(eventlog, "finish", fail)
    await book.tidy(now := Now(10**18, 10**12))
    assert "are not compressed: No space left on device; make room there" in caplog.text
    assert not book.is_due(now) and names(tmp_path / "log") == [FIRST]
    book.close()
    store.close()


def test_snapshot_has_a_segment_that_is_compressed_while_it_is_taken(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    segments = seal_each(log, 100, 200)
    copy.mkdir()
    plain = log / FIRST
    segments.compress(1e6, 1, 1)
    assert not take._link(plain, copy)
    take._link_log(log, tmp_path / "all")
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [f"{FIRST}.zst", SECOND]
    assert problems(tmp_path / "all") == []
