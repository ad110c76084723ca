"""The number of messages that have expired everywhere: kept over kill -9 until each app was told, by value."""

from __future__ import annotations

from random import Random

import pytest

from router.core.wire.crypto import MessageId, PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison import caught_up
from services.pubsub.core.comparison.caught_up import KEPT_S, Figures
from services.pubsub.core.comparison.comparing import Comparing
from services.pubsub.core.conduct.clock_steps import KEPT as CLOCK
from services.pubsub.core.known import Known, Topic

GROUP, ROUTER, ANN, BEN = (PublicKey(bytes((one,)) * 32) for one in (7, 8, 9, 10))
NOW = c.Now(1_800_000_000, 1_000)


def keep(kept: dict[bytes, bytes], deeds: object) -> list[o.CaughtUp]:
    """Carry out the deeds that keep rows; return those that tell apps."""
    told: list[o.CaughtUp] = []
    for deed in deeds:  # type: ignore[attr-defined]
        if isinstance(deed, c.Put):
            kept.pop(deed.key, None)
            kept.update({} if deed.value is None else {deed.key: deed.value})
        elif isinstance(deed, o.CaughtUp):
            told.append(deed)
    return told


def test_a_figure_is_told_again_after_a_restart_but_to_those_that_have_heard_it() -> None:
    kept: dict[bytes, bytes] = {}
    assert keep(kept, Figures(kept).new(GROUP, 5, 3, 20_000)) == [o.CaughtUp(GROUP, 5, 3, 20_000)]
    keep(kept, Figures(kept).heard(GROUP, 5, ANN))
    keep(kept, Figures(kept).heard(GROUP, 5, ANN))
    keep(kept, Figures(kept).heard(GROUP, 4, BEN))
    assert keep(kept, Figures(kept).again(6)) == [o.CaughtUp(GROUP, 5, 3, 20_000, (ANN,))]
    assert not keep(kept, Figures(kept).again(6 + KEPT_S)) and not kept


def test_where_nothing_was_missing_nothing_is_kept() -> None:
    kept: dict[bytes, bytes] = {}
    assert keep(kept, Figures(kept).new(GROUP, 5, 0, 0)) == [o.CaughtUp(GROUP, 5)] and not kept


def test_figures_are_bounded_in_number_and_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caught_up, "FIGURES_MAX", 3)
    monkeypatch.setattr(caught_up, "HEARD_MAX", 2)
    kept: dict[bytes, bytes] = {}
    for at_s in range(10):
        keep(kept, Figures(kept).new(GROUP, at_s, 1, 1))
    for number in range(9):
        keep(kept, Figures(kept).heard(GROUP, 9, PublicKey(bytes((number,)) * 32)))
    told = keep(kept, Figures(kept).again(10))
    assert [one.at_s for one in told] == [7, 8, 9] and len(told[-1].heard) == 2


@pytest.mark.parametrize("is_wanted", [True, False])
def test_what_neighbours_have_dropped_is_known_after_kill_9(is_wanted: bool) -> None:
    """The messages that have come since are known too, also of groups that are wanted later."""
    kept: dict[bytes, bytes] = {}

    def start() -> tuple[Comparing, Known]:
        known = Known(PublicKey(bytes(32)))
        part = Comparing(c.Setup("pubsub", known.service, None, kept, Random(1)), known)
        keep(kept, part.hear(c.Started(ROUTER), NOW))
        return part, known

    part, known = start()
    if is_wanted:
        known.topics[GROUP] = Topic(GROUP)
        part.hear(o.Wanted(GROUP, True), NOW)
    keep(kept, part.hear(o.Dropped(ROUTER, GROUP, 20), NOW))
    keep(kept, part.hear(o.Dropped(ROUTER, GROUP, 5), NOW))
    if is_wanted:
        keep(kept, part.hear(c.Message(MessageId(bytes(32)), b"", group=GROUP), NOW))
    part, known = start()
    known.topics[GROUP] = Topic(GROUP)
    part.hear(o.Wanted(GROUP, True), NOW)
    plan = part._plans[GROUP]
    assert (plan.missed, plan.arrived) == (25, int(is_wanted))
    del known.topics[GROUP]
    keep(kept, part.hear(o.Wanted(GROUP, False), NOW))
    assert kept.keys() == {CLOCK}, "nobody reads the group any more"
