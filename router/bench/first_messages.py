"""Time how soon those who meet hear each other: the beginnings of the scenes of `router demo --meet`, again and again.

Every round has nodes of its own, which run before its time begins and know nothing of each other. Each command is a
process; nobody types a key or an address.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

from router.bench.rig import in_trio
from router.demo import by_invitation, on_a_lan
from router.demo.processes import Stage, on_stage

Row = dict[str, Any]
Say = Callable[[str], None]
Round = Callable[[Stage, Say, int], Awaitable[float]]
ROUNDS = 10


class Way(Struct, frozen=True):
    """A way to meet, and the goals: the most seconds of the median and of the longest, None where there is none.
    `round`: play one and return its seconds; `why_not`: why this machine cannot play it, "" if it can."""

    title: str
    median_s: float | None
    longest_s: float | None
    round: Round
    why_not: Callable[[], str]


def _by_invitation(stage: Stage, say: Say, number: int) -> Awaitable[float]:
    return by_invitation.first_message(stage, say)


def _on_a_lan(stage: Stage, say: Say, number: int) -> Awaitable[float]:
    return on_a_lan.first_message(stage, say)


def _one_way(stage: Stage, say: Say, number: int) -> Awaitable[float]:
    return on_a_lan.first_message(stage, say, deaf=number % 2)


WAYS = (
    Way("By invitation, from `router invite`", 5.0, 15.0, _by_invitation, by_invitation.why_not),
    Way("On a LAN, from the second `router lan on`", 3.0, None, _on_a_lan, on_a_lan.why_not),
    Way("The same, multicast reaches one of the two only", None, 10.0, _one_way, on_a_lan.why_not),
)


def first_messages(base: Path, rounds: int, say: Say, ways: Sequence[Way] = WAYS) -> list[Row]:
    """Return a row for each way to meet, with the seconds of every round and whether the goals are met (None: it was
    left out)."""
    return [_row(way, base, rounds, say) for way in ways]


def _row(way: Way, base: Path, rounds: int, say: Say) -> Row:
    goal = goal_text(way)
    if reason := way.why_not():
        return {"title": way.title, "goal": goal, "met": None, "verdict": f"left out: {reason}", "seconds": []}
    seconds, loads = list[float](), list[float]()
    for number in range(rounds):
        say(f"{way.title}: round {number + 1} of {rounds}")
        seconds.append(_play(base, way, number))
        loads.append(os.getloadavg()[0])
    typical, longest = median(seconds), max(seconds)
    met = not (way.median_s and typical > way.median_s) and not (way.longest_s and longest > way.longest_s)
    return {
        "title": way.title,
        "goal": goal,
        "met": met,
        "verdict": "yes" if met else "no",
        "median_s": round(typical, 2),
        "longest_s": longest,
        "seconds": seconds,
        "load": round(median(loads), 1),
    }


@in_trio
async def _play(base: Path, way: Way, number: int) -> float:
    """Play a round in a directory of its own, which goes with it."""
    place = base / f"round-{number}"
    place.mkdir()
    seconds = await on_stage(place, lambda stage: way.round(stage, _unheard, number))
    shutil.rmtree(place)
    return seconds


def _unheard(sentence: str) -> None:
    """Print nothing of the story."""


def goal_text(way: Way) -> str:
    """Return the goals as a cell of the table."""
    parts = (("median", way.median_s), ("longest", way.longest_s))
    return ", ".join(f"{name} at most {most:g} s" for name, most in parts if most is not None)


def cells(row: Row) -> tuple[str, str, str, str]:
    """Return a row's title, times, goal and verdict as text; one that was left out has no times."""
    times = f"{row['median_s']:.2f} s, {row['longest_s']:.2f} s" if row["seconds"] else ""
    return row["title"], times, row["goal"], row["verdict"]
