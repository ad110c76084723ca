"""The wall clock, and whether it is believed.

| state     | what is known of the clock                                             | verdicts go by        | expires |
|-----------|------------------------------------------------------------------------|-----------------------|---------|
| believed  | it runs with the steady clock                                          | what it shows         | yes     |
| doubted   | it jumped ahead, or began far ahead of all that was known              | what was believed     | no      |
|           |                                                                        | last, counted on      |         |
| disputed  | its neighbours agree with each other, and not with it                  | the neighbours' time  | no      |
| confirmed | the operator says that it is right                                     | what it shows         | yes     |

| from                 | to        | when                                                                            |
|----------------------|-----------|---------------------------------------------------------------------------------|
| (a start)            | doubted   | it is further ahead of the last known time than a message lives; or it was      |
|                      |           | doubted or disputed before and has not been set back since                      |
| believed, confirmed  | doubted   | it steps ahead                                                                  |
| believed, doubted    | disputed  | most neighbours agree with each other, and not with it                          |
| doubted, disputed    | believed  | most neighbours agree with it; or it is set to about the time that verdicts go by |
| disputed             | doubted   | it steps ahead of that time                                                     |
| any                  | believed  | it steps back behind that time: then nothing ends too early                     |
| believed, doubted    | believed  | it is set to about the time that an earlier run trusted, as a start there is    |
| any                  | confirmed | the operator says so; neighbours are not asked again until it steps             |

A clock alone ends nothing before a second source agrees with it, and a restart settles no doubt.

A start behind the time that an earlier run trusted keeps that time (`Belief.earlier_ns`), also over further restarts:
a step ahead is judged as a start at that place would have been, so that setting the clock in a run gains nothing over
setting it before the start. It is dropped when the clock reaches it, when neighbours agree or dispute, and when the
operator confirms. A step back during a run lets no step ahead be believed: a clock that jumps to and fro must not end
anything. But from a step back on, until neighbours agree or dispute, the operator confirms, or `UNDONE_S` have passed,
the ttl of what is accepted counts from the later time: if the step is undone, nothing ends at once for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from router.core.routing.recovered import Belief
from router.core.wire.lifetime import SECOND_NS, UINT32_MAX, apart_words
from router.core.wire.now import Now
from router.disk.store.terms import StoreError
from router.settings.config_limits import Limits

WALL_S_MAX = UINT32_MAX - 366 * 86_400  # an end within a year must fit a Unix second of 32 bits
UNDONE_S = 3_600
"""For how long after a step back it is expected that it may be undone."""
OR_CONFIRM = "set it, or, if it is right, run `router clock confirm`"


def check(now: Now) -> None:
    """Raise `StoreError` if the store could not hold the times of a node that starts now."""
    if now.wall_s > WALL_S_MAX:
        said = f"the clock of this machine is wrong: it says the year {time.gmtime(now.wall_s).tm_year}"
        raise StoreError(f"{said}, and no time after 2105 can be kept; set it and start again: nothing was changed")


class ClockState(Enum):
    """The states of the clock, as in the tables above."""

    BELIEVED = "believed"
    DOUBTED = "doubted"
    DISPUTED = "disputed"
    CONFIRMED = "confirmed"


BELIEVED = (ClockState.BELIEVED, ClockState.CONFIRMED)


class Vote(NamedTuple):
    """The offset by which the clock of a neighbour that the operator knows is ahead of ours."""

    offset_ns: int
    is_uplink: bool = False


LIMITS = Limits()


class ClockLimits(Struct, frozen=True):
    """Limits in seconds: the least step; how far a start may be ahead of the last known time; the largest difference of
    two clocks that agree."""

    step_s_max: float = LIMITS.clock_step_s_max
    ahead_s_max: float = LIMITS.lifetime_s_max
    offset_s_max: float = LIMITS.clock_offset_s_max


class WallClock:
    """Judges the wall clock about once a second, and when a neighbour's clock differs. In between, time is counted by
    the steady clock from the last believed time, so that no deadline passes by an unjudged step."""

    def __init__(self, shown: Now, limits: ClockLimits, known: Belief | None = None) -> None:
        """Begin with the reading `shown`; `known` is the last belief before the start."""
        self._step_ns_max = int(limits.step_s_max * SECOND_NS)
        self.near_ns = int(limits.offset_s_max * SECOND_NS)
        self.step_ns_min = min(self._step_ns_max, self.near_ns)  # what moves it further at once is a step
        self._ahead_ns_max = int(limits.ahead_s_max * SECOND_NS)
        self._last = self._judged = shown
        self._tolerance_ns = self._ahead_ns_max  # how far ahead of the believed time a clock that is set back may be
        self.state = ClockState.BELIEVED
        self.began_ahead_ns = 0  # how far the start was ahead of the last known time
        self._earlier: Now | None = None  # the later time that an earlier run trusted, when this run began
        self._before_back: Now | None = None  # the time that was believed when the clock stepped back, at that moment
        if known is not None:
            self._begin(shown, known)

    def _begin(self, shown: Now, known: Belief) -> None:
        self.began_ahead_ns = ahead_ns = shown.wall_ns - known.judged_ns
        if known.earlier_ns:
            self._earlier = Now(known.earlier_ns, shown.mono_ns)
        was_doubted = known.state not in (ClockState.BELIEVED.value, ClockState.CONFIRMED.value)
        is_set_back = shown.wall_ns < known.shown_ns - self._step_ns_max and ahead_ns >= -self._step_ns_max
        is_ahead = ahead_ns > self._ahead_ns_max and not self._is_near_earlier(shown)
        if is_ahead or (was_doubted and not is_set_back):
            self.state = ClockState.DOUBTED
            self._judged = Now(known.judged_ns, shown.mono_ns)
            return
        if known.state == ClockState.CONFIRMED.value and ahead_ns <= self._ahead_ns_max:
            self.state = ClockState.CONFIRMED
        if ahead_ns < -self._step_ns_max and not was_doubted:
            self._earlier = Now(max(known.judged_ns, known.earlier_ns), shown.mono_ns)
        self._drop_if_reached(shown)

    def _is_near_earlier(self, shown: Now) -> bool:
        """Whether a start at this time would be believed by what an earlier run trusted."""
        return self._earlier is not None and shown.wall_ns - _counted_on(self._earlier, shown) <= self._ahead_ns_max

    def _drop_if_reached(self, shown: Now) -> None:
        if self._earlier is not None and shown.wall_ns >= _counted_on(self._earlier, shown) - self._step_ns_max:
            self._earlier = None

    def __repr__(self) -> str:
        return f"<wall clock: {self.state.value}>"

    @property
    def is_doubted(self) -> bool:
        """Whether the clock is doubted or disputed, so that nothing expires."""
        return self.state not in BELIEVED

    def now(self, shown: Now) -> Now:
        """Return a reading of both clocks with its judgement."""
        judged_ns = self._judged.wall_ns + shown.mono_ns - self._judged.mono_ns
        ahead_ns = shown.wall_ns - judged_ns
        if not self.is_doubted and abs(ahead_ns) <= self._step_ns_max:
            later_ns = self._later_ns(shown)
            return shown._replace(later_ns=later_ns) if later_ns else shown
        later = Now(max(shown.wall_ns, judged_ns), shown.mono_ns, ahead_ns)
        return later._replace(later_ns=self._later_ns(later))

    def _later_ns(self, shown: Now) -> int:
        """Return how much later the time before a step back is than this one, as long as that may be undone."""
        before = self._before_back
        if before is None or shown.mono_ns - before.mono_ns > UNDONE_S * SECOND_NS:
            return 0
        return max(0, _counted_on(before, shown) - shown.wall_ns)

    def belief(self, now: Now) -> Belief:
        """Return the belief to keep for the next start."""
        earlier_ns = 0 if self._earlier is None else _counted_on(self._earlier, now)
        return Belief(now.judged_s * SECOND_NS, now.shown_ns, self.state.value, earlier_ns)

    def look(self, now: Now, votes: Iterable[Vote]) -> float:
        """Judge the clock; return by how many seconds it stepped since the last call, 0 if only a little. The votes
        were measured before a step, so they count only without one."""
        shown = Now(now.shown_ns, now.mono_ns)
        stepped_ns = shown.wall_ns - self._last.wall_ns - (shown.mono_ns - self._last.mono_ns)
        self._last = shown
        has_moved = abs(stepped_ns) > self.step_ns_min
        if abs(stepped_ns) > self._step_ns_max:
            self._step(shown, stepped_ns)
        elif not has_moved and self.state is not ClockState.CONFIRMED:
            self._weigh(shown, votes)
        if not self.is_doubted:
            self._judged = shown
            self._drop_if_reached(shown)
        return stepped_ns / SECOND_NS if has_moved else 0.0

    def _step(self, shown: Now, stepped_ns: int) -> None:
        ahead_ns = shown.wall_ns - self._judged.wall_ns - (shown.mono_ns - self._judged.mono_ns)
        tolerance_ns = self._step_ns_max if stepped_ns > 0 or not self.is_doubted else self._tolerance_ns
        if not self.is_doubted:
            self._tolerance_ns = self._step_ns_max
            if stepped_ns < 0:
                before = Now(_counted_on(self._judged, shown), shown.mono_ns)
                self._before_back = Now(before.wall_ns + self._later_ns(before), shown.mono_ns)
        is_ahead = ahead_ns > tolerance_ns and not self._is_near_earlier(shown)
        self.state = ClockState.DOUBTED if is_ahead else ClockState.BELIEVED
        self.began_ahead_ns = 0

    def _weigh(self, shown: Now, votes: Iterable[Vote]) -> None:
        match consensus([*votes], self.near_ns):
            case None:
                pass
            case 0:
                self.state, self.began_ahead_ns, self._earlier = ClockState.BELIEVED, 0, None
                self._before_back = None
            case offset_ns:
                self.state, self._tolerance_ns, self._earlier = ClockState.DISPUTED, self._step_ns_max, None
                self._judged, self._before_back = Now(shown.wall_ns + offset_ns, shown.mono_ns), None

    def confirm(self, now: Now) -> None:
        """Trust the clock, which the operator says is right."""
        self._last = self._judged = Now(now.shown_ns, now.mono_ns)
        self.state, self._earlier, self._before_back = ClockState.CONFIRMED, None, None

    def problem(self, now: Now) -> str:
        """Return a sentence for the operator with the fault, its consequence and the remedy; "" if nothing is wrong."""
        if self.state is ClockState.BELIEVED and self.began_ahead_ns < -self._step_ns_max:
            return (
                f"the clock of this machine began {apart_words(self.began_ahead_ns)} "
                f"the last time that this node knew: if it is wrong, the next router refuses what is sent by it; "
                f"{OR_CONFIRM}"
            )
        if not self.is_doubted:
            return ""
        apart = apart_words(now.ahead_ns)
        if self.state is ClockState.DISPUTED:
            return (
                f"the clock of this machine is {apart} its neighbours' clocks: nothing expires, and messages that only "
                f"one of both times allows are refused clock-doubted, until it is mended; {OR_CONFIRM}"
            )
        return (
            f"the clock of this machine is {apart} the last time that this node trusted: nothing expires, and messages "
            f"that only one of both times allows are refused clock-doubted, until a neighbour's clock agrees; "
            f"{OR_CONFIRM}"
        )


def _counted_on(then: Now, shown: Now) -> int:
    """Return the wall time in nanoseconds that `then` has become by the steady clock."""
    return then.wall_ns + shown.mono_ns - then.mono_ns


def consensus(votes: Sequence[Vote], near_ns: int) -> int | None:
    """Return by how much this clock is behind its neighbours'; 0 if they agree with it, None if they are undecided.

    An uplink counts twice. A single neighbour is believed only if it is an uplink and no other agrees with this clock:
    if the clocks of a core and an edge differ, the edge doubts its own.
    """
    agree = [one for one in votes if abs(one.offset_ns) <= near_ns]
    most = _largest_group(sorted(one for one in votes if abs(one.offset_ns) > near_ns), 2 * near_ns)
    if _weight(agree) > _weight(most):
        return 0
    if 2 * _weight(most) > _weight(votes) and (len(most) > 1 or (most[0].is_uplink and not agree)):
        return most[len(most) // 2].offset_ns
    return None


def _weight(votes: Iterable[Vote]) -> int:
    return sum(1 + one.is_uplink for one in votes)


def _largest_group(votes: Sequence[Vote], width_ns: int) -> Sequence[Vote]:
    """Return the group of ascending votes that agree with each other and weigh the most."""
    start = weight = most = 0
    found = 0, 0
    for at, one in enumerate(votes):
        weight += 1 + one.is_uplink
        while one.offset_ns - votes[start].offset_ns > width_ns:
            weight -= 1 + votes[start].is_uplink
            start += 1
        if weight > most:
            most, found = weight, (start, at + 1)
    return votes[slice(*found)]
