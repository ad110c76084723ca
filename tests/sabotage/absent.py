"""Sabotage by a router of a subscriber that has joined and is away: its own log names whoever leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from router.core.log.line import Line
from sabotage.claimant import CannotLie, in_a_log
from sabotage.logs import Rows
from sabotage.scene import Scene

FOLLOWING = ("forwarded", "delivered", "acked", "deferred", "expired", "refused", "dropped", "evicted", "unconfirmed")


def _away(rows: Rows) -> Iterator[tuple[Line, str]]:
    """Yield accepted multicasts of one message, each with an app among its recipients that has joined and is away."""
    joined: set[tuple[object, object]] = set()
    links: dict[object, set[object]] = {}
    for line in rows:
        fields = line.fields or {}
        match line.event:
            case "start":
                links = {key: set() for key in links}
            case "join" if "service" not in fields:
                joined.add((fields.get("subscriber"), fields.get("group")))
            case "leave":
                joined.discard((fields.get("subscriber"), fields.get("group")))
            case "link_up" if fields.get("standing") == "local":
                links.setdefault(fields["peer"], set()).add(fields["link"])
            case "link_down":
                links.get(fields.get("peer"), set()).discard(fields.get("link"))
            case "accepted" if line.kind == "multicast" and line.n == 1 and len(line.recipients or ()) > 1:
                for one in line.recipients or ():
                    if (one, line.group) in joined and links.get(one) == set():
                        yield line, one


def _is_of(row: Line, line: Line, recipient: str) -> bool:
    return row.event in FOLLOWING and row.parcel == line.first and row.recipient == recipient


def _left_out_while_away(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Leave an app that has joined and is away out of the recipients."""
    for line, able in _away(rows):
        others = [one for one in line.recipients or () if one != able]
        kept = [row for row in rows if not _is_of(row, line, able)]
        said = f"The router {victim} does not name {able} as a recipient of 1 message, although"
        return [replace(row, recipients=others) if row is line else row for row in kept], said
    raise CannotLie


def _dropped_while_away(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Drop a message at once for an app that is away, as if it had left."""
    for line, able in [*_away(rows)][::-1]:
        said = f"The router {victim} says that it dropped 1 message because {able} had left, although"
        end = Line(1, "dropped", 0, 1, line.t, line.mono, line.router, line.boot, count=1, recipient=able)
        end = replace(end, link=0, ranges=[(line.first or 0, 1)], parcel=line.first, reason="left", attempt=0, depth=0)
        kept = [row for row in rows if not _is_of(row, line, able)]
        at = next(number for number, row in enumerate(kept) if row is line)
        return [*kept[: at + 1], replace(end, duration_ns=0), *kept[at + 1 :]], said
    raise CannotLie


OF_THE_ABSENT: tuple[Callable[[Scene], None], ...] = (
    in_a_log(_left_out_while_away),
    in_a_log(_dropped_while_away),
)
