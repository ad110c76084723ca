"""Looking up one message by the indexes gives the same as reading every line, for every state of a log."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import pack

import pytest
from msgspec.structs import replace
from samples.logs import KEY, Store, open_log

from router.core.log.events import Accepted, Event, Outward, RouterChange, Turned
from router.core.log.line import Line, rows
from router.core.why.id_prefix import IdPrefix, parse_prefix
from router.disk.log import index as log_index
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.disk.log.search import CANDIDATES_MAX, FoundEvents, LogSnapshot, Search
from router.disk.store.records import Record

PEER, GROUP, *RECIPIENTS = (bytes([number]) * 32 for number in range(1, 6))


Begin = Callable[..., "Scene"]


class Scene:
    """A log as a node might write it: parcels, their ends, duplicates. `lines`: all of it, read back."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.segments, self.sealer = open_log(directory)
        self.store = Store()
        self.lines: list[Line] = []
        self.ids: dict[bytes, tuple[int, int]] = {}  # id -> (first, index)
        self.parcels: list[tuple[int, int]] = []
        self.arrival = 5000

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
        return Outward(5, 6, name, whom, 1, ranges, None, 0, 1, 0, first)

    def turned(self) -> Turned:
        ids = b"".join(self.chance.sample(sorted(self.ids), min(2, len(self.ids))))
        return Turned(5, 6, "duplicate", PEER, 1, 5, ids, len(ids) // 32, None)

    def value(self) -> bytes:
        events: list[Event] = [self.accept(self.chance.choice([1, 2, 40]))]
        events += [self.outward() for _ in range(self.chance.randrange(8))]
        events += [self.turned()] if self.chance.random() < 0.3 else []
        events += [RouterChange(5, 6, "join", ())] if self.chance.random() < 0.3 else []
        self.chance.shuffle(events)
        value = self.store.commit(*events)
        self.lines += rows(value, KEY.public)
        return value

    def write(self, values: int) -> None:
        for _ in range(values):
            self.sealer.add(self.value(), 0)

    def log(self) -> LogSnapshot:
        return LogSnapshot(self.segments.kept(), self.sealer.unsealed(), self.segments.pruned_seq)

    def find(self, identity: bytes) -> FoundEvents:
        return Search(self.log()).find(IdPrefix(identity, 256))

    def check(self, identity: bytes) -> None:
        """Check that the search finds the same as reading every line."""
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

    def one(seed: int) -> Scene:
        scenes.append(Scene(tmp_path, seed))
        return scenes[-1]

    yield one
    for scene in scenes:
        scene.sealer.close()


def _ids(line: Line) -> list[str]:
    return [line.ids[at : at + 64] for at in range(0, len(line.ids), 64)] if line.ids else []


def _seqs(lines: Iterable[Line]) -> list[int]:
    return sorted(line.seq for line in lines)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_found_is_what_every_line_says(tmp_path: Path, begin: Begin, seed: int) -> None:
    """The log has sealed, closing and open segments; indexes are made by the sealer, and made again from the file."""
    scene = begin(seed)
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
    assert found.trace is not None and found.trace.accepted and not found.trace.holes


def test_the_open_segment_is_closed_between_looking_and_reading(begin: Begin) -> None:
    scene = begin(4)
    scene.write(5)
    log = scene.log()
    scene.sealer.seal()
    found = Search(log).find(IdPrefix(next(iter(scene.ids)), 256))
    assert found.trace is not None and found.trace.accepted and not found.trace.holes


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
    assert scene.find(bytes(32)).missing == found.missing == ((missing, missing + 29),)
    scene.sealer.seal()
    assert scene.find(identity).trace == found.trace
    [first, _] = scene.segments.kept()
    assert scene.segments.prune(1e9, 1e9, first.size) == 1
    assert not log_index.path_of(first.path).exists()
    gone = scene.find(identity)
    assert (gone.trace, gone.candidates, gone.pruned_seq) == (None, (), missing - 1)


def test_what_was_counted_and_not_named_is_told_of_sealed_and_open_segments(begin: Begin) -> None:
    scene = begin(3)
    scene.write(3)
    assert scene.find(bytes(32)).unnamed == (0, 0, 0)
    for at, count in ((70, 1), (80, 5), (90, 2)):
        scene.sealer.add(scene.store.commit(Turned(at, 6, "refused", PEER, 1, 5, bytes([at]) * 32, count, None)), 0)
        scene.sealer.seal() if at == 80 else None
    assert scene.find(bytes(32)).unnamed == (5, 80, 90), "of the first the only one is named"


def test_the_log_is_behind_its_store(begin: Begin) -> None:
    scene = begin(10)
    scene.write(2)
    log = scene.log()
    behind = Search(LogSnapshot(log.sealed, log.unsealed, 0, is_behind=True)).find(IdPrefix(next(iter(scene.ids)), 256))
    assert behind.trace is not None and behind.trace.holes == ((scene.store.last + 1, 0),) and behind.is_behind


def test_the_index_of_a_segment_that_is_gone_is_thrown_away(tmp_path: Path, begin: Begin) -> None:
    scene = begin(11)
    scene.write(2)
    scene.sealer.seal()
    orphan = tmp_path / f"{log_index.INDEX}0000000000000099"
    orphan.write_bytes(b"x")
    segments = Segments(tmp_path, KEY, scene.segments.limits)
    assert not orphan.exists() and log_index.path_of(segments.kept()[0].path).exists()
    assert Sealer(segments).unsealed() == []


class Delivered:
    """A log of two segments: a message is accepted in the first and delivered in the second, which is `one`."""

    def __init__(self, begin: Begin) -> None:
        self.scene = begin(12)
        self.scene.write(3)
        self.identity, (first, index) = list(self.scene.ids.items())[-1]
        self.scene.sealer.seal()
        said = Outward(5, 6, "delivered", RECIPIENTS[0], 1, ((first + index, 1),), None, 0, 1, 0, first)
        self.scene.sealer.add(self.scene.store.commit(said), 0)
        self.scene.write(2)
        self.scene.sealer.seal()
        [self.before, self.one] = self.scene.segments.kept()
        self.data = self.one.path.read_bytes()
        self.line = next(line for line in self.data.splitlines(keepends=True) if b'"delivered"' in line)
        self.hole = (self.one.footer.first_seq, self.one.footer.last_seq)

    def found(self) -> FoundEvents:
        return self.scene.find(self.identity)

    def is_delivered(self) -> bool:
        trace = self.found().trace
        assert trace is not None and trace.accepted
        return self.hole[0] in _seqs(trace.outward)


@pytest.mark.parametrize("spoilt", [b"\0", b"x", b"\n"])
def test_a_line_that_the_disk_has_spoilt_leaves_a_hole(begin: Begin, spoilt: bytes) -> None:
    """A damaged line leaves a hole even if it has lost the words that are searched for."""
    log = Delivered(begin)
    assert log.is_delivered() and log.found().unread == ()
    log.one.path.write_bytes(log.data.replace(log.line, spoilt * (len(log.line) - 1) + b"\n"))
    found = log.found()
    assert not log.is_delivered() and found.trace is not None
    assert (found.trace.holes, found.unread) == ((log.hole,), ())
    assert found.spoilt == found.trace.spoilt == ((log.hole[0], str(log.one.path)),)


def test_of_a_line_that_was_edited_and_can_be_read_nothing_counts(begin: Begin) -> None:
    log = Delivered(begin)
    log.one.path.write_bytes(log.data.replace(log.line, log.line.replace(b'"delivered"', b'"refused"  ')))
    found = log.found()
    assert not log.is_delivered() and found.trace is not None
    assert (found.trace.holes, found.spoilt) == ((log.hole,), ((log.hole[0], str(log.one.path)),))


def test_a_first_segment_that_was_edited_is_told_of_where_its_message_is_sought(begin: Begin) -> None:
    """The search reports it with an index and without one; no index is made of an edited segment."""
    log = Delivered(begin)
    data = log.before.path.read_bytes()
    log.before.path.write_bytes(data.replace(log.identity.hex().encode(), b"0" * 64))
    for _ in range(2):
        found = log.found()
        assert found.trace is None and found.spoilt == ((1, str(log.before.path)),)
        log_index.path_of(log.before.path).unlink(missing_ok=True)
    assert not log_index.path_of(log.before.path).exists()


def test_a_last_segment_without_a_good_footer_is_a_hole_up_to_what_the_store_gives_next(begin: Begin) -> None:
    """The hole has no end if the store cannot be asked."""
    log = Delivered(begin)
    log.one.path.write_bytes(log.data[:-9] + b"00000000\n")
    segments = Segments(log.one.path.parent, KEY, log.scene.segments.limits)
    assert [one.path for one in segments.kept()] == [log.before.path] and segments.spoilt() == [log.one.path]
    for next_seq, hole in ((log.hole[1] + 1, log.hole), (0, (log.hole[0], 0))):
        sought = LogSnapshot(segments.kept(), [], 0, spoilt=segments.spoilt(), next_seq=next_seq)
        trace = Search(sought).find(IdPrefix(log.identity, 256)).trace
        assert trace is not None and trace.holes == (hole,)
        assert trace.spoilt == ((log.hole[0], str(log.one.path)),)


def test_what_the_log_did_not_keep_the_store_has(begin: Begin) -> None:
    """The store's record stands in for a missing acceptance; the log's own comes first."""
    log = Delivered(begin)
    whole = log.found().trace
    assert whole is not None and not whole.is_by_store
    held = Record(log.identity, replace(whole.accepted[0], seq=0))
    assert Search(log.scene.log()).find_held(held).trace == whole
    log.before.path.unlink()
    trace = Search(log.scene.log()).find_held(held).trace
    assert trace is not None and trace.is_by_store and trace.accepted == (held.line,)
    assert log.hole[0] in _seqs(trace.outward)


def test_a_spoilt_line_leaves_a_hole_and_its_segment_gets_no_index(begin: Begin) -> None:
    log = Delivered(begin)
    log.one.path.write_bytes(log.data.replace(log.line, b"x" * (len(log.line) - 1) + b"\n"))
    log_index.path_of(log.one.path).unlink()
    for _ in range(2):
        trace = log.found().trace
        assert trace is not None and trace.holes == (log.hole,)
        assert not log_index.path_of(log.one.path).exists()


def test_a_segment_that_was_cut_off_or_taken_away_leaves_a_hole(begin: Begin) -> None:
    log = Delivered(begin)
    log.one.path.write_bytes(log.data[: log.data.index(log.line)])
    assert not log.is_delivered()
    log.one.path.unlink()
    for _ in range(2):
        trace = log.found().trace
        assert not log.is_delivered() and trace is not None and trace.holes == (log.hole,)
        log_index.path_of(log.one.path).unlink(missing_ok=True)


def test_where_the_acceptance_cannot_be_read_that_is_told(begin: Begin) -> None:
    log = Delivered(begin)
    log.before.path.unlink()
    assert (log.found().trace, log.found().unread) == (None, (str(log.before.path),))


def test_of_very_many_lines_the_oldest_are_read_and_that_is_told(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Delivered(begin)
    first, index = log.scene.ids[log.identity]
    for _ in range(3):
        said = Outward(5, 6, "deferred", RECIPIENTS[0], 1, ((first + index, 1),), None, 0, 1, 0, first)
        log.scene.sealer.add(log.scene.store.commit(said), 0)
    whole = log.found().trace
    assert whole is not None and not whole.is_cut
    monkeypatch.setattr("router.disk.log.search.LINES_MAX", len(whole.outward) - 2)
    cut = log.found().trace
    assert cut is not None and cut.is_cut and cut.outward == whole.outward[:-2]


def test_of_very_many_copies_too(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = begin(13)
    scene.write(1)
    identity = next(iter(scene.ids))
    for _ in range(3):
        scene.sealer.add(scene.store.commit(Turned(5, 6, "duplicate", PEER, 1, 5, identity, 1, None)), 0)
    monkeypatch.setattr("router.disk.log.search.LINES_MAX", 2)
    trace = scene.find(identity).trace
    assert trace is not None and trace.is_cut


def test_of_several_ids_all_but_one_go_meanwhile(begin: Begin) -> None:
    """One line is read of each of several ids, and every line of the one that remains."""
    scene = begin(14)
    scene.write(1)
    two = [b"\xab\xcd" + bytes([number]) * 30 for number in (1, 2)]
    for first, one in enumerate(two, 1):
        column = pack("<I", 60)
        event = Accepted(9, 6, first, 1, GROUP, None, PEER, 1, (), one, column, column, column)
        scene.sealer.add(scene.store.commit(event), 0)
        scene.sealer.add(scene.store.commit(Turned(5, 6, "duplicate", PEER, 1, 5, one, 1, None)), 0)
        scene.sealer.seal()
    log = scene.log()
    [older, _] = log.sealed
    assert len(Search(log).find(parse_prefix("abcd")).candidates) == 2
    older.path.unlink()
    found = Search(log).find(parse_prefix("abcd"))
    assert found.trace is not None and found.trace.identity == two[1]
    assert (len(found.trace.accepted), len(found.trace.turned)) == (1, 1)
