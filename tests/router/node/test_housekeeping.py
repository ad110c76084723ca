"""The node's periodic duties: when its disk counts as full, and whose clock may confirm its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from samples.logs import KEY, outward
from samples.stores import WALL_S, parcel

from router.core.link.liveness import LivenessLimits
from router.core.link.session import Offer, Session
from router.core.log.events import IDLE, Noted, RouterChange
from router.core.neighbours.directory import Directory, Neighbour
from router.core.router import Router
from router.core.routing.effects import Changes, Finished
from router.core.routing.limits import CoreLimits
from router.core.routing.recovered import Belief, Recovered
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.link_items import Hello
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.store import Store
from router.node.housekeeping import Housekeeping, HousekeepingLimits
from router.node.link_events import Measured
from router.node.link_writer import LinkWriter
from router.node.open_links import OpenLinks
from router.node.wall_clock import ClockLimits, WallClock

MIB = 1 << 20
DAY_S = 86_400
FAR = bytes(range(32))


class House:
    """Everything that housekeeping uses, on a disk."""

    def __init__(self, path: Path, store: Store) -> None:
        self.store = store
        self.seconds = self.ahead_s = 0
        self.wall: WallClock | None = None
        directory = Directory(KEY.public)
        directory.replace_neighbours([Neighbour(FAR, "far", uplink=True)])
        self.router = Router(KEY, directory, CoreLimits(), Recovered(), self.now())
        self.logbook = Logbook(Segments(path / "log", KEY, LogLimits()), self.store, 1e9, 1 << 40)
        self.open_links = OpenLinks()
        self.limits = HousekeepingLimits(disk_free_bytes_min=64 * MIB)
        self.free = 1 << 40

    def begin(self) -> Housekeeping:
        """Begin a run, as `RunningNode` begins one."""
        newest_ns = self.logbook.newest_ns()
        first = Belief(newest_ns, newest_ns, "believed") if newest_ns else None
        self.wall = WallClock(self.shown(), ClockLimits(), self.store.recover(KEY.public).clock or first)
        return Housekeeping(
            self.router, self.store, self.logbook, self.open_links, self.limits, self.now(), self.wall,
            [], lambda: self.free,
        )  # fmt: skip

    def shown(self) -> Now:
        return Now((WALL_S + self.seconds + self.ahead_s) * SECOND_NS, (1 + self.seconds) * SECOND_NS)

    def now(self) -> Now:
        return self.wall.now(self.shown()) if self.wall else self.shown()

    def tick(self, housekeeping: Housekeeping) -> None:
        self.pass_time(housekeeping, 1)

    def pass_time(self, housekeeping: Housekeeping, seconds: int) -> None:
        self.seconds += seconds
        housekeeping.is_due = True
        housekeeping.begin_cycle(self.now())

    def apply(self, changes: Changes, wall_s: int = WALL_S) -> None:
        self.store.apply(changes, wall_s)
        self.store.commit()

    def link(self, number: int, key: bytes, role: str) -> None:
        hello = Hello((1,), role, bytes(8), True, 1 << 20, 8, 4096, (), bytes(16))
        self.router.link_up(number, key, role == "app", hello, self.now())
        offer = Offer("router", bytes(8), True, 8, 4096, bytes(16))
        self.open_links.writers[number] = LinkWriter(number, Session(offer, KEY, dialler=False), "memory")

    def closing(self) -> dict[int, tuple[Reason, str]]:
        """Return the links that are told goodbye, and why."""
        return {number: one.closing for number, one in self.open_links.writers.items() if one.closing is not None}


@contextmanager
def house(path: Path) -> Iterator[House]:
    store = Store(path / "store", StoreLimits(synced=False, keep_s=100), b"b" * 16)
    store.recover(KEY.public)
    found = House(path, store)
    yield found
    found.logbook.close()
    store.close()


def test_pages_of_the_store_that_are_free_again_are_free_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with house(tmp_path) as found:
        housekeeping = found.begin()
        found.free = 60 * MIB
        parcels = [parcel(Random(n), 1 + n, WALL_S, count=1, size=MIB, recipients=1) for n in range(10)]
        found.apply(Changes(parcels=parcels))
        found.tick(housekeeping)
        assert housekeeping.is_disk_full
        found.tick(housekeeping)
        [said] = caplog.messages
        assert "is nearly full: 60.0 MiB may be used" in said and said.endswith("or move the home to a larger disk")
        ends = [Finished(one.recipients[0], one.first, 0, 1, one.size(0, 1)) for one in parcels]
        found.apply(Changes(finished=ends))
        found.apply(Changes(), WALL_S + 1000)
        found.tick(housekeeping)
        assert "there is room again" in caplog.messages[1] and len(caplog.messages) == 2
        assert not housekeeping.is_disk_full and found.store.space().reusable >= 8 * MIB
        found.free = 8 * MIB - 1
        found.tick(housekeeping)
        assert housekeeping.is_disk_full, "but an eighth must be free outside the store"


def test_a_node_on_which_nothing_happens_logs_that_it_runs_once_while_a_segment_may_stay_open(tmp_path: Path) -> None:
    with house(tmp_path) as found:
        housekeeping = found.begin()
        found.tick(housekeeping)
        found.router.note("start", (), found.now())
        noted: list[tuple[int, Noted]] = []
        for minute in range(1, 181):
            found.pass_time(housekeeping, 60)
            changes = found.router.take(found.now()).changes
            noted += [(minute, one) for one in changes.events if isinstance(one, Noted)]
            if (logged := found.store.apply(changes, WALL_S).logged) is not None:
                found.store.commit()
                found.logbook.committed(logged, found.now())
        assert [minute for minute, _ in noted] == [61, 121]
        assert {(one.event, one.service, one.fields) for _, one in noted} == {
            (IDLE, KEY.public, (("service", "router"),))
        }


def clock_steps(changes: Changes) -> list[tuple[tuple[str, object], ...]]:
    return [one.fields for one in changes.events if isinstance(one, RouterChange) and one.event == "clock_step"]


class Pinged:
    """A link writer of which only pings are wanted."""

    def __init__(self) -> None:
        self.count = 0

    def look(self, _: int, limits: LivenessLimits) -> None:
        """Do nothing: the silence of a link is another matter."""

    def ping(self, _: int) -> None:
        self.count += 1


def test_a_start_far_ahead_expires_nothing_until_a_far_clock_agrees(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with house(tmp_path) as found:
        one = parcel(Random(1), 1, WALL_S - 8 * DAY_S, count=1, recipients=1)
        found.apply(Changes(parcels=[one], events=[outward(WALL_S - 8 * DAY_S)]))
        housekeeping = found.begin()
        found.tick(housekeeping)
        [said] = [record.getMessage() for record in caplog.records]
        assert "8.0 days ahead of the last time that this node trusted" in said and "`router clock confirm`" in said
        app, far = 1, 2
        found.link(app, bytes((9,)) * 32, "app")
        found.link(far, FAR, "core")
        found.open_links.measured[app] = Measured(app, 1, 0, None)
        for _ in range(2):
            found.tick(housekeeping)
        assert found.wall and found.wall.is_doubted, "an app here has the same clock"
        changes = found.router.take(found.now()).changes
        assert not changes.finished
        [told] = clock_steps(changes)
        assert told[:2] == (("by_s", 0), ("doubted", True)), "told once"
        found.open_links.measured[far] = Measured(far, 1, SECOND_NS, None)
        for _ in range(2):
            found.tick(housekeeping)
        assert not found.wall.is_doubted
        changes = found.router.take(found.now()).changes
        assert changes.defer, "what is due is looked at"
        assert clock_steps(changes) == [(("by_s", 0), ("doubted", False))]


@pytest.mark.parametrize("off_s", [-365 * DAY_S, 365 * DAY_S])
def test_a_clock_a_year_off_over_two_restarts_expires_nothing_of_itself(off_s: int, tmp_path: Path) -> None:
    """Each run uses the disk of the one before; the clock is wrong in the first run, the second, or both."""
    with house(tmp_path) as found:
        one = parcel(Random(1), 1, WALL_S, count=1, recipients=1)
        found.apply(Changes(parcels=[one], events=[outward(WALL_S)]))
        for ahead_s in (0, off_s, off_s, 0):
            found.ahead_s, found.wall = ahead_s, None
            housekeeping = found.begin()
            for _ in range(3):
                found.tick(housekeeping)
            changes = found.router.take(found.now()).changes
            assert not changes.finished and not changes.defer
            changes.events.append(outward(found.now().wall_s))
            found.apply(changes, found.now().earliest_ns // SECOND_NS)
            assert found.wall
        housekeeping.confirm_clock(found.now())
        found.seconds += 8 * DAY_S
        found.tick(housekeeping)
        assert found.router.take(found.now()).changes.defer, "what is past its deadline by a clock that is believed"


def test_neighbours_that_agree_with_each_other_stop_a_clock_and_one_that_steps_is_measured_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with house(tmp_path) as found:
        housekeeping = found.begin()
        found.link(1, FAR, "core")
        found.link(2, bytes((7,)) * 32, "core")
        assert len(found.router.links) == 1, "strangers are not let in here"
        found.open_links.writers[1] = pings = Pinged()  # type: ignore[assignment]
        behind = Measured(1, 1, 2 * DAY_S * SECOND_NS, None)
        assert housekeeping.is_news(behind)
        found.open_links.measured[1] = behind
        housekeeping.heard_clock(behind, found.now())
        [said] = [record.getMessage() for record in caplog.records]
        assert "2.0 days behind its neighbours' clocks" in said
        assert found.store.clock and found.store.clock.state == "disputed", "the next start should know"
        found.ahead_s = 2 * DAY_S
        found.tick(housekeeping)
        assert found.wall and not found.wall.is_doubted and pings.count == 1 and not found.open_links.measured


def test_a_start_soon_after_the_newest_event_is_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with house(tmp_path) as found:
        found.apply(Changes(events=[outward(WALL_S - 6 * DAY_S)]))
        assert found.logbook.newest_ns() == (WALL_S - 6 * DAY_S) * SECOND_NS
        found.begin()
        assert found.wall and not found.wall.is_doubted and not caplog.records


# -- links that are idle -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle_close_s", [10, 300])
async def test_a_link_to_a_peer_without_messages_is_closed_and_no_other(tmp_path: Path, idle_close_s: int) -> None:
    """Apps, clients and uplinks may be silent; a message in either direction keeps a peer's link open."""
    keys = {name: bytes((n,)) * 32 for n, name in enumerate(("silent", "hears", "says", "client", "uplink", "app"), 1)}
    with house(tmp_path) as found:
        found.limits = HousekeepingLimits(
            disk_free_bytes_min=0, idle_close_s=idle_close_s, liveness=LivenessLimits(ping_s=1e9)
        )
        neighbours = [Neighbour(keys[name]) for name in ("silent", "hears", "says")]
        neighbours += [Neighbour(keys["client"], grants=frozenset({"join"})), Neighbour(keys["uplink"], uplink=True)]
        found.router.directory.replace_neighbours(neighbours)
        housekeeping = found.begin()
        numbers = {name: number for number, name in enumerate(keys, 1)}
        for name, number in numbers.items():
            found.link(number, keys[name], "app" if name == "app" else "router")
        waited_s = 0
        while not found.closing() and waited_s < 1000:
            found.open_links.writers[numbers["hears"]].tell(b"a message to it")
            found.open_links.writers[
                numbers["says"]
            ].is_idle = False  # as its connection notes for each message from it
            found.pass_time(housekeeping, 5)
            waited_s += 5
        assert found.closing() == {numbers["silent"]: (Reason.SHUTDOWN, "no messages for a while")}
        assert idle_close_s < waited_s <= 2 * idle_close_s + 10
        found.pass_time(housekeeping, idle_close_s + 1)
        found.pass_time(housekeeping, idle_close_s + 1)
        assert set(found.closing()) == {numbers[name] for name in ("silent", "hears", "says")}
