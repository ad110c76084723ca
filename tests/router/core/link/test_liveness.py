"""When a quiet neighbour is pinged and when its link is given up, second by second, on made-up signs of the path."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from router.core.link.liveness import (
    REPEATS_MIN,
    UNKNOWN,
    LinkCheck,
    Liveness,
    LivenessLimits,
    PathSigns,
    PathView,
)

LIMITS = LivenessLimits(ping_s=30, owed_ping_s=5, unacked_s=10)
PING, WAIT = LinkCheck.PING, LinkCheck.WAIT


@dataclass
class Neighbour:
    """A neighbour at the end of a path, looked at every second from 0 on."""

    signs: PathSigns = UNKNOWN
    is_stranded: bool = False
    owed: int | None = None
    now_s: float = 0.0
    pinged_s: list[float] = field(default_factory=list)
    liveness: Liveness = field(default_factory=Liveness)

    def until(self, second: float, *, hears: bool = False) -> LinkCheck:
        """Look until that second, or until the link is given up; `hears`: something comes each second."""
        path = PathView(lambda: self.signs, lambda: self.is_stranded)
        while self.now_s < second:
            self.now_s += 1
            if hears:
                self.liveness.heard(self.now_s)
            found = self.liveness.look(self.now_s, LIMITS, path, self.owed)
            if found is PING:
                self.pinged_s.append(self.now_s)
                self.liveness.asked(self.now_s)
            if found.is_end:
                return found
        return WAIT

    def answer(self) -> None:
        self.liveness.heard(self.now_s)


def unacked(*, ago_s: float, repeats: int = REPEATS_MIN) -> PathSigns:
    return PathSigns(is_unacked=True, acked_ago_s=ago_s, repeats=repeats)


# -- silence without a sign --------------------------------------------------------------------------------------


def test_silent_neighbour_is_pinged_twice_and_given_up_after_three_pings_time() -> None:
    one = Neighbour()
    assert one.until(1000) is LinkCheck.SILENT
    assert (one.pinged_s, one.now_s) == ([30, 60], 90)


def test_neighbour_that_is_heard_is_not_pinged() -> None:
    one = Neighbour(owed=1)
    assert one.until(1000, hears=True) is WAIT and not one.pinged_s


def test_answered_ping_begins_a_new_silence() -> None:
    one = Neighbour()
    one.until(30)
    one.answer()
    one.until(59)
    assert one.pinged_s == [30]
    one.until(60)
    assert one.pinged_s == [30, 60]


# -- something is owed -------------------------------------------------------------------------------------------


def test_neighbour_that_owes_a_settling_is_pinged_early_once_for_a_message() -> None:
    one = Neighbour(owed=7)
    one.until(5)
    assert one.pinged_s == [5]
    one.answer()
    one.until(34)
    assert one.pinged_s == [5], "it is there, and takes its time"
    one.until(35)
    one.answer()
    one.owed = 8
    one.until(40)
    assert one.pinged_s == [5, 35, 40]


def test_early_ping_does_not_shorten_the_patience_with_who_does_not_answer() -> None:
    one = Neighbour(owed=1)
    assert one.until(1000) is LinkCheck.SILENT
    assert one.pinged_s == [5, 35, 65] and one.now_s == 95


# -- the other machine acknowledges nothing ----------------------------------------------------------------------


def test_link_is_given_up_when_the_other_machine_acknowledges_nothing() -> None:
    one = Neighbour(owed=1, signs=unacked(ago_s=300))
    assert one.until(1000) is LinkCheck.UNACKED
    assert one.now_s == 11, "from the first look on, however long nothing had to be acknowledged before"


def test_ping_that_is_not_acknowledged_is_enough() -> None:
    one = Neighbour()
    one.until(30)
    one.signs = unacked(ago_s=31)
    assert one.until(1000) is LinkCheck.UNACKED and one.now_s == 41


@pytest.mark.parametrize(
    "signs",
    [
        pytest.param(unacked(ago_s=2), id="a slow path that acknowledges now and then"),
        pytest.param(unacked(ago_s=300, repeats=1), id="a long round trip, after which bytes are sent again once"),
        pytest.param(PathSigns(acked_ago_s=300), id="a neighbour that has everything and does not read"),
        pytest.param(UNKNOWN, id="a system that tells nothing"),
    ],
)
@pytest.mark.parametrize("has_changed", [False, True])
def test_link_over_a_healthy_path_is_not_given_up(signs: PathSigns, has_changed: bool) -> None:
    one = Neighbour(owed=1, signs=signs)
    if has_changed:
        one.liveness.network_changed(0.5)
    assert one.until(34) is WAIT, "only silence for three pings ends it"


def test_acknowledgement_in_between_begins_the_wait_anew() -> None:
    one = Neighbour(owed=1, signs=unacked(ago_s=8))
    one.until(9)
    one.signs = UNKNOWN
    one.until(10)
    one.signs = unacked(ago_s=300)
    assert one.until(20) is WAIT and one.until(21) is LinkCheck.UNACKED


def test_time_in_which_the_machine_slept_does_not_count() -> None:
    """The clock runs on while a laptop sleeps; the system's count of seconds does not."""
    one = Neighbour(owed=1, signs=unacked(ago_s=3))
    one.until(3)
    one.now_s = 30_000.0
    assert one.until(30_001) is WAIT
    one.signs = unacked(ago_s=11)
    assert one.until(30_007) is WAIT and one.until(30_008) is LinkCheck.UNACKED


# -- the network changes -----------------------------------------------------------------------------------------


def test_change_of_network_pings_at_once_and_halves_the_wait() -> None:
    one = Neighbour()
    one.until(20, hears=True)
    one.liveness.network_changed(20.5)
    one.until(21)
    assert one.pinged_s == [21]
    one.signs = unacked(ago_s=9)
    assert one.until(1000) is LinkCheck.UNACKED and one.now_s == 27


def test_neighbour_heard_after_a_change_is_as_before() -> None:
    one = Neighbour(is_stranded=False)
    one.liveness.network_changed(0.5)
    one.until(1)
    one.answer()
    one.is_stranded = True  # an address that was renewed meanwhile, say
    assert one.until(30) is WAIT and one.pinged_s == [1]


def test_connection_whose_address_is_gone_is_given_up() -> None:
    one = Neighbour()
    one.until(20, hears=True)
    one.liveness.network_changed(20.5)
    one.is_stranded = True
    assert one.until(1000) is LinkCheck.STRANDED and one.now_s == 22


def test_address_that_is_renewed_ends_nothing() -> None:
    one = Neighbour(is_stranded=True)
    one.liveness.network_changed(0.5)
    assert one.until(1) is WAIT
    one.is_stranded = False
    assert one.until(29) is WAIT


def test_network_that_changes_all_the_time_causes_few_pings() -> None:
    one = Neighbour()
    for second in range(1, 21):
        one.liveness.network_changed(second - 0.5)
        one.until(second)
        one.answer()
    assert one.pinged_s == [1, 6, 11, 16]


@pytest.mark.parametrize("every_s", [1, 7, 20, 50])
def test_silent_neighbour_is_given_up_though_the_network_changes_all_the_time(every_s: int) -> None:
    """As the routes of a far machine do; its own path is fine, and its system acknowledges what it does not read."""
    one = Neighbour()
    for second in range(1, 1000):
        if second % every_s == 0:
            one.liveness.network_changed(second - 0.5)
        if (found := one.until(second)).is_end:
            break
    assert found is LinkCheck.SILENT and 90 < one.now_s <= 210, "three pings' time twice, and the wait for a ping"
    assert len(one.pinged_s) <= 1 + one.now_s / LIMITS.owed_ping_s


def test_one_change_of_network_renews_the_patience_with_a_silent_neighbour() -> None:
    one = Neighbour()
    one.until(80)
    one.liveness.network_changed(80.5)
    assert one.until(1000) is LinkCheck.SILENT and one.pinged_s == [30, 60, 81, 111, 141] and one.now_s == 171


def test_other_pings_put_off_no_end() -> None:
    """Such as measure the clock of a neighbour after a step of this one."""
    one = Neighbour()
    for second in range(10, 1000, 10):
        one.liveness.asked(one.now_s)
        if (found := one.until(second)).is_end:
            break
    assert found is LinkCheck.SILENT and one.now_s <= 120


def test_liveness_tells_what_it_waits_for() -> None:
    one = Neighbour()
    one.until(30)
    assert repr(one.liveness) == "<liveness: heard at 0 s, 1 pings unanswered>" and one.liveness.is_asked
    one.answer()
    assert repr(one.liveness) == "<liveness: heard at 30 s, 0 pings unanswered>" and not one.liveness.is_asked
