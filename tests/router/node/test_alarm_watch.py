"""The node's watch over itself, on a real store and a real log: a unit in neither, filling queues, doubt, and gaps."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from samples.logs import KEY, problems
from samples.stores import BOOT, LIMITS, WALL_S, accepted, apply, opened, parcel

from router.core.log.alarms import CLOCK, FILLING, GAP, REPEATED, UNACCOUNTED
from router.core.log.events import Event, Outward, RouterChange
from router.core.neighbours.directory import Directory
from router.core.router import Router
from router.core.routing.effects import Changes, Finished
from router.core.routing.limits import CoreLimits
from router.core.routing.parcel import Parcel
from router.core.routing.recovered import Recovered
from router.core.wire.now import Now
from router.disk import private_file
from router.disk.limits import LogLimits
from router.disk.log import alarm_lines
from router.disk.log.alarm_lines import standing_by
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.node import alarm_watch
from router.node.alarm_watch import DOUBTED_S, LOOK_S, ROWS_AT_ONCE, STANDS_S, AlarmWatch

HOUR_S = 3_600
Said = tuple[object, object]


class Watched:
    """A node's store, log and watch, run as housekeeping runs them."""

    def __init__(self, path: Path) -> None:
        self.path, self.mono_s, self.is_doubted, self.ahead_s = path, 1.0, False, 0
        self.random, self.next_first = Random(5), 1
        self.start()

    def start(self) -> None:
        """Begin a run on what is on the disk."""
        self.store = opened(self.path / "store", owner=KEY.public)
        segments = Segments(self.path / "log", KEY, LogLimits(segment_s=HOUR_S))
        self.book = Logbook(segments, self.store, 1e9, 1 << 40)
        self.router = Router(KEY, Directory(KEY.public), CoreLimits(), Recovered(), self.now())
        self.router.take(self.now())
        self.watch = AlarmWatch(self.router, self.store, self.book, self.now())
        self.book.catch_up(self.now())

    def stop(self) -> None:
        self.book.close()
        self.store.close()

    def lose_store(self) -> None:
        """Stop, and start with a store that is new and empty, as a node does whose store is gone."""
        self.stop()
        shutil.rmtree(self.path / "store")
        sealed = self.book.sealed_seq()
        store = Store(self.path / "store", LIMITS, BOOT)
        store.recover(KEY.public, Beginning(bytes(8), 1 << 40, sealed + 2))
        store.close()
        self.next_first = 1 << 40
        self.start()

    def now(self) -> Now:
        """Return the time of a clock that shows `ahead_s` too much, and while it is doubted is not believed."""
        ahead_ns = int(self.ahead_s * 1e9)
        wall_ns = int((WALL_S + self.mono_s) * 1e9) + max(0, ahead_ns)
        return Now(wall_ns, int(self.mono_s * 1e9), ahead_ns if self.is_doubted else 0)

    def commit(self, *events: Event, parcels: tuple[Parcel, ...] = (), finished: tuple[Finished, ...] = ()) -> None:
        changes = Changes(parcels=[*parcels], finished=[*finished], events=[*events])
        _, _, logged = apply(self.store, changes)
        if logged is not None:
            self.book.committed(logged, self.now())

    def accept(self, count: int = 2) -> Parcel:
        one = parcel(self.random, self.next_first, WALL_S, count=count, recipients=1)
        self.next_first += count
        self.commit(accepted(one), parcels=(one,))
        return one

    def end(self, one: Parcel) -> None:
        [recipient] = one.recipients
        ended = Outward(1, 1, "delivered", recipient, 1, ((one.first, one.count),), None, 0, 0, 0, one.first)
        self.commit(ended, finished=(whole(one),))

    def tick(self, seconds: float = 1.0) -> list[Said]:
        """Let time pass, and look once; return the alarms that were logged: kind and state."""
        self.mono_s += seconds
        if sealed := self.book.sealed(self.now()):
            self.store.log_is_sealed(sealed)
        self.watch.look(is_doubted=self.is_doubted, now=self.now())
        events = self.router.take(self.now()).changes.events
        if events:
            self.commit(*events)
        assert all(isinstance(one, RouterChange) and one.event == "alarm" for one in events)
        fields = [dict(one.fields) for one in events if isinstance(one, RouterChange)]
        return [(one["alarm"], one["state"]) for one in fields]

    def look(self) -> list[Said]:
        """Let the watch look through all of the store."""
        said = self.tick(LOOK_S)
        while self.book.account.is_comparing:
            said += self.tick()
        return said

    async def seal(self) -> None:
        await self.book.tidy(self.now())

    def lines(self) -> list[dict[str, object]]:
        files = sorted((self.path / "log").glob("events-*.jsonl"))
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [row["fields"] for row in rows if row["event"] == "alarm"]


def whole(one: Parcel) -> Finished:
    """Return the end of all messages of a parcel: committed without an event, it is a loss."""
    [recipient] = one.recipients
    return Finished(recipient, one.first, 0, one.count, len(one.blob))


@asynccontextmanager
async def a_watched(path: Path) -> AsyncIterator[Watched]:
    found = Watched(path)
    try:
        yield found
    finally:
        found.stop()
        assert [one for one in problems(path / "log") if "its router found them missing" not in one] == []


async def test_a_unit_in_neither_is_said_once_and_once_more_when_it_is_there_again(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        node.end(node.accept())
        lost = node.accept(count=1)
        assert node.look() == []
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]
        assert node.look() == []
        [row] = node.watch.rows("/a b", {lost.recipients[0]: "alice"})
        assert row["level"] == "bad" and f"for alice (arrival number {lost.first})" in row["text"]
        assert "`router audit '/a b'`" in row["text"], "it can be typed as it is"
        await node.seal()
        [fields] = node.lines()
        assert fields["peer"] == lost.recipients[0].hex() and fields["arrival"] == lost.first, "sealed at once"
        node.commit(parcels=(lost,))
        assert node.look() == [(UNACCOUNTED, "over")]
        await node.seal()
        assert [one["state"] for one in node.lines()] == ["raised", "over"]
        node.end(lost)
        assert node.look() == [] and node.watch.rows() == []


async def test_a_loss_while_the_node_is_stopped_is_said_and_again_by_no_later_run(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        lost = [node.accept(count=1), node.accept(count=1)]
        node.mono_s += HOUR_S
        await node.seal()
        kept = node.accept()  # behind the account on the disk
        node.end(node.accept())
        node.stop()
        store = opened(tmp_path / "store", owner=KEY.public)
        apply(store, Changes(finished=[whole(one) for one in lost]))
        store.close()
        node.start()
        assert set(node.look()) == {(UNACCOUNTED, "raised")}
        node.stop()  # the alarm is in the store alone
        node.start()
        assert node.look() == [] and len(node.watch.rows()) == len({one.recipients for one in lost})
        node.end(kept)
        assert node.look() == []
        assert {one for _ in range(2) for one in node.tick(STANDS_S)} == {(UNACCOUNTED, "over")}, "said for a day"
        assert node.look() == []


@pytest.mark.parametrize("count", [1, 3])
async def test_a_store_that_is_lost_as_a_whole_ends_no_alarm_about_a_loss(count: int, tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        lost, kept = node.accept(count), node.accept()
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]
        since_s = node.watch.rows()[0]["since_s"]
        await node.seal()
        node.lose_store()
        node.accept()
        assert node.look() == [(GAP, "raised")] and node.look() == []
        node.mono_s += HOUR_S
        await node.seal()
        node.stop()
        node.start()
        assert node.look() == [], "also in a later run"
        node.lose_store()
        node.accept()
        assert (UNACCOUNTED, "over") not in node.look() + node.look()
        [row] = [one for one in node.watch.rows() if one["alarm"] == UNACCOUNTED]
        assert (row["peer"], row["number"], row["since_s"]) == (lost.recipients[0].hex(), count, since_s)
        new = node.accept()
        node.commit(finished=(whole(new),))
        assert (UNACCOUNTED, "raised") in node.look(), "a later loss is said too"
        said = [one for _ in range(2) for one in node.tick(STANDS_S)]
        assert (UNACCOUNTED, "over") in said and kept, "said for a day"
        assert node.look() == [] and node.watch.rows() == []


async def test_what_the_store_has_although_it_ended_is_an_alarm_too(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        one = node.accept()
        node.end(one)
        node.commit(parcels=(one,))
        assert node.look() == [(REPEATED, "raised")]


async def test_a_log_without_an_account_takes_the_word_of_the_store(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        node.accept()
        node.mono_s += HOUR_S
        await node.seal()
        node.stop()
        (tmp_path / "log" / ".account").unlink()
        node.start()
        lost = node.accept(count=1)
        assert node.look() == []
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]


@pytest.mark.parametrize("raw", [None, b"\xff"])
async def test_alarms_stand_by_the_log_where_the_account_is_gone(raw: bytes | None, tmp_path: Path) -> None:
    """Those of sealed segments, of which an alarm closes its own at once."""

    def begin_without_account() -> None:
        node.stop()
        (tmp_path / "log" / ".account").unlink()
        if raw is not None:
            private_file.replace(tmp_path / "log" / ".account", raw)
        node.start()

    async with a_watched(tmp_path) as node:
        lost, back = node.accept(count=1), node.accept(count=1)
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]
        await node.seal()
        standing = node.watch.rows()
        begin_without_account()
        assert node.watch.rows() == standing and node.look() == [], "it is not raised again"
        node.commit(finished=(whole(back),))
        assert node.look() == [(UNACCOUNTED, "raised")], "of another loss"
        node.commit(parcels=(back, lost))
        assert {*node.look()} == {(UNACCOUNTED, "over")}
        await node.seal()
        begin_without_account()
        assert node.watch.rows() == []


async def test_only_the_newest_alarms_of_the_log_are_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_watched(tmp_path) as node:
        lost: list[bytes] = []
        while len(lost) < 3:
            one = node.accept(count=1)
            if one.recipients[0] in lost:
                continue
            lost.append(one.recipients[0])
            node.commit(finished=(whole(one),))
            assert node.look() == [(UNACCOUNTED, "raised")]
            await node.seal()
        kept = Segments(tmp_path / "log", KEY, LogLimits()).kept()
        assert [one.recipient for one in standing_by(kept)] == lost and not caplog.records
        monkeypatch.setattr(alarm_lines, "BYTES_MAX", kept[1].size + kept[2].size)
        assert [one.recipient for one in standing_by(kept)] == lost[1:]
        assert f"up to event {kept[0].footer.last_seq} of the log are not read" in caplog.text
        whole_file = kept[2].path.read_bytes()
        kept[2].path.write_bytes(whole_file.replace(b'"event":"alarm"', b'"event":"alarm" ', 1))
        assert [one.recipient for one in standing_by(kept)] == lost[1:2]
        assert f"alarms in {kept[2].path} are not known" in caplog.text
        kept[2].path.write_bytes(whole_file)


async def test_a_long_queue_is_read_in_pieces_while_messages_come_and_go(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        parcels = [node.accept(count=1) for _ in range(2 * ROWS_AT_ONCE + 7)]
        assert node.tick(LOOK_S) == []
        turns = 0
        while node.book.account.is_comparing:
            node.end(parcels.pop(node.random.randrange(len(parcels))))
            node.accept()
            assert node.tick() == []
            turns += 1
        assert turns >= 3
        node.commit(finished=(whole(parcels[0]),))
        assert node.look() == [(UNACCOUNTED, "raised")]


async def test_a_queue_that_will_be_full_within_the_hour_is_said_and_when_it_has_eased(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        most = node.router.queues.limits.recipient_messages_max
        step = most // 40  # full in 38 looks of five minutes, at most 3 h 20 min

        def grow(messages: int) -> list[Said]:
            node.router.queues.reserve(bytes(32), bytes(32), bytes(32), messages, messages)
            return node.look()

        assert grow(most // 2) == [], "nothing is known yet of its growth"
        assert grow(step) == [] and grow(0) == []
        assert grow(2 * step) == [(FILLING, "raised")]
        assert "full in about" in node.watch.rows()[0]["text"]
        assert grow(step) == [], "slower, but still within two hours"
        assert grow(0) == [(FILLING, "over")]
        assert grow(most // 2 - 4 * step) == [(FILLING, "raised")]
        assert grow(0) == [], "it is nearly full"
        assert grow(-most // 2) == [(FILLING, "over")]


async def test_a_queue_that_was_full_of_old_when_the_node_started_is_not_growing(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        most = node.router.queues.limits.recipient_messages_max
        node.router.queues.reserve(bytes(32), bytes(32), bytes(32), most // 2, 1)
        assert node.look() == [] and node.look() == []
        node.router.queues.reserve(bytes(32), bytes(32), bytes(32), most - most // 2, 1)
        assert node.look() == [(FILLING, "raised")], "it is full"


async def test_a_full_queue_is_said_when_a_segment_is_closed_and_is_over_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_watch, "LOOK_S", 9 * HOUR_S)
    async with a_watched(tmp_path) as node:
        most = node.router.queues.limits.recipient_messages_max
        assert node.tick() == []
        node.router.queues.reserve(bytes(32), bytes(32), bytes(32), most, 1)
        assert node.tick() == [], "no segment was closed"
        node.accept()
        node.mono_s += HOUR_S
        await node.seal()
        assert (FILLING, "raised") in node.tick()
        node.router.queues.reserve(bytes(32), bytes(32), bytes(32), -most, -1)
        node.accept()
        node.mono_s += HOUR_S
        await node.seal()
        assert (FILLING, "over") in node.tick()


async def test_a_node_says_of_its_queues_when_it_starts(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        most = node.router.queues.limits.recipient_messages_max
        node.router.queues.reserve(bytes(32), bytes(32), bytes(32), most, 1)
        assert node.tick() == [(FILLING, "raised")]
        node.accept()
        node.mono_s += HOUR_S
        await node.seal()
        node.stop()
        node.start()
        assert node.tick() == [(FILLING, "over")], "the queue is empty again"


async def test_a_clock_doubted_for_long_and_a_gap_in_the_log_are_said(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        node.is_doubted = True
        assert node.look() == []
        assert node.tick(DOUBTED_S) == [(CLOCK, "raised")]
        node.is_doubted = False
        assert node.look() == [(CLOCK, "over")]
        node.stop()
        store = opened(tmp_path / "store", owner=KEY.public)
        store.renumber(store.next_seq, Beginning(bytes(8), 1, store.next_seq + 5))
        store.close()
        node.start()
        lost = node.accept(count=1)
        assert node.look() == [(GAP, "raised")]
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")], "what was open before is the store's word"
        await node.seal()
        assert [one["number"] for one in node.lines() if one["alarm"] == GAP] == [5]
        assert (GAP, "over") in node.tick(STANDS_S)


async def test_a_restart_ends_no_alarm_before_it_is_measured_again(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        most = node.router.queues.limits.recipient_messages_max

        def wait(messages: int) -> None:
            node.router.queues.reserve(bytes(32), bytes(32), bytes(32), messages, 1)

        node.is_doubted = True
        wait(most // 3)
        assert node.look() == []
        wait(most // 3)
        assert node.look() == [(FILLING, "raised")]
        wait(most // 6)
        assert node.look() == [(CLOCK, "raised")]
        await node.seal()
        node.stop()
        node.start()
        wait(most * 2 // 3)
        assert node.tick() == [], "nobody knows yet whether it still grows"
        assert node.look() == [(FILLING, "over")], "it does not; and the clock is still doubted"
        assert node.look() == []
        node.is_doubted = False
        assert node.look() == [(CLOCK, "over")]


async def test_an_alarm_is_raised_by_the_clock_that_is_believed_and_never_since_a_later_second(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        node.accept()
        node.is_doubted, node.ahead_s = True, STANDS_S
        assert node.look() == []
        assert node.tick(DOUBTED_S) == [(CLOCK, "raised")]
        raised_s = int(WALL_S + node.mono_s)
        assert [one["since_s"] for one in node.watch.rows()] == [raised_s]
        node.ahead_s = -STANDS_S
        assert node.tick() == []
        assert [one["since_s"] for one in node.watch.rows()] == [raised_s + 1 - STANDS_S], "by the clock as it shows"
        node.is_doubted, node.ahead_s = False, 0
        assert node.look() == [(CLOCK, "over")]
        await node.seal()
        assert {one["since_s"] for one in node.lines()} == {raised_s}


async def test_an_alarm_that_was_raised_by_a_clock_that_was_ahead_is_over_a_day_after_it_is_set(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        lost = node.accept()
        node.ahead_s = 30 * STANDS_S
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]
        node.ahead_s = 0
        assert node.tick() == []
        set_s = int(WALL_S + node.mono_s)
        assert [one["since_s"] for one in node.watch.rows()] == [set_s]
        assert [one for _ in range(2) for one in node.tick(STANDS_S)] == [(UNACCOUNTED, "over")]
        await node.seal()
        assert node.lines()[-1]["since_s"] == set_s


async def test_a_clock_that_is_doubted_ends_no_alarm(tmp_path: Path) -> None:
    async with a_watched(tmp_path) as node:
        lost = node.accept()
        node.commit(finished=(whole(lost),))
        assert node.look() == [(UNACCOUNTED, "raised")]
        node.is_doubted, node.ahead_s = True, 2 * STANDS_S
        assert node.look() == []
        assert (UNACCOUNTED, "over") not in [one for _ in range(3) for one in node.look()]


@pytest.mark.parametrize("rows", [1, 3])
async def test_nothing_is_said_while_the_log_is_behind(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_watch, "ROWS_AT_ONCE", rows)
    async with a_watched(tmp_path) as node:
        for _ in range(4):
            node.accept()
        assert node.look() == []
        node.book._behind = True
        node.accept()
        assert node.tick(LOOK_S) == []
        assert node.look() == [], "it has caught up"
