"""Sabotage by a router itself: it signs what contradicts itself or its neighbours, and every digest fits."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from saboteur_logs import Rows, segments
from saboteur_scene import Scene

from router.core.line import Line
from router.disk.eventlog import Limits, Segments
from spark_analytics.schema import ENDS

WEEKS_NS = 29 * 86_400 * 10**9
FAR = 10**9
"""An arrival number, and a link, that no sample comes to."""


def in_flight_for_weeks(scene: Scene) -> None:
    """Accepted 29 days ago for a minute, and said to be in flight on a link that came up just now."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        old = next(row for row in rows if row.event == "accepted" and row.recipients)
        whom, last = scene.chance.randbytes(32).hex(), rows[-1]
        accepted = replace(
            old, n=1, count=1, t=old.t - WEEKS_NS, first=FAR, ids=scene.chance.randbytes(32).hex(),
            sizes=[9], ttls=[60], expiries=[(old.expiries or [0])[0]], recipients=[whom],
            kind="multicast", source=None, destination=None, group=scene.chance.randbytes(32).hex(), peer=whom,
        )  # fmt: skip
        up = Line(1, "link_up", 0, 1, last.t, last.mono, last.router, last.boot, count=1, fields={"link": FAR})
        forwarded = Line(
            1, "forwarded", 0, 1, last.t, last.mono, last.router, last.boot, recipient=whom, link=FAR, count=1,
            ranges=[(FAR, 1)], parcel=FAR, attempt=0, depth=1, duration_ns=0,
        )  # fmt: skip
        return [rows[0], accepted, *rows[1:], up, forwarded]

    scene.again(victim, change)
    scene.tell("warning", f"The router {victim} still has 1 delivery under way", f"the arrival number {FAR}")


def pruned_without_ends(scene: Scene) -> None:
    """The ends of messages are not written, and then all that would show so is pruned: footers are left. Without what
    was refused at the door, which a footer counts with the ends."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        return [row for row in rows if row.event not in ENDS]

    scene.again(victim, change)
    count = len(segments(scene.logs[victim]))
    assert Segments(scene.logs[victim], scene.keys[victim], Limits()).prune(0.0, 0.0, 0) == count
    scene.pruned.add(victim)
    scene.tell("warning", f"The footers of the pruned segments of the router {victim}", "no message could wait for so")


LIES: tuple[Callable[[Scene], None], ...] = (in_flight_for_weeks, pruned_without_ends)
