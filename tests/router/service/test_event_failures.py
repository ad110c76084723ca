"""What becomes of each event on which the rules fail: it alone is concerned, and the service goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from rigs.contract_tables import events

from router.client.received import Received
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.errors import CAUSE_CHARS_MAX, RouterError, cause_of
from router.core.wire.reasons import Reason
from router.disk.state.environment import StateError
from router.service import contract as c
from router.service.attempts import CAREFUL_S, FailuresInARow
from router.service.confined_failures import ConfinedFailures
from router.service.confinement import Confinement
from router.service.cycle_changes import CycleChanges, Source
from router.service.deed_checks import DeedChecks
from router.service.event_failures import EVENT_REMEDIES, as_failed
from router.service.roles import discovery as d
from router.service.roles import overlay as o

KEY, ID = SigningKey(bytes(32)).public, MessageId(bytes(32))
MESSAGE = Received(
    ID, b"", None, KEY, None, None, (), None, None, 0.0, False, (), 0, b"", cast(Any, None), cast(Any, None)
)
ERROR = ValueError("the rules are wrong")


class Desk:
    """The host of rules, as far as a failure concerns it."""

    def __init__(self, in_a_row: FailuresInARow) -> None:
        self.done: list[Any] = []
        self.warned: list[str] = []
        self.cycle = CycleChanges()
        self.checks = DeedChecks({"desk": "tcp://127.0.0.1:1"})
        self.confinement = Confinement(
            ConfinedFailures(lambda text, error: None, self.warned.append),
            in_a_row,
            3,
            lambda door, peer: self.done.append(("end", door, peer)),
            self.done.append,
            lambda failures, heard: self.done.append(("later", failures, heard)),
            lambda failures: self.done.append(("tick", failures)),
        )

    def fails(self, heard: c.Heard, error: Exception = ERROR, source: Source = None) -> Exception | None:
        return self.confinement.confine(self.cycle, self.checks, heard, source, error)


@pytest.fixture
def desk(autojump_clock: object) -> Desk:
    return Desk(FailuresInARow())


def test_every_event_of_the_contract_and_of_the_roles_has_its_rule() -> None:
    assert set(events()) == set(EVENT_REMEDIES)


SAMPLES: dict[type[c.Heard], Sequence[c.Heard]] = {
    c.Started: [c.Started(KEY)],
    c.Message: [c.Message(ID, b"")],
    c.Opened: [c.Opened("desk", "1")],
    c.Came: [c.Came("desk", "1", b"x")],
    c.ConnectionFailed: [c.ConnectionFailed("desk", "t", "no")],
    c.Joined: [c.Joined("news", error="there is no group")],
    c.Sent: [c.Sent("t", ID)],
    c.HopOutcome: [c.HopOutcome("t", ID, KEY, "acked")],
    c.Pulled: [c.Pulled(KEY, ID, b"wire")],
    c.Computed: [c.Computed("t", b"result")],
    c.Told: [c.Told("t", "status", {})],
    c.Tick: [c.Tick()],
    c.Asked: [c.Asked(1, "word")],
    c.Told: [c.Told("t", "status", {})],
    o.Wanted: [o.Wanted(KEY, True)],
    o.NeighbourUnreachable: [o.NeighbourUnreachable(KEY, "no")],
    o.Signed: [o.Signed("t", b"signed")],
    o.Attested: [o.Attested("t", b"")],
    o.Hinted: [o.Hinted(KEY, ())],
    o.SaidCaughtUp: [o.SaidCaughtUp(KEY, 1, KEY)],
    o.Dropped: [o.Dropped(KEY, KEY, 1)],
    o.HeldPage: [o.HeldPage(KEY, b"keys", after=7)],
    o.Linked: [o.Linked(KEY)],
    o.Published: [o.Published(KEY, b"", ())],
    o.PulledFrom: [o.PulledFrom(KEY, KEY, ID, "asked")],
    o.GroupsShared: [o.GroupsShared(KEY, True)],
    d.Interfaces: [d.Interfaces("lan", ())],
    d.DialledBack: [d.DialledBack("t", "192.0.2.7")],
    d.NeighbourAdded: [d.NeighbourAdded(KEY)],
    d.NeighbourLinked: [d.NeighbourLinked(KEY)],
    d.Listening: [d.Listening("")],
}


@pytest.mark.parametrize("kind", EVENT_REMEDIES, ids=lambda kind: kind.__name__)
async def test_one_failure_on_any_event_but_started_stops_nothing_else(desk: Desk, kind: type[c.Heard]) -> None:
    [heard] = SAMPLES[kind]
    done: list[str] = []
    source: Source = MESSAGE if kind is c.Message else lambda: done.append("carried out")
    found = desk.fails(heard, source=source)
    assert found is (ERROR if kind is c.Started else None)
    if kind is c.Message:
        assert desk.cycle.failed == [(MESSAGE, ERROR)] and not desk.cycle.handled, "it is not settled"
        return
    for call in desk.cycle.awaited:
        call()
    assert done == ["carried out"], "whoever waits for it goes on"
    assert kind is c.Started or "ValueError('the rules are wrong')" in desk.warned[0], "it is told of"


async def test_a_result_is_heard_once_more_as_one_that_has_failed_and_is_then_passed_over(desk: Desk) -> None:
    for heard in (c.Computed("t", b"r"), c.Pulled(KEY, ID, b"w"), o.Signed("t", b"m"), o.HeldPage(KEY, b"k", after=7),
                  d.DialledBack("t", "192.0.2.7")):  # fmt: skip
        desk.done.clear()
        assert desk.fails(heard) is None
        [again] = desk.done
        assert type(again) is type(heard) and as_failed(again, "") is None
        assert desk.fails(again) is None and desk.done == [again], "no third time"
    said = "the service failed on its result: ValueError('the rules are wrong')"
    assert as_failed(c.Computed("t", b"r"), cause_of(ERROR)) == c.Computed("t", b"", said)
    assert as_failed(o.HeldPage(KEY, b"k", after=7), "x") == o.HeldPage(
        KEY, error="the service failed on its result: x", after=7
    )


async def test_a_sent_is_heard_again_until_its_attempts_are_used_up_and_another_one_is_counted_by_itself(
    desk: Desk,
) -> None:
    one, other = c.Sent("one", ID, Reason.NO_ROUTE), c.Sent("other", ID)
    for heard in (one, one, other, one, one):
        assert desk.fails(heard) is None
    assert desk.done == [("later", 1, one), ("later", 2, one), ("later", 1, other), ("later", 1, one)]
    assert desk.cycle.told == [one], "the state holds a message until nothing more of it is to be heard"


async def test_ticks_come_again_and_after_some_in_a_row_the_service_starts_again_ever_more_seldom() -> None:
    in_a_row = FailuresInARow(most=3)
    restarts, failures = list[int](), 0
    for _ in range(4):  # lives
        desk = Desk(in_a_row)
        while (fatal := desk.fails(c.Tick())) is None:
            failures += 1
        failures += 1
        restarts.append(failures)
    assert restarts == [3, 6, 12, 24]
    assert (
        fatal is not None
        and str(fatal) == f"its rules failed on Tick 24 times in a row, the last time: {ERROR!r}"
        and fatal.__cause__ is ERROR
    )
    assert desk.done == [("tick", count) for count in range(13, 24)]
    desk.confinement.went_well(c.Tick())
    assert desk.fails(c.Tick()) is None and desk.done[-1] == ("tick", 1), "one that went well ends the row"
    assert desk.fails(o.Wanted(KEY, True)) is None, "each kind is counted by itself"


@pytest.mark.parametrize("error", [c.CannotServe("no genesis; write one"), StateError("the disk is full")])
@pytest.mark.parametrize("heard", [c.Came("desk", "1", b"x"), c.Message(ID, b""), c.Computed("t")])
async def test_rules_that_cannot_serve_say_so_whatever_they_hear(desk: Desk, heard: c.Heard, error: Exception) -> None:
    source = MESSAGE if isinstance(heard, c.Message) else None
    assert desk.fails(heard, error, source) is error
    assert not desk.done and not desk.warned and not desk.cycle.failed


class Poison(RouterError):
    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__


class Mute(Exception):
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("error", [Poison(), Mute(), RouterError("\ud800"), ValueError("x" * 10_000)])
async def test_an_error_whose_text_cannot_be_made_is_named_by_its_class(desk: Desk, error: Exception) -> None:
    said = cause_of(error)
    assert said.isprintable()
    assert len(said) <= CAUSE_CHARS_MAX + 1 and said.encode()
    assert not isinstance(error, Poison | Mute) or said.startswith(f"{type(error).__name__}, whose text cannot be made")
    for heard in (c.Came("desk", "1", b"x"), c.Asked(1, "word"), c.Computed("t"), c.Tick(), c.Sent("t", ID)):
        assert desk.fails(heard, error) is None


def test_a_failed_cycle_is_blamed_on_its_only_event_or_its_only_stream() -> None:
    opened, came = (c.Opened("desk", "1"), None), (c.Came("desk", "1", b"x"), None)
    tick, other = (c.Tick(), None), (c.Came("desk", "2", b"x"), None)
    assert CycleChanges(heard=[tick]).suspect == tick
    assert CycleChanges(heard=[opened, came, came]).suspect == came
    for several in ([], [tick, tick], [opened, other], [came, tick]):
        assert CycleChanges(heard=list(several)).suspect is None


def test_after_a_cycle_of_several_events_has_failed_each_has_one_of_its_own_for_a_while() -> None:
    in_a_row = FailuresInARow()
    assert not in_a_row.is_careful(0)
    in_a_row.doubt(5)
    assert in_a_row.is_careful(5 + CAREFUL_S - 1) and not in_a_row.is_careful(5 + CAREFUL_S)
