"""A failing disk, and a crash before every step of sealing and pruning."""

import json
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from samples.log_facts import read_log
from samples.logs import KEY, Store, file_lines, names, open_log, outward, problems, seal_each

from router.core.log.events import RouterChange
from router.disk.log.file import LogNotWritten

# -- a disk that fails ------------------------------------------------------------------------------------


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the system refuse to write more, as on a full disk."""
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
    """Raised to end the process at this step."""


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
    """Run a router from start to stop: seal, delete from the store, and prune, until that many events are sealed."""
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
                store.commit(RouterChange(5, 6, "config", ()))
    finally:
        sealer.close()


@pytest.mark.parametrize("events", [40, pytest.param(120, marks=pytest.mark.long)])
def test_a_crash_at_any_step_loses_and_doubles_nothing(tmp_path: Path, events: int) -> None:
    crashes = 0
    for number in range(1000):
        home, after = tmp_path / "log", tmp_path / f"after-{number}"
        shutil.rmtree(home, ignore_errors=True)
        store = Store()
        store.commit(outward(1))
        try:
            with STEPS.crash_at(number, home):
                live(home, store, events)
            break
        except Crash:
            crashes += 1
            shutil.copytree(home, after) if home.exists() else after.mkdir()
        live(after, store, events + 10)
        log = read_log(after, KEY.public)
        assert log.problems == [], number
        [found] = log.evidence.logs
        assert found.whole and found.last >= events + 10
        assert [line.seq for line in log.lines] == list(range(found.pruned_to + 1, found.last + 1))
    assert crashes > 50
    assert any(line.segments > 1 for line in file_lines(home / "pruned.jsonl"))  # It went through folding too.


@pytest.mark.parametrize("keep", [0, 1, 200, -1])
def test_a_footer_torn_in_writing_is_written_again(tmp_path: Path, keep: int) -> None:
    """The crash comes while the footer is written, before any segment is removed."""
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
    copies = {path: path.read_bytes() for path in tmp_path.glob("events-*")}
    segments.prune(1e6, 1, 0)
    for path, data in list(copies.items())[:2]:
        path.write_bytes(data)
    assert problems(tmp_path) == []
    segments, _ = open_log(tmp_path)
    assert segments.prune(1e6, 1, 0) == 2
    assert (problems(tmp_path), names(tmp_path)) == ([], ["pruned.jsonl"])
    assert [footer.first_seq for footer in file_lines(tmp_path / "pruned.jsonl")] == [1, 2, 3]


def test_a_reader_of_the_directory_sees_whole_segments_only(tmp_path: Path) -> None:
    """Spark's file source takes each file once, as it finds it, unless its name begins with a dot or underscore."""
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
