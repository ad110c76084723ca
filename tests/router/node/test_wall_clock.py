"""The judgement of a clock: judged once, doubted only ahead, disputed by neighbours that agree with each other; no
deadline passes before something agrees with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.routing.recovered import Belief
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.now import Now
from router.disk.store.terms import StoreError
from router.node.wall_clock import BELIEVED, UNDONE_S, ClockLimits, ClockState, Vote, WallClock, check, consensus

START = Now(1_800_000_000 * SECOND_NS, 50 * SECOND_NS)
DAY_S = 86_400
NEAR_NS = 600 * SECOND_NS
LIMITS = ClockLimits()


def after(mono_s: float, step_s: float = 0.0) -> Now:
    return Now(START.wall_ns + int((mono_s + step_s) * SECOND_NS), START.mono_ns + int(mono_s * SECOND_NS))


def votes(*offsets_s: float, uplink_s: float | None = None) -> list[Vote]:
    found = [Vote(int(one * SECOND_NS)) for one in offsets_s]
    return found if uplink_s is None else [*found, Vote(int(uplink_s * SECOND_NS), True)]


def judged(clock: WallClock, now: Now) -> int:
    return clock.now(now).judged_s - START.wall_s


def state(clock: WallClock) -> ClockState:
    return clock.state


def looked(clock: WallClock, now: Now, *offsets_s: float, uplink_s: float | None = None) -> float:
    return clock.look(clock.now(now), votes(*offsets_s, uplink_s=uplink_s))


def test_a_clock_that_runs_with_the_steady_one_is_believed() -> None:
    clock = WallClock(START, LIMITS)
    assert clock.now(after(9.5)) == after(9.5)
    assert looked(clock, after(1, 30)) == 0, "half a minute is nothing to speak of"
    assert clock.now(after(2, 30)) == after(2, 30) and repr(clock) == "<wall clock: believed>"


def test_a_step_that_nobody_has_judged_ends_nothing() -> None:
    clock = WallClock(START, LIMITS)
    now = clock.now(after(3, 7200))
    assert (now.judged_s, now.shown_ns) == (1_800_000_003, after(3, 7200).wall_ns)
    assert now.wall_ns == now.shown_ns, "what is accepted now must not end the sooner for it"
    back = clock.now(after(3, -7200))
    assert (back.judged_s, back.shown_ns, back.wall_s) == (1_800_000_003, after(3, -7200).wall_ns, 1_800_000_003)
    assert now.earliest_ns == after(3).wall_ns and back.earliest_ns == after(3, -7200).wall_ns


def test_a_step_ahead_is_doubted_until_a_neighbour_agrees() -> None:
    clock = WallClock(START, LIMITS)
    assert looked(clock, after(1, 7200), 0) == pytest.approx(7200), "what was measured before the step says nothing"
    assert state(clock) is ClockState.DOUBTED and judged(clock, after(5, 7200)) == 5
    assert "2.0 hours ahead of the last time that this node trusted" in clock.problem(clock.now(after(5, 7200)))
    assert looked(clock, after(7, 7200), 2) == 0 and state(clock) is ClockState.BELIEVED
    assert judged(clock, after(8, 7200)) == 7208 and not clock.problem(clock.now(after(8, 7200)))


def test_what_is_accepted_after_a_step_back_ends_no_sooner_if_the_step_is_undone() -> None:
    clock = WallClock(START, LIMITS)
    looked(clock, after(1, -2 * DAY_S))
    assert state(clock) is ClockState.BELIEVED and judged(clock, after(2, -2 * DAY_S)) == 2 - 2 * DAY_S
    assert clock.now(after(2, -2 * DAY_S)).lives_from_s == after(2).wall_s, "as if the clock had not stepped"
    looked(clock, after(3, -3 * DAY_S))
    assert clock.now(after(3, -3 * DAY_S)).lives_from_s == after(3).wall_s, "as before the first step"
    looked(clock, after(4, -DAY_S))
    assert state(clock) is ClockState.DOUBTED and clock.now(after(4, -DAY_S)).lives_from_s == after(4).wall_s
    looked(clock, after(5))
    assert clock.now(after(5)).lives_from_s == after(5).wall_s, "it is undone"


@pytest.mark.parametrize("end", ("neighbours agree", "neighbours disagree", "confirmed", "an hour has passed"))
def test_a_step_back_counts_as_the_time_when_something_else_says_so(end: str) -> None:
    clock = WallClock(START, LIMITS)
    looked(clock, after(1, -DAY_S))
    last_s = UNDONE_S + 2 if end == "an hour has passed" else 2
    match end:
        case "neighbours agree":
            looked(clock, after(2, -DAY_S), 0)
        case "neighbours disagree":
            looked(clock, after(2, -DAY_S), 3600, 3600)
        case "confirmed":
            clock.confirm(clock.now(after(2, -DAY_S)))
    judged_s = 3600 if end == "neighbours disagree" else 0
    assert clock.now(after(last_s, -DAY_S)).lives_from_s == after(last_s, judged_s - DAY_S).wall_s


def test_a_step_back_is_believed_and_one_to_what_was_believed_ends_the_doubt() -> None:
    clock = WallClock(START, LIMITS)
    assert looked(clock, after(1, -7200)) == pytest.approx(-7200) and state(clock) is ClockState.BELIEVED
    assert judged(clock, after(3, -7200)) == 3 - 7200
    clock = WallClock(START, LIMITS)
    looked(clock, after(1, 2 * DAY_S))
    assert looked(clock, after(2, 2 * DAY_S - 7200)) < 0 and state(clock) is ClockState.DOUBTED, (
        "a part of the way back"
    )
    looked(clock, after(16, 60))
    assert state(clock) is ClockState.BELIEVED and judged(clock, after(17, 60)) == 77


def test_a_step_too_small_to_be_doubted_still_voids_what_was_measured() -> None:
    clock = WallClock(START, LIMITS)
    assert looked(clock, after(1, 1800), 1800) == pytest.approx(1800) and state(clock) is ClockState.BELIEVED


@pytest.mark.parametrize("offset_s", [2 * DAY_S, -8 * DAY_S])
def test_a_clock_that_its_uplink_disputes_is_not_gone_by(offset_s: int) -> None:
    clock = WallClock(START, LIMITS)
    looked(clock, after(1), uplink_s=offset_s)
    assert state(clock) is ClockState.DISPUTED and judged(clock, after(2)) == pytest.approx(2 + offset_s, abs=1)
    assert looked(clock, after(3)) == 0 and state(clock) is ClockState.DISPUTED, "the uplink is gone, its word is not"
    way = "behind" if offset_s > 0 else "ahead of"
    assert f"days {way} its neighbours' clocks" in clock.problem(clock.now(after(3)))
    looked(clock, after(4, offset_s))
    assert state(clock) is ClockState.BELIEVED, "it is set to what they say"


def test_the_operator_confirms_and_neighbours_are_not_heard_until_it_steps() -> None:
    clock = WallClock(START, LIMITS)
    looked(clock, after(1, 2 * DAY_S))
    clock.confirm(clock.now(after(2, 2 * DAY_S)))
    looked(clock, after(3, 2 * DAY_S), uplink_s=-2 * DAY_S)
    assert state(clock) is ClockState.CONFIRMED and judged(clock, after(3, 2 * DAY_S)) == 3 + 2 * DAY_S
    looked(clock, after(4, 4 * DAY_S))
    assert state(clock) is ClockState.DOUBTED


# -- who is heard -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets_s", "uplink_s", "expected_s"),
    [
        ([], None, None),
        ([3], None, 0),
        ([DAY_S], None, None),  # a client alone
        ([], DAY_S, DAY_S),  # an uplink alone
        ([3, DAY_S], None, None),  # one alone is not believed against another that agrees
        ([3], DAY_S, None),  # nor an uplink
        ([3, 5, DAY_S], None, 0),
        ([3, DAY_S, DAY_S + 60], None, DAY_S),
        ([DAY_S, DAY_S + 60, -DAY_S], None, DAY_S),
        ([DAY_S, -DAY_S], None, None),  # they disagree with each other
        ([-DAY_S], DAY_S, DAY_S),  # an uplink counts twice
        ([3, 4, 5], DAY_S, 0),
        ([3, 4, DAY_S], DAY_S + 7, DAY_S),
    ],
)
def test_most_of_those_who_agree_with_each_other_are_heard(
    offsets_s: list[int], uplink_s: int | None, expected_s: int | None
) -> None:
    found = consensus(votes(*offsets_s, uplink_s=uplink_s), NEAR_NS)
    assert found is None if expected_s is None else found == pytest.approx(expected_s * SECOND_NS, abs=NEAR_NS)


def test_ten_thousand_that_differ_are_weighed_in_one_pass() -> None:
    everybody = votes(*(DAY_S + at for at in range(10_000)), uplink_s=-DAY_S)
    found = consensus(everybody, NEAR_NS)
    assert found is None, "they agree with each other no more than with us"
    assert consensus(votes(*([DAY_S] * 10_000)), NEAR_NS) == DAY_S * SECOND_NS


# -- starts -------------------------------------------------------------------------------------------------------


def known(ahead_s: float = 0.0, state: ClockState = ClockState.BELIEVED, judged_s: float = 0.0) -> Belief:
    """Return the belief of an earlier run: its time, and how far ahead of it the clock was."""
    judged_ns = START.wall_ns + int(judged_s * SECOND_NS)
    return Belief(judged_ns, judged_ns + int(ahead_s * SECOND_NS), state.value)


def test_a_start_far_ahead_of_all_that_is_known_is_doubted_until_a_neighbour_agrees() -> None:
    clock = WallClock(START, LIMITS, known(judged_s=-8 * DAY_S))
    assert state(clock) is ClockState.DOUBTED and judged(clock, after(5)) == 5 - 8 * DAY_S
    assert "8.0 days ahead of" in clock.problem(clock.now(START))
    looked(clock, after(7), 1)
    assert state(clock) is ClockState.BELIEVED and clock.now(after(9)) == after(9)
    assert WallClock(START, LIMITS, known(judged_s=-6 * DAY_S)).state is ClockState.BELIEVED, (
        "off for less than a lifetime"
    )


@pytest.mark.parametrize("before", [ClockState.DOUBTED, ClockState.DISPUTED])
@pytest.mark.parametrize("ahead_s", [2 * DAY_S, 365 * DAY_S, -2 * DAY_S])
def test_a_restart_settles_no_doubt(before: ClockState, ahead_s: int) -> None:
    left = known(ahead_s, before)
    for run in range(3):
        clock = WallClock(after(10, ahead_s), LIMITS, left)
        assert state(clock) is ClockState.DOUBTED and judged(clock, after(10, ahead_s)) == 10 * run
        left = clock.belief(clock.now(after(20, ahead_s)))
    assert WallClock(after(30, 60 if ahead_s > 0 else ahead_s), LIMITS, left).is_doubted is (ahead_s < 0), "set back"


@pytest.mark.parametrize("step_s", [0, 3 * DAY_S])
def test_a_start_behind_the_last_known_time_is_told_until_it_is_set_or_a_neighbour_agrees(step_s: int) -> None:
    clock = WallClock(after(5), LIMITS, known(judged_s=3 * DAY_S))
    assert state(clock) is ClockState.BELIEVED, "nothing ends too early by it"
    assert "began 3.0 days behind the last time that this node knew" in clock.problem(clock.now(after(5)))
    looked(clock, after(9, step_s), 1)
    assert "began" not in clock.problem(clock.now(after(10, step_s)))


def test_a_confirmed_clock_stays_so_over_a_restart() -> None:
    assert WallClock(after(5), LIMITS, known(state=ClockState.CONFIRMED)).state is ClockState.CONFIRMED
    assert WallClock(after(5, 8 * DAY_S), LIMITS, known(state=ClockState.CONFIRMED)).state is ClockState.DOUBTED


def started_behind(days: float = 365) -> WallClock:
    """Return a clock that began at `START`, `days` behind the time of an earlier run."""
    return WallClock(START, LIMITS, known(judged_s=days * DAY_S))


@pytest.mark.parametrize(
    ("step_days", "expected"),
    [(365, ClockState.BELIEVED), (371, ClockState.BELIEVED), (100, ClockState.BELIEVED), (373, ClockState.DOUBTED)],
)
def test_a_clock_that_began_behind_may_be_set_where_a_start_would_be_believed(
    step_days: float, expected: ClockState
) -> None:
    clock = started_behind()
    looked(clock, after(60, step_days * DAY_S))
    assert state(clock) is expected
    if expected is ClockState.DOUBTED:
        looked(clock, after(70, 366 * DAY_S))
        assert state(clock) is ClockState.BELIEVED, "it is set back to what the earlier run allows"


def test_a_restart_keeps_the_time_that_an_earlier_run_trusted() -> None:
    clock = started_behind()
    left = clock.belief(clock.now(after(60)))
    assert left.earlier_ns == after(60, 365 * DAY_S).wall_ns and left.judged_ns == after(60).wall_ns
    again = WallClock(after(90, -DAY_S), LIMITS, left)
    looked(again, after(120, 365 * DAY_S))
    assert state(again) is ClockState.BELIEVED, "after a second start behind"
    right = WallClock(after(90, 365 * DAY_S), LIMITS, left)
    assert state(right) is ClockState.BELIEVED and right.belief(right.now(after(90, 365 * DAY_S))).earlier_ns == 0
    assert WallClock(after(90, 373 * DAY_S), LIMITS, left).state is ClockState.DOUBTED
    confirmed = left._replace(state=ClockState.CONFIRMED.value)
    assert WallClock(after(90, 365 * DAY_S), LIMITS, confirmed).state is ClockState.BELIEVED, "confirmed another time"


@pytest.mark.parametrize("by", ["agreed", "disputed", "confirmed", "reached"])
def test_the_time_of_an_earlier_run_is_dropped_when_something_else_is_known(by: str) -> None:
    clock, step_s = started_behind(), 0
    match by:
        case "agreed":
            looked(clock, after(5), 1, 2)
        case "disputed":
            looked(clock, after(5), uplink_s=-2 * DAY_S)
        case "confirmed":
            clock.confirm(clock.now(after(5)))
        case _:
            looked(clock, after(5, 365 * DAY_S))
            looked(clock, after(6))
    assert clock.belief(clock.now(after(7, step_s))).earlier_ns == 0
    looked(clock, after(8, 365 * DAY_S))
    assert state(clock) is ClockState.DOUBTED


def test_a_step_back_in_a_run_lets_no_step_ahead_pass() -> None:
    clock = WallClock(START, LIMITS, known())
    looked(clock, after(1, -2 * DAY_S))
    looked(clock, after(2))
    assert state(clock) is ClockState.DOUBTED, "a clock that jumps to and fro ends nothing"


# -- in any order -------------------------------------------------------------------------------------------------

STEPS_S = st.sampled_from([-400 * DAY_S, -2 * DAY_S, -7200, -60, 60, 7200, 2 * DAY_S, 400 * DAY_S])
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), STEPS_S),
        st.tuples(st.just("pass"), st.integers(1, 3600)),
        st.tuples(st.just("hear"), st.lists(st.sampled_from([0, 30, 2 * DAY_S, -2 * DAY_S, -400 * DAY_S]), max_size=4)),
        st.tuples(st.just("confirm"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=20,
)


@dataclass
class Life:
    """A clock over its steps and restarts, and its own knowledge."""

    shown: Now = START
    clock: WallClock = field(default_factory=lambda: WallClock(START, LIMITS))
    left: Belief = field(default_factory=lambda: known())

    def pass_s(self, seconds: float, step_s: float = 0.0) -> None:
        wall_ns = max(SECOND_NS, self.shown.wall_ns + int((seconds + step_s) * SECOND_NS))
        self.shown = Now(wall_ns, self.shown.mono_ns + int(seconds * SECOND_NS))

    def look(self, offsets_s: Sequence[float] = ()) -> None:
        self.clock.look(self.clock.now(self.shown), votes(*offsets_s))
        self.left = self.clock.belief(self.clock.now(self.shown))


@given(DEEDS)
def test_time_moves_on_its_own_only_as_the_steady_clock_does(deeds: list[tuple[str, object]]) -> None:
    """No step ahead and no restart alone lets a deadline pass: that needs neighbours, the operator, or a start behind
    the time that an earlier run trusted."""
    life, farthest_ns, mono_ns, trusted_ns = Life(), START.wall_ns, START.mono_ns, START.wall_ns
    for deed, given_ in deeds:
        before, was = life.clock.now(life.shown), life.clock.state
        earlier_ns = life.clock.belief(before).earlier_ns
        assert earlier_ns <= trusted_ns + life.shown.mono_ns - START.mono_ns, "no run has trusted a later time"
        match deed, given_:
            case "step", int(seconds):
                life.pass_s(1, seconds)
            case "pass", int(seconds):
                life.pass_s(seconds)
                life.look()
            case "hear", [*offsets]:
                life.look([float(one) for one in offsets])  # type: ignore[arg-type]
            case "confirm", _:
                life.clock.confirm(before)
            case "restart", _:
                life.clock = WallClock(life.shown, LIMITS, life.left)
        now = life.clock.now(life.shown)
        assert now.earliest_ns <= min(now.judged_s * SECOND_NS + SECOND_NS, now.shown_ns) <= now.wall_ns
        if life.clock.state in BELIEVED and now.ahead_ns == 0 and deed in ("step", "pass", "restart"):
            passed_ns = life.shown.mono_ns - mono_ns
            most_s = LIMITS.ahead_s_max if deed == "restart" or earlier_ns else LIMITS.step_s_max
            known_ns = max(farthest_ns, life.left.judged_ns, earlier_ns)
            allowed_ns = known_ns + passed_ns + int(most_s * SECOND_NS) + SECOND_NS
            assert now.wall_ns <= allowed_ns, f"{was} {deed} {given_}"
        if life.clock.state in BELIEVED and now.ahead_ns == 0:
            farthest_ns, mono_ns = now.wall_ns, life.shown.mono_ns
            trusted_ns = max(trusted_ns, farthest_ns)
        elif deed in ("step", "pass", "restart") and was not in BELIEVED:
            known_s = max(before.judged_s, earlier_ns // SECOND_NS)
            assert life.clock.is_doubted or now.judged_s <= known_s + 7 * DAY_S + 3601
    assert life.clock.state in ClockState


def test_a_clock_whose_times_cannot_be_kept_is_named() -> None:
    check(START)
    with pytest.raises(
        StoreError, match=r"clock of this machine is wrong: it says the year 2106, .*; set it and start"
    ):
        check(Now((1 << 32) * SECOND_NS, 0))
