"""One message in the log, found by the indexes: compared with reading every line, over whatever the log consists of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import pack

import pytest
from log_samples import KEY, Store, open_log

from router.core.events import Accepted, Event, Outward, State, Turned
from router.core.id_prefix import IdPrefix, parse_prefix
from router.core.line import Line, rows
from router.disk import log_index
from router.disk.eventlog import Segments
from router.disk.log_search import CANDIDATES_MAX, Found, Log, Search
from router.disk.sealer import Sealer

PEER, GROUP, *RECIPIENTS = (bytes([number]) * 32 for number in range(1, 6))


Begin = Callable[..., "Scene"]


class Scene:
    """A log with what a node might write: parcels, what became of them, duplicates. `lines`: all of it, read back."""

    def __init__(self, directory: Path, seed: int, *, older: bool = False) -> None:
        self.chance = random.Random(seed)
        self.segments, self.sealer = open_log(directory)
        self.store = Store()
        self.lines: list[Line] = []
        self.ids: dict[bytes, tuple[int, int]] = {}  # id -> (first, index)
        self.parcels: list[tuple[int, int]] = []
        self.arrival = 5000
        self.older = older

    def accept(self, count: int) -> Accepted:
        ids = [self.chance.randbytes(32) for _ in range(count)]
        self.ids.update({one: (self.arrival, at) for at, one in enumerate(ids)})
        self.parcels.append((self.arrival, count))
        column = pack(f"<{count}I", *[60] * count)
        event = Accepted(5, 6, self.arrival, 1, GROUP, None, PEER, 1, tuple(RECIPIENTS), b"".join(ids), *[column] * 3)
        self.arrival += count
        return event

    def outward(self) -> Outward:
        first, count = self.chance.choice(self.parcels)
        start = self.chance.randrange(count)
        ranges = ((first + start, self.chance.randint(1, count - start)),)
        name, whom = self.chance.choice(["forwarded", "delivered", "deferred"]), self.chance.choice(RECIPIENTS)
        return Outward(5, 6, name, whom, 1, ranges, None, 0, 1, 0, None if self.older else first)

    def turned(self) -> Turned:
        ids = b"".join(self.chance.sample(sorted(self.ids), min(2, len(self.ids))))
        return Turned(5, 6, "duplicate", PEER, 1, 5, ids, len(ids) // 32, None)

    def value(self) -> bytes:
        events: list[Event] = [self.accept(self.chance.choice([1, 2, 40]))]
        events += [self.outward() for _ in range(self.chance.randrange(8))]
        events += [self.turned()] if self.chance.random() < 0.3 else []
        events += [State(5, 6, "join", ())] if self.chance.random() < 0.3 else []
        self.chance.shuffle(events)
        value = self.store.commit(*events)
        self.lines += rows(value, KEY.public)
        return value

    def write(self, values: int) -> None:
        for _ in range(values):
            self.sealer.add(self.value(), 0)

    def log(self) -> Log:
        return Log(self.segments.kept(), self.sealer.unsealed(), self.segments.pruned_seq)

    def find(self, identity: bytes) -> Found:
        return Search(self.log()).find(IdPrefix(identity, 256))

    def check(self, identity: bytes) -> None:
        """What is found is what reading every line finds."""
        found = self.find(identity)
        assert found.trace is not None and not found.unsearched
        first, index = self.ids[identity]
        naming = [line for line in self.lines if identity.hex() in _ids(line)]
        about = [
            line
            for line in self.lines
            if any(start <= first + index < start + count for start, count in line.ranges or ())
        ]
        assert _seqs(found.trace.accepted) == _seqs(line for line in naming if line.event == "accepted")
        assert _seqs(found.trace.turned) == _seqs(line for line in naming if line.event == "duplicate")
        assert _seqs(found.trace.outward) == _seqs(about)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def one(seed: int, *, older: bool = False) -> Scene:
        scenes.append(Scene(tmp_path, seed, older=older))
        return scenes[-1]

    yield one
    for scene in scenes:
        scene.sealer.close()


def _ids(line: Line) -> list[str]:
    return [line.ids[at : at + 64] for at in range(0, len(line.ids), 64)] if line.ids else []


def _seqs(lines: Iterable[Line]) -> list[int]:
    return sorted(line.seq for line in lines)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_found_is_what_every_line_says(tmp_path: Path, begin: Begin, seed: int, older: bool) -> None:
    """Sealed, being closed, and open; made by the sealer and made again from the file."""
    scene = begin(seed, older=older)
    for _ in range(4):
        scene.write(12)
        scene.sealer.seal()
    scene.write(6)
    closing = scene.sealer.begin_seal()
    scene.write(6)
    for identity in scene.chance.sample(sorted(scene.ids), 60):
        scene.check(identity)
    assert closing is not None
    closing.write()
    scene.sealer.end_seal()
    for path in tmp_path.glob(f"{log_index.INDEX}*"):
        path.unlink()
    for identity in scene.chance.sample(sorted(scene.ids), 60):
        scene.check(identity)
    assert len(list(tmp_path.glob(f"{log_index.INDEX}*"))) == 5, "they have been written again"


def test_a_segment_that_is_renamed_between_looking_and_reading(begin: Begin) -> None:
    scene = begin(4)
    scene.write(5)
    closing = scene.sealer.begin_seal()
    log = scene.log()
    assert closing is not None
    closing.write()
    scene.sealer.end_seal()
    found = Search(log).find(IdPrefix(next(iter(scene.ids)), 256))
    assert found.trace is not None and found.trace.accepted


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_an_index_that_does_not_fit_is_made_again(tmp_path: Path, begin: Begin, damage: bytes | None) -> None:
    scene = begin(5)
    scene.write(10)
    scene.sealer.seal()
    [path] = tmp_path.glob(f"{log_index.INDEX}*")
    good = path.read_bytes()
    path.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:] if damage is None else damage)
    for identity in list(scene.ids)[:20]:
        scene.check(identity)
    [one] = scene.segments.kept()
    assert log_index.read(one.path, one.size, one.footer.sha256 or "") is not None


def test_without_time_to_make_an_index_the_segment_is_told_of(begin: Begin) -> None:
    scene = begin(6)
    scene.write(10)
    scene.sealer.seal()
    sealed = scene.segments.last_sealed()
    scene.write(1)
    log_index.path_of(scene.segments.kept()[0].path).unlink()
    newest = list(scene.ids)[-1]
    found = Search(scene.log(), lambda: False).find(IdPrefix(newest, 256))
    assert found.unsearched == 1 and found.trace is not None
    assert found.trace.holes == ((1, sealed),) and found.trace.accepted


def test_several_ids_that_begin_so(begin: Begin) -> None:
    scene = begin(7)
    two = [b"\xab\xcd" + bytes([number]) * 30 for number in (1, 2)]
    column = pack("<2I", 60, 60)
    scene.write(1)
    event = Accepted(9, 6, 1, 1, GROUP, None, PEER, 1, (), b"".join(two), column, column, column)
    scene.sealer.add(scene.store.commit(event), 0)
    found = Search(scene.log()).find(parse_prefix("abcd"))
    assert found.trace is None and {one.identity for one in found.candidates} == set(two)
    one = Search(scene.log()).find(parse_prefix("abcd01"))
    assert one.trace is not None and one.trace.identity == two[0]
    assert Search(scene.log()).find(parse_prefix("abcd03")).candidates == ()


def test_very_many_ids_that_begin_so(begin: Begin) -> None:
    scene = begin(8)
    ids = b"".join(b"\xab\xcd" + bytes([number]) * 30 for number in range(100))
    column = pack("<100I", *[60] * 100)
    scene.sealer.add(scene.store.commit(Accepted(9, 6, 1, 1, GROUP, None, PEER, 1, (), ids, *[column] * 3)), 0)
    found = Search(scene.log()).find(parse_prefix("abcd"))
    assert found.trace is None and len(found.candidates) == CANDIDATES_MAX + 1


def test_a_gap_is_a_hole_and_how_far_back_the_log_reaches_is_told(begin: Begin) -> None:
    scene = begin(9)
    scene.write(5)
    identity = next(iter(scene.ids))
    scene.sealer.seal()
    missing = scene.store.last + 1
    scene.store.last += 30
    scene.write(1)
    found = scene.find(identity)
    assert found.trace is not None and found.trace.holes == ((missing, missing + 29),)
    assert (found.since_seq, found.since_ns, found.pruned_seq) == (1, 5, 0)
    scene.sealer.seal()
    assert scene.find(identity).trace == found.trace
    [first, _] = scene.segments.kept()
    assert scene.segments.prune(1e9, 1e9, first.size) == 1
    assert not log_index.path_of(first.path).exists()
    gone = scene.find(identity)
    assert (gone.trace, gone.candidates, gone.pruned_seq) == (None, (), missing - 1)


def test_the_log_is_behind_its_store(begin: Begin) -> None:
    scene = begin(10)
    scene.write(2)
    log = scene.log()
    behind = Search(Log(log.sealed, log.unsealed, 0, is_behind=True)).find(IdPrefix(next(iter(scene.ids)), 256))
    assert behind.trace is not None and behind.trace.holes == ((scene.store.last + 1, 0),)


def test_the_index_of_a_segment_that_is_gone_is_thrown_away(tmp_path: Path, begin: Begin) -> None:
    scene = begin(11)
    scene.write(2)
    scene.sealer.seal()
    orphan = tmp_path / f"{log_index.INDEX}0000000000000099"
    orphan.write_bytes(b"x")
    segments = Segments(tmp_path, KEY, scene.segments.limits)
    assert not orphan.exists() and log_index.path_of(segments.kept()[0].path).exists()
    assert Sealer(segments).unsealed() == []


def test_lines_that_the_disk_has_spoilt_are_passed_over(begin: Begin) -> None:
    scene = begin(12)
    scene.write(10)
    scene.sealer.seal()
    [one] = scene.segments.kept()
    data = one.path.read_bytes()
    identity = list(scene.ids)[3]
    for spoilt in (b"\0" * 64, b'"' + b"x" * 63):
        one.path.write_bytes(data.replace(identity.hex().encode(), spoilt))
        assert scene.find(identity).trace is None
    one.path.write_bytes(data[: len(data) // 2])
    for other in scene.ids:
        scene.find(other)
