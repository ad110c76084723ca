"""Clocks that are said to be set: by honest routers, and by routers that lie of a neighbour, which excuses nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from sabotage.logs import Rows
from sabotage.of_two import (
    asked_before_it_was_there,
    linked_there,
    refused_though_taken,
    refused_where_somebody_had_joined,
)
from sabotage.scene import NoLogLeft, Scene


def clocks_set(scene: Scene) -> None:
    """Let the clocks of up to three honest routers be set forward, each at some line, after which it goes on so."""
    scene.forget_witnesses()
    for _ in range(3):
        with suppress(NoLogLeft):
            scene.again(scene.victim(), lambda rows: _set_forward(rows, scene.chance.randrange(len(rows))))


def _set_forward(rows: Rows, at: int) -> Rows:
    by_ns = 600 * 10**9
    step = replace(
        next(row for row in rows if row.event == "config"), event="clock_step", t=rows[at].t + by_ns,
        mono=rows[at].mono, boot=rows[at].boot, fields={"by_s": 600, "doubted": False},
    )  # fmt: skip
    return [*rows[: at + 1], step, *(replace(row, t=row.t + by_ns) for row in rows[at + 1 :])]


def _excused(lie: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """Return the sabotage by which a router also says that its clock was set, which excuses nothing."""

    def set_clock(rows: Rows) -> Rows:
        at = next(at for at, row in enumerate(rows) if row.event == "config")
        step = replace(rows[at], event="clock_step", fields={"by_s": 600, "doubted": False})
        return [*rows[: at + 1], step, *rows[at + 1 :]]

    def sabotage(scene: Scene) -> None:
        lie(scene)
        scene.again(scene.rewritten[-1], set_clock)

    sabotage.__name__ = f"{lie.__name__}_and_a_clock_was_set"
    return sabotage


EXCUSED = tuple(
    map(_excused, (linked_there, refused_though_taken, refused_where_somebody_had_joined, asked_before_it_was_there))
)
"""Such lies of routers that say that their clock was set."""
