"""No honest router is accused, whatever became of the logs; and a line that is not true is told of, and of its router.

Honest worlds hold crashes, cuts, lost acknowledgements, clocks that were set, copies and carriers; what is lacking of
their logs is drawn. The faults never touch the log of a liar, nor the sound log that contradicts it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fleets.shared import Fleets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.audit.engine import AuditSpan, audit, evidence_of
from router.audit.export.logs import export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from sabotage import saboteur
from sabotage.liar import only_looks_so
from sabotage.of_two import lost_acknowledgement, refused_for_load
from sabotage.saboteur import SABOTAGES
from sabotage.scene import NoLogLeft, Scene, copied
from sabotage.set_clocks import clocks_set

WORLDS = 8
"""Fleets that other long tests read, too."""
FAULTS_MAX = 4
OF_A_LOG = ("claims", "unsent", "early", "again", "broken", "lost", "pruned_open")
"""The parts of a summary that accuse a router."""


def absent(scene: Scene) -> None:
    """Take a whole log away."""
    for path in scene.logs[scene.victim()].glob("*"):
        path.unlink()


FAULTS: tuple[Callable[[Scene], None], ...] = (
    absent, saboteur.removed_segment, saboteur.cut_tail, saboteur.pruned, saboteur.pruned_footers_lost, saboteur.moved,
    saboteur.copied_elsewhere, saboteur.copied_beside, saboteur.truncated, saboteur.without_footer,
)  # fmt: skip
OWN: dict[str, tuple[str, set[str]]] = {
    "left_out": ("claims", {"left-out"}),
    "left_out_while_away": ("claims", {"left-out"}),
    "dropped_while_away": ("claims", {"not-left"}),
    "given_as_history": ("claims", {"left-out"}),
    "asked_of_nobody": ("claims", {"left-out"}),
    "left_out_before_a_hole": ("claims", {"left-out"}),
    "not_left": ("claims", {"not-left"}),
    "never_written": ("claims", {"never-written"}),
    "before_its_place": ("claims", {"before-accepted"}),
    "ended_before_it_began": ("claims", {"before-accepted"}),
    "unanswered": ("claims", {"answer-owed"}),
    "not_full": ("claims", {"not-full"}),
    "not_owed": ("claims", {"not-owed"}),
    "not_begun": ("claims", {"not-begun"}),
    "begun_twice": ("claims", {"begun-twice"}),
    "heard_when_down": ("claims", {"heard-when-down"}),
    "time_back": ("claims", {"time-back"}),
    "other_time": ("claims", {"other-time"}),
    "invented_reason": ("claims", {"unknown-reason"}),
    "not_crowded": ("claims", {"not-crowded"}),
    "all_out": ("claims", {"no-room"}),
    "not_away": ("claims", {"not-away"}),
    "not_too_large": ("claims", {"not-too-large"}),
    "may_wait": ("claims", {"may-wait"}),
    "refused_unwritten": ("claims", {"refused-unwritten"}),
    "refused_later": ("claims", {"no-such-end"}),
    "unlinked": ("claims", {"never-linked"}),
    "delivered_unlinked": ("claims", {"never-linked"}),
    "after_down": ("claims", {"never-linked"}),
    "acked_by_a_stranger": ("claims", {"never-linked"}),
    "another_ttl": ("claims", {"other-ttl"}),
    "other_facts": ("claims", {"other-kind", "other-sender", "other-destination", "other-expiry", "other-size"}),
    "refused_though_taken": ("claims", {"refused-there"}),
    "refused_where_somebody_had_joined": ("claims", {"joined-there"}),
    "linked_there": ("claims", {"linked-there"}),
    "asked_before_it_was_there": ("claims", {"no-history"}),
    "refused_though_taken_and_a_clock_was_set": ("claims", {"refused-there"}),
    "refused_where_somebody_had_joined_and_a_clock_was_set": ("claims", {"joined-there"}),
    "linked_there_and_a_clock_was_set": ("claims", {"linked-there"}),
    "asked_before_it_was_there_and_a_clock_was_set": ("claims", {"no-history"}),
    "refused_though_taken_and_the_log_goes_on": ("claims", {"refused-there"}),
    "refused_where_somebody_had_joined_and_the_log_goes_on": ("claims", {"joined-there"}),
    "linked_there_and_the_log_goes_on": ("claims", {"linked-there"}),
    "in_a_circle_of_2": ("claims", {"in-a-circle"}),
    "in_a_circle_of_3": ("claims", {"in-a-circle"}),
    "flooded_by_nobody": ("claims", {"not-handed"}),
    "never_sent": ("unsent", set()),
    "expired_at_once": ("early", set()),
    "accepted_twice": ("again", set()),
    "broken_custody": ("broken", set()),
    "delivered_to_nobody": ("broken", set()),
}
"""By lie: where it is told of, and as which claims."""
BESIDE = {
    "never_sent": {"owed-wrongly"},
    "all_out": {"may-wait"},
    "expired_at_once": {"other-ttl", "answer-owed", "may-wait"},
    "accepted_twice": {"other-time", "time-back", "begun-twice"},
    "after_down": {"heard-when-down"},
    "given_as_history": {"never-linked"},
    "asked_of_nobody": {"never-linked"},
    "not_owed": {"never-linked"},
    "in_a_circle_of_2": {"left-out"},
    "in_a_circle_of_3": {"left-out"},
}
"""Claims that a lie may bring about as well: it writes a ttl, a time, whom a message reached, or who brought it, that
is not true; only whoever brought a message is not sent it, and nobody has a link with somebody who is not there."""
SEEMING = (None, only_looks_so, lost_acknowledgement, refused_for_load, clocks_set)
"""What honest routers write that only looks like a lie."""
faults = st.lists(st.sampled_from(FAULTS), max_size=FAULTS_MAX)


def limited(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck])


def worlds(fleets: Fleets, *, is_long: bool) -> st.SearchStrategy[Path]:
    """Draw a fleet: always the same one in the quick tests, which others read, too."""
    return st.integers(0, WORLDS - 1 if is_long else 0).map(lambda seed: fleets(10, 200, seed))


def accusations(found: dict[str, Any]) -> list[Any]:
    rows = [row for name in OF_A_LOG for row in found[name]]
    return [row for row in rows if row.get("is_over", True)]


@pytest.mark.parametrize("examples", [3, pytest.param(150, marks=pytest.mark.long)])
def test_an_honest_router_is_never_accused(examples: int, fleets: Fleets) -> None:
    @limited(examples)
    @given(
        worlds(fleets, is_long=examples > 3),
        st.integers(0, 99),
        faults,
        st.sampled_from(SEEMING),
        st.booleans(),
        st.floats(0, 1),
    )
    def judge(
        fleet: Path,
        seed: int,
        faults: list[Callable[[Scene], None]],
        seeming: Callable[[Scene], None] | None,
        is_export: bool,
        part: float,
    ) -> None:
        with TemporaryDirectory() as name:
            scene = copied(fleet, Path(name) / "logs", seed)
            if seeming is not None:
                seeming(scene)
            for fault in faults:
                with suppress(NoLogLeft):  # of ten, where something seems a lie and segments were moved
                    fault(scene)
            listing = list_logs([scene.directory])
            if is_export:
                export(*evidence_of(listing), Path(name) / "out", lambda: Pseudonyms(bytes(32)))
                listing = list_logs([Path(name) / "out"])
            as_of_ns = scene.as_of_ns - int(part * 1200) * 10**9
            assert accusations(audit(listing, AuditSpan(as_of_ns))) == []

    judge()


@pytest.mark.parametrize("examples", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_lie_is_told_of_and_of_nobody_else(examples: int, fleets: Fleets) -> None:
    @limited(examples)
    @given(worlds(fleets, is_long=False), st.integers(0, 99), st.sampled_from([*OWN]), faults)
    def judge(fleet: Path, seed: int, lie: str, faults: list[Callable[[Scene], None]]) -> None:
        with TemporaryDirectory() as name:
            scene = copied(fleet, Path(name) / "logs", seed)
            SABOTAGES[lie](scene)
            liars = scene.touched()
            for fault in faults:
                with suppress(NoLogLeft):  # of ten, where something seems a lie and segments were moved
                    fault(scene)
            found = audit(list_logs([scene.directory]), AuditSpan(scene.as_of_ns))
            part, claims = OWN[lie]
            assert found[part], lie
            assert claims <= {row["claim"] for row in found["claims"]} <= claims | BESIDE.get(lie, set())
            about = ({row.get(name) for name in ("router", "peer", "recipient")} for row in accusations(found))
            assert all(liars & whom for whom in about)

    judge()
