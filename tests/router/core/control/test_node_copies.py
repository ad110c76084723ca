"""Nodes that run with one key: who is told to stop, what stops with it, and what ends that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.plain_store import Disk
from samples.core import ALICE, BOB

from router.core.control.neighbour_lives import LIVES
from router.core.control.node_copies import BARRED, NAMED_MAX, NEIGHBOUR
from router.core.log.life import Life, Restored
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import BeginAnew, Close, SendItem, SendParcel
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import OtherRun, Run, StoppedRun
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import LIFE_MAX, RunClaim, RunPlace, RunStopped, claim_run, stop_run

HUB = SigningKey(b"h" * 32)
BARRED_ONE = claim_run(HUB, RunPlace(0, 0, bytes(8)))
"""In place of the claim of a node that makes none."""
GRANTS = frozenset(("join", "store", "relay"))
RESTARTED = "restarted"


class RunningHome:
    """A node on a home: its router on a disk, in a life, with a clock that may be wrong."""

    def __init__(self, disk: Disk, life: int, tag: bytes, seconds: float) -> None:
        self.disk, self.life = disk, life
        self.one = OneRouter(
            Neighbour(HUB.public, "hub", GRANTS, uplink=True), disk=disk, seconds=seconds, life=Life(life)
        )
        self.claim = self.one.router.copies.begin(tag, self.one.now()) or BARRED_ONE
        self.one.cycle()
        self.number = 0
        """Its link at the hub, 0 if it has none."""

    @property
    def is_barred(self) -> bool:
        return self.one.router.copies.is_barred

    @property
    def found(self) -> object:
        return self.one.router.copies.facts()

    def begun_anew(self) -> list[BeginAnew]:
        found = [one for one in self.one.done if isinstance(one, BeginAnew)]
        self.one.done = [one for one in self.one.done if not isinstance(one, BeginAnew)]
        return found


class Hub:
    """Their neighbour, and the cables to it: what it sends on a link reaches who is still there."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.one = OneRouter(Neighbour(ME.public, "copied", GRANTS), key=HUB, disk=disk)
        self.at: dict[int, RunningHome] = {}

    def connect(self, home: RunningHome) -> None:
        """Bring a link up, and have all that follows said and heard."""
        number = len(self.one.numbers) + 1
        self.at[number], home.number = home, number
        self.one.link(ME.public, role="router", run=Run(*home.claim.run[:2]), claim=home.claim)
        while self._carry():
            pass

    def leave(self, home: RunningHome) -> None:
        """Let a home's node end; the hub does not notice."""
        self._end(home.number)

    def _end(self, number: int) -> None:
        """End a link; a home that has connected again since has another one."""
        home = self.at.pop(number, None)
        if home is not None and home.number == number:
            home.number = 0

    def _carry(self) -> bool:
        effects = [one for one in self.one.done if isinstance(one, SendItem | Close)]
        self.one.done = []
        for effect in effects:
            home = self.at.get(effect.link)
            if home is None:
                continue
            if isinstance(effect, Close):
                self._end(effect.link)
            elif isinstance(effect.item, OtherRun):
                self._show(home, effect.item.claim)
            elif isinstance(effect.item, StoppedRun):
                assert effect.item.said.is_by(ME.public)
                home.one.router.shown_run(effect.item.said, home.one.now())
                home.one.cycle()
        return bool(effects)

    def _show(self, home: RunningHome, claim: RunClaim) -> None:
        """Do what a connection does (router/node/connection.py)."""
        assert claim.is_by(ME.public) and claim.run > home.claim.run
        self.one.router.copies.neighbour_stopped(ME.public, stop_run(ME, home.claim.run, claim.run))
        home.one.router.shown_run(claim, home.one.now())
        home.one.cycle()
        self.one.cycle()


def _letter(body: bytes) -> bytes:
    return seal_unicast(ALICE, BOB.public, body, ttl_s=600, expiry_min=expiry_min(WALL_S + 3600))


def homes(count: int, disk: Disk | None = None) -> Iterator[RunningHome]:
    """Yield nodes on copies of one home, each started a second after the one before."""
    for number in range(count):
        yield RunningHome((disk or Disk()).copied(), 0, bytes([number]) * 8, float(number))


def test_of_two_connected_copies_the_older_is_barred_and_the_later_says_so() -> None:
    hub = Hub()
    older, later = homes(2)
    hub.connect(older)
    hub.connect(later)
    assert older.is_barred and not later.is_barred and later.found
    assert older.begun_anew() == [BeginAnew()] and later.begun_anew() == []
    assert hub.one.router.copies.problem_of(ME.public) == NEIGHBOUR
    assert hub.one.router.copies.problem_of(bytes(32)) == ""


def test_an_older_copy_that_connects_second_takes_the_place_until_the_later_one_comes_back() -> None:
    hub = Hub()
    older, later = homes(2)
    hub.connect(later)
    hub.connect(older)
    assert not older.is_barred and not later.is_barred and later.number == 0
    hub.connect(later)
    assert older.is_barred and not later.is_barred


def test_copies_are_told_apart_also_where_one_has_connected_again_over_its_own_link() -> None:
    hub = Hub()
    older, later = homes(2)
    for _ in range(2):
        hub.connect(older)
        assert older.number == len(hub.one.numbers)
    hub.connect(later)
    assert older.is_barred and later.number


def test_a_barred_node_accepts_nothing_keeps_what_waits_and_stays_so_after_a_restart() -> None:
    home = next(homes(1))
    app = home.one.link(ALICE.public)
    hub = home.one.link(HUB.public, role="router")
    home.one.link(BOB.public)
    home.one.router.link_down(3, home.one.now())
    home.one.bring(app, _letter(b"before"))
    home.one.cycle()
    home.one.done.clear()
    later = claim_run(ME, RunPlace(0, home.claim.run.start_ms + 1, b"l" * 8))
    assert BARRED.split("{}")[0] in home.one.router.shown_run(later, home.one.now())
    assert home.one.router.shown_run(later, home.one.now()) == "", "it is no news any more"
    home.one.cycle()
    assert (hub, "copied") in home.one.closed()
    home.one.bring(app, _letter(b"after"))
    home.one.cycle()
    assert [reason for _, refusals in home.one.settled().values() for _, reason, _ in refusals] == [Reason.COPIED]
    again = RunningHome(home.disk, 0, b"2" * 8, 5.0)
    assert again.is_barred and again.begun_anew() == []
    assert again.one.router.copies.begin(b"2" * 8, again.one.now()) is None, "nobody sees a run of it"
    number = again.one.link(HUB.public, role="router")
    assert again.one.closed() == [(number, "copied")]
    again.one.link(BOB.public)
    assert not [one for one in again.one.done if isinstance(one, SendParcel)]
    kept = RunningHome(home.disk, later.run.life + 7, b"3" * 8, 6.0)
    assert not kept.is_barred and kept.found is None
    number = kept.one.link(BOB.public)
    assert len(kept.one.handed(number)) == 1


def test_keep_begins_a_life_after_that_of_the_other() -> None:
    home = next(homes(1))
    with pytest.raises(ValueError, match="nothing to decide"):
        home.one.router.copies.ORDERS["copy"](home.one.router.copies, "keep", home.one.now())
    with pytest.raises(ValueError, match="takes no request but 'keep', not 'kep'"):
        home.one.router.copies.ORDERS["copy"](home.one.router.copies, "kep", home.one.now())
    ahead = claim_run(ME, RunPlace(1 << 46, 0, b"l" * 8))
    home.one.router.shown_run(ahead, home.one.now())
    said = home.one.router.copies.ORDERS["copy"](home.one.router.copies, "keep", home.one.now())
    home.one.cycle()
    assert said["life"] == (1 << 46) + 1
    assert home.begun_anew() == [
        BeginAnew(),
        BeginAnew(Restored(said["life"], home.one.now().wall_s, home.one.now().wall_s)),
    ]


def test_keep_says_what_to_do_where_no_life_can_follow() -> None:
    """Who has the key may claim the last life that there is; and no life is begun by a clock that cannot be kept."""
    home = next(homes(1))
    home.one.router.shown_run(claim_run(ME, RunPlace(LIFE_MAX, 0, b"l" * 8)), home.one.now())
    assert home.is_barred
    now = home.one.now()
    with pytest.raises(ValueError, match="made it up; make a new node, and have it added"):
        home.one.router.copies.ORDERS["copy"](home.one.router.copies, "keep", now)
    with pytest.raises(ValueError, match="beyond the year 2105, and no such life is begun: set it"):
        home.one.router.copies.ORDERS["copy"](home.one.router.copies, "keep", now._replace(wall_ns=1 << 63))


@pytest.mark.parametrize("back_s", [0.0, -5.0, -1e6])
def test_each_run_of_a_home_is_later_than_the_one_before_also_by_a_clock_set_back(back_s: float) -> None:
    disk = Disk()
    runs = [RunningHome(disk, 0, b"9" * 8, seconds).claim.run for seconds in (0.0, back_s, 2 * back_s)]
    assert runs == sorted(set(runs))


def test_what_says_nothing_new_bars_nobody() -> None:
    """An earlier claim, its own, and a stop of a later run or of an earlier life."""
    disk = Disk()
    before = RunningHome(disk, 0, b"1" * 8, 0.0).claim
    home = RunningHome(disk, 3, b"2" * 8, 1.0)
    later = RunPlace(3, home.claim.run.start_ms + 9, b"3" * 8)
    for said in (before, home.claim, stop_run(ME, before.run, home.claim.run), stop_run(ME, later, later)):
        assert home.one.router.shown_run(said, home.one.now()) == ""
    assert home.found is None and home.begun_anew() == []


def test_a_restored_node_stops_the_one_of_the_life_before_and_has_nothing_to_decide() -> None:
    hub = Hub()
    older = next(homes(1))
    restored = RunningHome(older.disk.copied(), 1_000, b"r" * 8, 1.0)
    hub.connect(restored)
    hub.connect(older)
    assert older.is_barred and restored.found is None and restored.number
    assert hub.one.router.copies.problem_of(ME.public) == ""


@pytest.mark.parametrize("at", [RESTARTED, "the same run"])
def test_the_old_home_of_a_restored_node_is_stopped_by_a_neighbour_that_has_known_the_restored_one(at: str) -> None:
    """The restored node is not connected by then, and the neighbour was started again in between."""
    disk = Disk()
    hub, (older,) = Hub(disk), homes(1)
    restored = RunningHome(older.disk.copied(), 1_000, b"r" * 8, 1.0)
    hub.connect(restored)
    hub.one.router.link_down(1, hub.one.now())
    hub.leave(restored)
    hub.one.cycle()
    hub = Hub(disk) if at == RESTARTED else hub
    hub.connect(older)
    assert older.is_barred and not older.number
    hub.connect(restored)
    assert restored.number and not restored.is_barred
    kept = RunningHome(older.disk, 2_000, b"k" * 8, 2.0)
    hub.connect(kept)
    assert kept.number and restored.is_barred, "the operator has kept the old one after all"


def test_a_life_that_its_key_has_not_signed_or_that_a_stranger_claims_is_not_remembered() -> None:
    older, forged = RunPlace(0, 1, b"o" * 8), RunPlace(9, 1, b"f" * 8)
    hub = OneRouter(Neighbour(ME.public, "copied", GRANTS), key=HUB, strangers=True)
    hub.link(ME.public, role="router", run=Run(9, 1), claim=RunClaim(forged, ME.sign(b"")))
    hub.router.link_down(1, hub.now())
    hub.link(ME.public, role="router", run=Run(0, 1), claim=claim_run(ME, older))
    hub.link(BOB.public, role="router", run=Run(9, 1), claim=claim_run(BOB, forged))
    hub.router.link_down(3, hub.now())
    hub.link(BOB.public, role="router", run=Run(0, 1), claim=claim_run(BOB, older))
    hub.cycle()
    assert hub.closed() == [] and not [key for key in hub.disk.book if key[:1] == LIVES]


def test_the_life_of_a_neighbour_that_was_removed_is_forgotten_at_the_next_start() -> None:
    disk = Disk()
    hub = OneRouter(Neighbour(ME.public, "copied", GRANTS), key=HUB, disk=disk)
    hub.link(ME.public, role="router", run=Run(9, 1), claim=claim_run(ME, RunPlace(9, 1, b"r" * 8)))
    hub.cycle()
    assert LIVES + ME.public in disk.book
    hub = OneRouter(key=HUB, disk=disk)
    hub.router.tick(hub.now())
    hub.cycle()
    assert LIVES + ME.public not in disk.book


def test_neighbours_with_a_copy_are_remembered_up_to_a_limit() -> None:
    keys = [number.to_bytes(32, "big") for number in range(NAMED_MAX + 1)]
    copies = OneRouter(*(Neighbour(key, "", GRANTS) for key in keys), key=HUB).router.copies
    said = RunStopped(RunPlace(0, 1, b"1" * 8), RunPlace(0, 2, b"2" * 8), ME.sign(b""))
    more = said._replace(run=RunPlace(0, 1, b"2" * 8))
    for key in keys:
        assert [copies.neighbour_stopped(key, one) for one in (said, said, more)] == [NEIGHBOUR, "", ""]
    assert copies.problem_of(keys[0]) == "" and copies.problem_of(keys[-1]) == NEIGHBOUR
    assert copies.neighbour_stopped(ALICE.public, said) == copies.problem_of(ALICE.public) == "", "a stranger's word"


class CopiedHomes(RuleBasedStateMachine):
    """Homes that are started, killed, copied, restored and kept, by clocks that differ, and meet at one hub."""

    def __init__(self) -> None:
        super().__init__()
        self.hub = Hub()
        self.disks: list[tuple[Disk, int]] = [(Disk(), 0)]
        self.running: dict[int, RunningHome] = {}
        self.count = 0
        self.was_copied = False

    def _tag(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(8, "big")

    @rule(at=st.integers(0, 3), clock_s=st.sampled_from((0.0, 1.0, 50.0, -9_000.0)))
    def start(self, at: int, clock_s: float) -> None:
        at %= len(self.disks)
        if at not in self.running:
            disk, life = self.disks[at]
            self.running[at] = RunningHome(disk, life, self._tag(), clock_s + self.count)
            self._settle(at)

    @rule(at=st.integers(0, 3))
    def connect(self, at: int) -> None:
        if at in self.running and not self.running[at].is_barred:
            self.hub.connect(self.running[at])
            self._settle(at)

    def _settle(self, at: int) -> None:
        """Start again those that begin anew, without a link."""
        for place, home in [*self.running.items()]:
            if home.begun_anew():
                self.kill(place)
                disk, life = self.disks[place]
                self.running[place] = RunningHome(disk, life, self._tag(), self.count)

    @rule(at=st.integers(0, 3))
    def kill(self, at: int) -> None:
        if home := self.running.pop(at, None):
            self.hub.leave(home)

    @precondition(lambda self: len(self.disks) < 4)
    @rule(at=st.integers(0, 3), is_restored=st.booleans())
    def copy(self, at: int, is_restored: bool) -> None:
        disk, life = self.disks[at % len(self.disks)]
        self.disks.append((disk.copied(), self._life() if is_restored else life))
        self.was_copied = True

    def _life(self) -> int:
        return max(life for _, life in self.disks) + 1

    @rule(at=st.integers(0, 3))
    def keep(self, at: int) -> None:
        home = self.running.get(at)
        if home is not None and home.found:
            life = home.one.router.copies.ORDERS["copy"](home.one.router.copies, "keep", home.one.now())["life"]
            self.kill(at)
            self.disks[at] = home.disk, life
            self.running[at] = RunningHome(home.disk, life, self._tag(), self.count)
            assert not self.running[at].is_barred

    @invariant()
    def a_single_home_is_never_called_a_copy(self) -> None:
        if not self.was_copied:
            assert all(home.found is None for home in self.running.values())
            assert self.hub.one.router.copies.problem_of(ME.public) == ""

    @invariant()
    def whoever_is_connected_accepts(self) -> None:
        assert sum(bool(home.number) for home in self.running.values()) <= 1
        assert not any(home.is_barred for home in self.running.values() if home.number)

    def teardown(self) -> None:
        """Of those that run and are not barred one stays, and it is the latest, once each has connected as often as
        there are such: the latest bars the one that it finds connected, each time one more. None may stay where a later
        life was begun, since its node need not run any more for its neighbours to know it."""
        able = {at: home for at, home in self.running.items() if not home.is_barred}
        for _ in range(len(able)):
            for at in able:
                self.connect(at)
        left = [self.running[at] for at in able if not self.running[at].is_barred]
        latest = max(life for _, life in self.disks)
        assert len(left) == 1 or not any(home.life == latest for home in able.values())
        assert len(left) <= 1 and all(home.claim.run == max(one.claim.run for one in able.values()) for home in left)


CopiedHomes.TestCase.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_copied_homes = CopiedHomes.TestCase
