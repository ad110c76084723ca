"""Sealing and pruning on a real directory, with a crash before every step."""

import json
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from router.core.codec import Malformed
from router.core.crypto import SigningKey
from router.core.events import Event, Outward, State, encode_events, span
from router.core.line import Line, decode_line
from router.eventlog import ForeignLog, Limits, LogNotWritten, Sealer, Segments
from router.logchain import Segment, read_segments

KEY, OTHER = SigningKey(b"r" * 32), SigningKey(b"x" * 32)
BOOT = bytes(range(16))
SECOND = 1_000_000_000


def outward(at_s: int, count: int = 1) -> Outward:
    return Outward(at_s * SECOND, 6, "delivered", bytes(32), 4, ((7, count),), None, 0, 9, 500)


class Store:
    """What the node's store does for the log: values by their last sequence number, deleted when they are sealed."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.last = 0

    def commit(self, *events: Event, boot: bytes = BOOT) -> bytes:
        value = encode_events(events, self.last + 1, boot)
        self.last += sum(map(span, events))
        self.values[self.last] = value
        return value

    def delete(self, up_to: int) -> None:
        self.values = {last: value for last, value in self.values.items() if last > up_to}


def open_log(directory: Path, **limits: float) -> tuple[Segments, Sealer]:
    segments = Segments(directory, KEY, Limits(**limits))  # type: ignore[arg-type]
    return segments, Sealer(segments)


def seal_each(directory: Path, *times_s: int) -> Segments:
    """A log with one segment of one event for each of the times."""
    segments, sealer = open_log(directory)
    store = Store()
    store.last = segments.last_sealed()
    for at_s in times_s:
        sealer.add(store.commit(outward(at_s)), 0)
        sealer.seal()
    return segments


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def file_lines(path: Path) -> list[Line]:
    return [decode_line(line) for line in path.read_bytes().splitlines()]


def problems(directory: Path) -> list[str]:
    found = read_segments(directory, KEY.public)
    return [str(one).removeprefix(f"{directory}/") for segment in found for one in segment.problems]


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
    assert sealer.add(store.commit(State(5, 6, "start", ()), outward(3, 2)), 0)
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
    one, two, three = (file_lines(path) for path in sorted(tmp_path.iterdir()))
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
    assert size <= 2000 < (tmp_path / "events-0000000000000001.jsonl").stat().st_size < 4000
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
    sealer.add(store.commit(State(5, 6, "stop", ())), 0)
    sealer.add(store.commit(State(7, 1, "start", ()), boot=bytes(16)), 0)
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
    assert problems(tmp_path) == [
        "events-0000000000000001.jsonl:3: the log records a gap: 2 to 3 were never written",
        "events-0000000000000005.jsonl:2: the log records a gap: 5 to 5 were never written",
    ]
    assert [segment.gaps for segment in read_segments(tmp_path)] == [((2, 3),), ((5, 5),)]


def test_a_value_that_cannot_be_read_becomes_a_gap(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(outward(1)), 0)
    damaged = store.commit(outward(2))[:-1]
    with pytest.raises(Malformed):
        sealer.add(damaged, 0)
    sealer.add(store.commit(outward(3)), 0)
    sealer.seal()
    assert problems(tmp_path) == [
        "events-0000000000000001.jsonl:3: the log records a gap: 2 to 2 were never written"
    ]


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
        Segments(tmp_path, OTHER, Limits())


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
        ".aside-events-0000000000000002.jsonl: "
        "was set aside when a segment of that name was written again; compare the two",
        "events-0000000000000002.jsonl:2: the log records a gap: 2 to 2 were never written",
    ]


def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    with pytest.raises(LogNotWritten, match="log failed: File exists"):
        open_log(tmp_path / "log")


# -- pruning ----------------------------------------------------------------------------------------------


def test_segments_older_than_the_time_to_keep_go_and_leave_their_footers(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    footers = [path.read_bytes().splitlines(keepends=True)[-1] for path in sorted(tmp_path.iterdir())]
    assert segments.prune(250, 150, 1 << 30) == 0
    assert segments.prune(251, 151, 1 << 30) == 0
    assert segments.prune(350.5, 150, 1 << 30) == 2
    assert names(tmp_path) == ["events-0000000000000003.jsonl", "pruned.jsonl"]
    assert (tmp_path / "pruned.jsonl").read_bytes() == b"".join(footers[:2])
    assert (tmp_path / "pruned.jsonl").stat().st_mode & 0o777 == 0o600
    assert (problems(tmp_path), segments.last_sealed()) == ([], 3)


def test_segments_beyond_the_size_to_keep_go_oldest_first(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 100, 200, 300)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert segments.prune(300, 1e6, size) == 0
    assert segments.prune(300, 1e6, size - 1) == 1
    assert names(tmp_path) == [
        "events-0000000000000002.jsonl", "events-0000000000000003.jsonl", "pruned.jsonl",
    ]  # fmt: skip
    assert problems(tmp_path) == []


def test_a_log_that_is_pruned_away_goes_on_where_it_was(tmp_path: Path) -> None:
    head = seal_each(tmp_path, 100, 200).head()
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 1 << 30) == 2
    segments, sealer = open_log(tmp_path)
    assert (segments.head(), names(tmp_path)) == (head, ["pruned.jsonl"])
    assert not sealer.add(encode_events([outward(2)], 2, BOOT), 0)
    sealer.add(encode_events([outward(3)], 3, BOOT), 0)
    assert sealer.seal() == 3
    assert problems(tmp_path) == []
    assert [segment.pruned for segment in read_segments(tmp_path)] == [True, True, False]
    assert segments.prune(1e6, 1, 1 << 30) == 1
    assert [line.first_seq for line in file_lines(tmp_path / "pruned.jsonl")] == [1, 2, 3]


def test_an_old_event_keeps_its_place_behind_a_younger_one(tmp_path: Path) -> None:
    """The chain is pruned from its old end only, whatever a clock said meanwhile."""
    segments = seal_each(tmp_path, 300, 100, 200)
    assert segments.prune(350, 100, 1 << 30) == 0


def test_a_damaged_segment_is_not_pruned(tmp_path: Path) -> None:
    seal_each(tmp_path, 100, 200)
    first = tmp_path / "events-0000000000000001.jsonl"
    first.write_bytes(first.read_bytes() + b"{}\n")
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 0) == 1
    assert names(tmp_path) == ["events-0000000000000001.jsonl", "pruned.jsonl"]


def test_pruned_footers_fold_when_they_grow_too_large(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path, pruned_bytes=4000)
    store = Store()
    for at_s in range(60):
        sealer.add(store.commit(outward(at_s)), 0)
        sealer.seal()
        segments.prune(1e6, 1, 0)
        assert (tmp_path / "pruned.jsonl").stat().st_size <= 4000
    footers = file_lines(tmp_path / "pruned.jsonl")
    assert (footers[0].first_seq, footers[-1].last_seq) == (1, 60)
    assert sum(footer.segments for footer in footers) == 60 > 10 > len(footers)
    assert sum((footer.counts or {})["delivered"] for footer in footers) == 60
    assert problems(tmp_path) == []
    assert open_log(tmp_path)[0].head() == segments.head()


def test_folding_signs_nothing_that_was_tampered_with(tmp_path: Path) -> None:
    seal_each(tmp_path, *range(6)).prune(1e6, 1, 0)
    pruned = tmp_path / "pruned.jsonl"
    pruned.write_bytes(pruned.read_bytes().replace(b'"last_seq":2', b'"last_seq":8'))
    segments, sealer = open_log(tmp_path, pruned_bytes=1)
    sealer.add(encode_events([outward(7)], 7, BOOT), 0)
    sealer.seal()
    segments.prune(1e6, 1, 0)
    assert [(line.first_seq, line.last_seq) for line in file_lines(pruned)] == [
        (1, 1), (3, 3), (2, 8), (4, 4), (5, 5), (6, 6), (7, 7),
    ]  # fmt: skip
    text = "the signature of this footer of a pruned segment does not fit what it says"
    assert problems(tmp_path) == [
        f"pruned.jsonl:3: {text}",
        "pruned.jsonl: the sequence numbers 2 to 2 before this segment are missing",
    ]


# -- a disk that fails ------------------------------------------------------------------------------------


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to write further, as on a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(outward(1)), 0)
    sealer.seal()
    for at_s in range(2, 40):
        store.commit(outward(at_s))
    with no_file_larger_than(3000):
        for value in store.values.values():
            sealer.add(value, 0)
        with pytest.raises(LogNotWritten, match="failed: File too large"):
            sealer.seal()
    assert (sealer.next_seq, segments.last_sealed()) == (2, 1)
    assert names(tmp_path) == ["events-0000000000000001.jsonl"]
    for value in store.values.values():
        sealer.add(value, 0)
    assert (sealer.seal(), problems(tmp_path)) == (39, [])


def test_a_disk_that_fills_while_a_segment_is_written(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    value = Store().commit(*(outward(at_s) for at_s in range(2000)))
    with no_file_larger_than(100_000), pytest.raises(LogNotWritten):
        sealer.add(value, 0)
    assert names(tmp_path) == []
    assert sealer.add(value, 0)
    assert (sealer.seal(), problems(tmp_path)) == (2000, [])


def test_a_full_disk_does_not_lose_a_footer(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 1, 2, 3)
    with no_file_larger_than(700), pytest.raises(LogNotWritten):
        segments.prune(1e6, 1, 0)
    assert len(names(tmp_path)) == 4
    assert (problems(tmp_path), segments.prune(1e6, 1, 0)) == ([], 3)
    assert (names(tmp_path), problems(tmp_path)) == (["pruned.jsonl"], [])


# -- a crash at every step --------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here."""


class Steps:
    """Counts what is done to files below a directory, and crashes before step number `crash_at`."""

    EVENTS = frozenset(("open", "os.rename", "os.remove", "os.truncate", "os.mkdir"))

    def __init__(self) -> None:
        self.below = ""
        self.left = 0
        sys.addaudithook(self.step)

    def step(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.below and event in self.EVENTS and str(arguments[0]).startswith(self.below):
            self.left -= 1
            if self.left < 0:
                raise Crash

    @contextmanager
    def crash_at(self, number: int, below: Path) -> Iterator[None]:
        self.below, self.left = str(below), number
        try:
            yield
        finally:
            self.below = ""


STEPS = Steps()


def live(directory: Path, store: Store, until: int) -> None:
    """A router from start to stop: seals, deletes from the store, prunes, until so many events are sealed."""
    segments, sealer = open_log(directory, pruned_bytes=2500)
    try:
        while segments.last_sealed() < until:
            for value in list(store.values.values()):
                sealer.add(value, 0)
                if len(store.values) > 1 and store.last < until:
                    store.commit(outward(store.last + 1), outward(store.last + 2, 3))
            store.delete(sealer.seal())
            segments.prune(1e6, 1e9, 8000)
            if store.last < until:
                store.commit(outward(store.last + 1))
                store.commit(State(5, 6, "config", ()))
    finally:
        sealer.close()


def whole_log(directory: Path) -> tuple[list[Segment], list[str]]:
    return list(read_segments(directory, KEY.public)), problems(directory)


def test_a_crash_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    crashes = 0
    for number in range(1000):
        home, after = tmp_path / "log", tmp_path / f"after-{number}"
        shutil.rmtree(home, ignore_errors=True)
        store = Store()
        store.commit(outward(1))
        try:
            with STEPS.crash_at(number, home):
                live(home, store, 120)
            break
        except Crash:
            crashes += 1
            shutil.copytree(home, after) if home.exists() else after.mkdir()
        live(after, store, 130)
        found, texts = whole_log(after)
        assert texts == [], number
        covered = [(line.first_seq, line.last_seq) for segment in found if (line := segment.footer)]
        assert covered[0][0] == 1 and covered[-1][1] >= 130
        assert all(one[1] + 1 == two[0] for one, two in pairwise(covered))
        kept = [line for segment in found for _, line in segment.events()]
        pruned = [segment.footer.last_seq for segment in found if segment.pruned and segment.footer]
        assert [line.seq for line in kept] == list(range(max(pruned, default=0) + 1, covered[-1][1] + 1))
    assert crashes > 50
    assert any(
        line.segments > 1 for line in file_lines(home / "pruned.jsonl")
    )  # It went through folding too.


@pytest.mark.parametrize("keep", [0, 1, 200, -1])
def test_a_footer_torn_in_writing_is_written_again(tmp_path: Path, keep: int) -> None:
    """A crash within the write of the footers, before any segment goes."""
    segments = seal_each(tmp_path, 1, 2, 3)
    segments.prune(1e6, 1e9, 2 * (tmp_path / "events-0000000000000003.jsonl").stat().st_size)
    line = (tmp_path / "events-0000000000000002.jsonl").read_bytes().splitlines(keepends=True)[-1]
    with (tmp_path / "pruned.jsonl").open("ab") as file:
        file.write(line[:keep])
    assert problems(tmp_path) == []
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 0) == 2
    assert problems(tmp_path) == []
    assert [footer.first_seq for footer in file_lines(tmp_path / "pruned.jsonl")] == [1, 2, 3]


def test_a_crash_between_the_footers_and_the_removal(tmp_path: Path) -> None:
    segments = seal_each(tmp_path, 1, 2, 3)
    copies = {path: path.read_bytes() for path in tmp_path.iterdir()}
    segments.prune(1e6, 1, 0)
    for path, data in list(copies.items())[:2]:
        path.write_bytes(data)
    assert problems(tmp_path) == []
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 0) == 2
    assert (problems(tmp_path), names(tmp_path)) == ([], ["pruned.jsonl"])
    assert [footer.first_seq for footer in file_lines(tmp_path / "pruned.jsonl")] == [1, 2, 3]


def test_a_reader_of_the_directory_sees_whole_segments_only(tmp_path: Path) -> None:
    """Spark's file source takes each file that does not begin with a dot or underline once, as it finds it."""
    _, sealer = open_log(tmp_path)
    store = Store()
    seen: dict[str, bytes] = {}
    for at_s in range(1, 30):
        sealer.add(store.commit(outward(at_s)), 0)
        if at_s % 7 == 0:
            sealer.seal()
        for path in tmp_path.iterdir():
            if not path.name.startswith("."):
                data = path.read_bytes()
                assert seen.setdefault(path.name, data) == data
                assert json.loads(data.splitlines()[-1])["event"] == "seal"
    sealer.close()
    assert len(seen) == 4
