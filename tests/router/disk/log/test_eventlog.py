"""Sealing in a real directory, and opening an existing one."""

import json
import resource
from pathlib import Path

import pytest
from samples.logs import BOOT, KEY, OTHER, Store, file_lines, names, open_log, outward, problems, seal_each

from router.core.log.events import RouterChange, encode_events
from router.core.wire.codec import Malformed
from router.disk.limits import LogLimits
from router.disk.log.eventlog import ForeignLog, Segments
from router.disk.log.file import LogNotWritten
from spark_analytics.judgement.log_files import ASIDE

MISSING = "its router found them missing when it sealed its log, and wrote down so"

# -- sealing ----------------------------------------------------------------------------------------------


def test_a_new_log(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path / "log")
    assert (segments.last_sealed(), segments.head(), segments.predecessor()) == (0, (0, bytes(32)), None)
    assert (sealer.next_seq, sealer.due(1e9), sealer.seal()) == (1, False, 0)
    assert names(tmp_path / "log") == []
    assert repr(segments) == "<Segments: 0 kept, 0 bytes, sealed up to 0>"
    assert repr(sealer) == "<Sealer: nothing open, next is 1>"


def test_what_was_added_is_in_the_segment(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path)
    store = Store()
    assert sealer.add(store.commit(RouterChange(5, 6, "start", ()), outward(3, 2)), 0)
    assert names(tmp_path) == [".open-0000000000000001"]
    assert sealer.add(store.commit(outward(9)), 0)
    assert repr(sealer).startswith("<Sealer: 3 lines, ") and repr(sealer).endswith("open, next is 4>")
    assert (sealer.seal(), sealer.next_seq, segments.last_sealed()) == (3, 4, 3)
    assert names(tmp_path) == ["events-0000000000000001.jsonl"]
    lines = file_lines(tmp_path / "events-0000000000000001.jsonl")
    assert [line.event for line in lines] == ["segment", "start", "delivered", "delivered", "seal"]
    assert segments.head() == (3, bytes.fromhex(lines[-1].sha256 or ""))
    assert problems(tmp_path) == []


def test_segments_are_a_chain(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 1, 2, 3)
    one, two, three = (file_lines(path) for path in sorted(tmp_path.glob("events-*")))
    assert (one[0].predecessor, two[0].predecessor, three[0].predecessor) == (
        None, one[-1].sha256, two[-1].sha256,
    )  # fmt: skip
    assert (two[0].first_seq, segments.predecessor()) == (2, three[-1].sha256)
    assert problems(tmp_path) == []


def test_a_log_is_private(tmp_path: Path) -> None:
    seal_each(tmp_path / "log", 1)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "log" / "events-0000000000000001.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_segment_is_due_at_its_size_or_its_age(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path, segment_bytes=2000, segment_s=60)
    store = Store()
    sealer.add(store.commit(outward(1)), 100.0)
    sealer.add(store.commit(outward(1)), 159.0)
    assert [sealer.due(now) for now in (100.0, 159.9, 160.0)] == [False, False, True]
    while not sealer.due(101.0):
        sealer.add(store.commit(outward(1)), 101.0)
    size = (tmp_path / ".open-0000000000000001").stat().st_size
    sealer.seal()
    sealed = (tmp_path / "events-0000000000000001.jsonl").read_bytes()
    named = json.dumps(json.loads(sealed.splitlines()[0])["reasons"])  # by what this process has loaded
    assert size <= 2000 < len(sealed) - len(named) < 4000
    assert not sealer.due(1e9)


def test_what_is_sealed_or_taken_is_not_taken_again(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    one, two, three = store.commit(outward(1)), store.commit(outward(1), outward(2)), store.commit(outward(3))
    assert [sealer.add(value, 0) for value in (one, one, two)] == [True, False, True]
    sealer.seal()
    assert [sealer.add(value, 0) for value in (one, two, three, three)] == [False, False, True, False]
    sealer.close()
    _, again = open_log(tmp_path)
    assert [again.add(value, 0) for value in (one, two, three)] == [False, False, True]
    assert again.seal() == 4
    assert problems(tmp_path) == []


def test_an_empty_batch_is_nothing(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    assert not sealer.add(encode_events([], 1, BOOT), 0)
    assert (sealer.seal(), names(tmp_path)) == (0, [])


def test_runs_of_the_router_share_a_segment(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(RouterChange(5, 6, "stop", ())), 0)
    sealer.add(store.commit(RouterChange(7, 1, "start", ()), boot=bytes(16)), 0)
    sealer.seal()
    lines = file_lines(tmp_path / "events-0000000000000001.jsonl")
    assert [line.boot for line in lines] == [BOOT.hex(), BOOT.hex(), "00" * 16, None]
    assert problems(tmp_path) == []


def test_what_was_never_written_is_recorded_as_a_gap(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(outward(1)), 0)
    store.commit(outward(2), outward(3))
    sealer.add(store.commit(outward(4)), 0)
    store.commit(outward(5))
    sealer.seal()
    sealer.add(store.commit(outward(6)), 0)
    assert sealer.seal() == 6
    assert problems(tmp_path) == [f"events 2 to 3: {MISSING}", f"events 5 to 5: {MISSING}"]


def test_a_value_that_cannot_be_read_becomes_a_gap(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(outward(1)), 0)
    damaged = store.commit(outward(2))[:-1]
    with pytest.raises(Malformed):
        sealer.add(damaged, 0)
    sealer.add(store.commit(outward(3)), 0)
    sealer.seal()
    assert problems(tmp_path) == [f"events 2 to 2: {MISSING}"]


def test_closing_leaves_the_values_to_the_store(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(outward(1)), 0)
    sealer.close()
    sealer.close()
    assert (names(tmp_path), sealer.next_seq, sealer.seal()) == ([], 1, 0)
    assert sealer.add(store.values[1], 0)
    assert sealer.seal() == 1


# -- opening ----------------------------------------------------------------------------------------------


def test_a_restart_knows_how_far_the_log_is(tmp_path: Path) -> None:
    head = seal_each(tmp_path, 1, 2).head()
    segments, sealer = open_log(tmp_path)
    assert (segments.head(), segments.last_sealed(), sealer.next_seq) == (head, 2, 3)
    assert repr(segments).startswith("<Segments: 2 kept, ")


def test_half_written_files_of_a_crash_are_thrown_away(tmp_path: Path) -> None:
    seal_each(tmp_path, 1)
    (tmp_path / ".open-0000000000000002").write_bytes(b'{"v":1,"event":"segm')
    (tmp_path / ".pruned.jsonl.0123456789abcdef").write_bytes(b"{")
    segments, _ = open_log(tmp_path)
    assert (segments.last_sealed(), names(tmp_path)) == (1, ["events-0000000000000001.jsonl"])


def test_the_log_of_another_router_is_not_continued(tmp_path: Path) -> None:
    seal_each(tmp_path, 1)
    with pytest.raises(ForeignLog, match=f"belongs to the log of the router {KEY.public.hex()}, not of"):
        Segments(tmp_path, OTHER, LogLimits())


def test_a_damaged_segment_is_set_aside_never_overwritten(tmp_path: Path) -> None:
    seal_each(tmp_path, 1, 2)
    second = tmp_path / "events-0000000000000002.jsonl"
    damaged = second.read_bytes()[:-5]
    second.write_bytes(damaged)
    segments, sealer = open_log(tmp_path)
    assert segments.last_sealed() == 1
    sealer.add(encode_events([outward(9)], 3, BOOT), 0)
    assert sealer.seal() == 3
    assert (tmp_path / ".aside-events-0000000000000002.jsonl").read_bytes() == damaged
    assert problems(tmp_path) == [
        f".aside-events-0000000000000002.jsonl: {ASIDE}",
        f"events 2 to 2: {MISSING}",
    ]


def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    with pytest.raises(LogNotWritten, match="log failed: File exists"):
        open_log(tmp_path / "log")


def test_too_few_file_descriptors_are_not_called_a_failing_disk(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(LogNotWritten, match=r"Too many open files\. .* raise the limit of open file descriptors"):
            sealer.add(Store().commit(outward(1)), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
