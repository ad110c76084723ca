"""Routers that lie of a neighbour, and say in addition that its log reaches further than it does, which excuses nothing
of what stands in it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from router.core.log.line import Line
from sabotage.logs import Rows
from sabotage.of_two import linked_there, refused_though_taken, refused_where_somebody_had_joined
from sabotage.scene import Scene

HEAD = {"head_seq": 10**9, "head_digest": "ab" * 32}
"""What no log here reaches."""


def _of_heads(rows: Rows) -> Rows:
    """Let each answer of a neighbour carry a head that this one's log does not reach."""

    def told(row: Line) -> Line:
        return replace(row, fields={**(row.fields or {}), **HEAD}) if row.event == "link" else row

    return [told(row) for row in rows]


def _beyond(lie: Callable[[Scene], None]) -> Callable[[Scene], None]:
    def sabotage(scene: Scene) -> None:
        lie(scene)
        scene.again(scene.rewritten[-1], _of_heads)
        scene.tell("warning", f"was told that this log reaches to {HEAD['head_seq']}: its end was cut off, or is not")

    sabotage.__name__ = f"{lie.__name__}_and_the_log_goes_on"
    return sabotage


BEYOND = tuple(map(_beyond, (refused_though_taken, refused_where_somebody_had_joined, linked_there)))
"""Such lies."""
