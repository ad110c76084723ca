"""Sabotage with a router's key: the log is sealed again, and every signature is valid."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from router.core.log.line import Line
from sabotage.logs import Rows, digest, in_parts, read_rows, renumbered, seal, segments
from sabotage.scene import Scene
from spark_analytics.judgement.schema import ENDS

YEAR_NS = 366 * 86_400 * 10**9
WEEK_NS = 7 * 86_400 * 10**9
HOUR_NS = 3600 * 10**9


def other_version(scene: Scene) -> None:
    scene.forget_witnesses()
    victim = scene.victim(3)
    found = segments(scene.logs[victim])
    one = found[-1]
    rows = [replace(row, v=2) for row in read_rows([one.path])]
    seal(one.path.parent, scene.keys[victim], [rows], digest(found[-2].path), version=2)
    scene.lose(one, "foreign", one.path.name, "version 2")


def unknown_events(scene: Scene) -> None:
    """Add signed events that only a newer router knows: they are kept and counted."""
    scene.forget_witnesses()

    def change(rows: Rows) -> Rows:
        at = len(rows) // 2
        there = rows[at]
        odd = Line(1, "teleported", 0, 1, there.t, there.mono, there.router, there.boot, peer=there.router, count=3)
        return [*rows[:at], odd, odd, *rows[at:]]

    scene.again(scene.victim(), change)


def lost_ends(scene: Scene) -> None:
    """Omit the ends of some units, as a forgetful router would."""
    scene.forget_witnesses()
    chance = scene.chance

    def change(rows: Rows) -> Rows:
        return [row for row in rows if not (row.recipient and row.event in ENDS and chance.random() < 0.2)]

    scene.again(scene.victim(), change)


def doubled_deliveries(scene: Scene) -> None:
    scene.forget_witnesses()
    chance = scene.chance

    def change(rows: Rows) -> Rows:
        return [row for row in rows for _ in range(2 if row.event == "delivered" and chance.random() < 0.2 else 1)]

    scene.again(scene.victim(), change)
    scene.tell("warning")


def late_deliveries(scene: Scene) -> None:
    """Let some deliveries over links that stay up come an hour late, after all else but the last line."""
    scene.forget_witnesses()
    chance = scene.chance

    def change(rows: Rows) -> Rows:
        down = {(row.boot, (row.fields or {}).get("link")) for row in rows if row.event == "link_down"}
        ends = [
            row
            for row in rows[:-1]
            if row.event == "delivered" and row.boot == rows[-1].boot and (row.boot, row.link) not in down
        ]
        late = [row for row in ends if chance.random() >= 0.5]
        is_late = {id(row) for row in late}
        at_end = [replace(row, t=row.t + HOUR_NS, mono=(row.mono or 0) + HOUR_NS) for row in [*late, *rows[-1:]]]
        return [row for row in rows[:-1] if id(row) not in is_late] + at_end

    scene.again(scene.victim(), change)


def broken_custody(scene: Scene) -> None:
    """Remove messages that a core took in custody from its log, which stays whole and signed."""
    scene.forget_witnesses()
    victim = scene.core()
    others = set(scene.names) - {victim}

    def change(rows: Rows) -> Rows:
        taken = [row for row in rows if row.event == "accepted" and row.peer in others]
        gone = {row.first for row in taken[:: max(2, len(taken) // 5)]}
        return [row for row in rows if (row.first if row.event == "accepted" else row.parcel) not in gone or not gone]

    scene.again(victim, change)


def odd_clocks(scene: Scene) -> None:
    """Set one node's clock a year ahead and another's a week back."""
    scene.forget_witnesses()
    for by_ns in (YEAR_NS, -WEEK_NS):
        scene.again(scene.victim(), partial(_shifted, by_ns))
    scene.tell("warning")


def _shifted(by_ns: int, rows: Rows) -> Rows:
    return [replace(row, t=row.t + by_ns) for row in rows]


def forked(scene: Scene) -> None:
    """Let a copy of a home go on in parallel: two nodes sign with one key."""
    scene.forget_witnesses()
    victim = scene.victim(4)
    found = segments(scene.logs[victim])
    at = scene.chance.randrange(1, len(found) - 1)
    other = scene.directory / "restored" / "log"
    other.mkdir(parents=True)
    for one in found[:at]:
        shutil.copy(one.path, other)
        scene.statuses[max(one.path, other / one.path.name)] = "copy"
    rows = read_rows(one.path for one in found[at:])[::2]
    parts = in_parts(renumbered(rows, found[at].first), 2)
    paths = seal(other, scene.keys[victim], parts, digest(found[at - 1].path))
    scene.statuses |= dict.fromkeys([*paths, *(one.path for one in found[at:])], "fork")
    scene.holes[victim].append(found[at].first)
    scene.tell("bad", "two histories", paths[0].name)


def contradicting_ends(scene: Scene) -> None:
    """Record deliveries as expired as well."""
    scene.forget_witnesses()

    def change(rows: Rows) -> Rows:
        done = [row for row in rows if row.event in ("delivered", "acked")][::7]
        return [*rows, *(replace(row, event="expired", t=rows[-1].t, reason="ttl-expired") for row in done)]

    scene.again(scene.victim(), change)
    scene.tell("bad")


def loss_and_duplicate(scene: Scene) -> None:
    """Omit one delivery's end and write another twice: the sums agree, but the audit must not."""
    scene.forget_witnesses()

    def change(rows: Rows) -> Rows:
        long_ago = [row for row in rows if row.event in ("delivered", "acked")]
        return [row for row in rows if row is not long_ago[0]] + [replace(long_ago[1], t=rows[-1].t)]

    scene.again(scene.victim(), change)


def recorded_gap(scene: Scene) -> None:
    """Record a gap that the router itself found when it sealed."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        at = len(rows) // 2
        gone, there = rows[at : at + 5], rows[at + 5]
        missing = sum(row.n for row in gone)
        scene.holes[victim].append(1 + sum(row.n for row in rows[:at]))
        gap = Line(1, "log_gap", 0, missing, there.t, there.mono, there.router, there.boot, count=1)
        return [*rows[:at], replace(gap, fields={"missing": missing}), *rows[at + 5 :]]

    scene.again(victim, change)
    scene.tell("warning", "its router found them missing")


def rewritten(scene: Scene) -> None:
    """Change a line, and seal the log again from there: only neighbours that received a head can detect it."""
    victim = scene.victim(2)
    found = segments(scene.logs[victim])
    at = scene.chance.randrange(len(found))
    parts = [read_rows([one.path]) for one in found[at:]]
    changed = parts[0][len(parts[0]) // 2]
    parts[0][len(parts[0]) // 2] = replace(changed, mono=(changed.mono or 0) + 1)
    told = [(head, router) for head, router in scene.heads(victim) if head >= found[at].last]
    seal(scene.logs[victim], scene.keys[victim], parts, digest(found[at - 1].path) if at else None)
    if len({router for _, router in told}) > 1:
        scene.holes[victim].append(max(told)[0])
        scene.tell("bad", "rewritten")
    elif told:
        scene.tell("warning", "either that log was rewritten since, or that neighbour signed")


SEALED: tuple[Callable[[Scene], None], ...] = (
    other_version, unknown_events, lost_ends, doubled_deliveries, late_deliveries, broken_custody, odd_clocks, forked,
    contradicting_ends, loss_and_duplicate, recorded_gap, rewritten,
)  # fmt: skip
