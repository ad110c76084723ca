"""Which findings of a stream's batches are new, and which are over; without Spark.

Each is said once when it is raised and once when it is over. What a late file may still undo waits until the logs of
all routers that are up to date have gone past the newest event that was known when it was found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_analytics.report.alarms import UNDONE, Key, Matter
from spark_analytics.report.finding import utc

RAISED, CLEARED = "raised", "cleared"
VERSION = 1
"""Version of the note of what stands."""
STANDING_MAX = 1_000
"""Most findings that stand at once, the worst first; how many more there are is a finding of its own."""
MORE: Key = ("more", "", "")
Heads = Mapping[str, tuple[int, int]]
Alarm = dict[str, Any]
"""A row of the table `alarm`, and what the command is given."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A batch, or a later look (`step`) before the next one; `stream` names the stream for good. `newest_ns`: the time
    of the newest event known; `passed_ns`: up to when the logs that are up to date have come."""

    stream: str
    batch: int
    step: int
    as_of_ns: int
    newest_ns: int = 0
    passed_ns: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands after a moment, by key: level, text and mark. `waiting`: of findings that are not said yet, the time
    of the newest event when each was made, in ns, and its mark; `untold`: alarms of which the command has not been
    told; `heads`: of each router the last sealed event, and the time of the newest one in its segment, in ns."""

    batch: int = -1
    step: int = 0
    raised: Mapping[Key, tuple[str, str, int]] = field(default_factory=dict)
    waiting: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    untold: tuple[Alarm, ...] = ()
    heads: Heads = field(default_factory=dict)


def after(before: Standing, found: Mapping[Key, Matter], at: Moment) -> tuple[Standing, list[Alarm]]:
    """Return what stands after that moment, and what is new of it: the alarms to write down and to tell."""
    waiting: dict[Key, tuple[int, int]] = {}
    for key, matter in found.items():
        known, since = before.raised.get(key), before.waiting.get(key)
        if key[0] in UNDONE and (known is None or known[2] != matter.mark):
            since_ns = since[0] if since is not None and since[1] == matter.mark else at.newest_ns
            if at.passed_ns <= since_ns:
                waiting[key] = since_ns, matter.mark
    said = _fewer({key: matter for key, matter in found.items() if key not in waiting}, before)
    new: list[Alarm] = []
    for key, matter in said.items():
        known = before.raised.get(key)
        if known is None or (known[0] != matter.level == "bad"):
            new.append(_alarm(key, RAISED, matter, at))
    for key, (level, text, _) in before.raised.items():
        if key not in said:
            new.append(_alarm(key, CLEARED, Matter(level, text, ""), at))
    raised = {key: (matter.level, matter.text, matter.mark) for key, matter in said.items()}
    return Standing(at.batch, at.step, raised, waiting, before.untold, before.heads), new


def looked(before: Standing, late: Mapping[Key, Matter], at: Moment) -> tuple[Standing, list[Alarm]]:
    """Return the same between two batches, where nothing but a log that has gone silent can be new."""
    found = {key: matter for key, matter in late.items() if key not in before.raised}
    raised = {**before.raised, **{key: (matter.level, matter.text, matter.mark) for key, matter in found.items()}}
    new = [_alarm(key, RAISED, matter, at) for key, matter in found.items()]
    return replace(before, step=at.step, raised=raised), new


def _fewer(found: Mapping[Key, Matter], before: Standing) -> dict[Key, Matter]:
    """Return at most `STANDING_MAX` findings, those that stand first, then the worst; one more counts the others."""
    order = sorted(found, key=lambda key: (key not in before.raised, found[key].level != "bad", key))
    kept = {key: found[key] for key in order[:STANDING_MAX]}
    if (rest := len(order) - STANDING_MAX) > 0:
        kept[MORE] = Matter("warning", f"There are {rest:,} further findings.", "The summary and the page list them.")
    return kept


def _alarm(key: Key, change: str, matter: Matter, at: Moment) -> Alarm:
    finding, router, peer = key
    named = [at.stream, at.batch, at.step, *key, change, matter.level]
    return {
        "key": hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32],
        "change": change,
        "level": matter.level,
        "finding": finding,
        "router": router,
        "peer": peer,
        "text": matter.text,
        "remedy": matter.remedy,
        "evidence": json.dumps(matter.evidence),
        "as_of": utc(at.as_of_ns),
    }


def to_text(standing: Standing) -> str:
    """Return what stands as JSON; `from_text` reads it back."""
    said = {
        "version": VERSION,
        "batch": standing.batch,
        "step": standing.step,
        "raised": [[*key, *value] for key, value in standing.raised.items()],
        "waiting": [[*key, *value] for key, value in standing.waiting.items()],
        "untold": standing.untold,
        "heads": [[router, *head] for router, head in standing.heads.items()],
    }
    return json.dumps(said)


def from_text(text: str) -> Standing | None:
    """Return what a note says, None if another version wrote it."""
    said = json.loads(text)
    if said.get("version") != VERSION:
        return None
    return Standing(
        said["batch"],
        said["step"],
        {(row[0], row[1], row[2]): (row[3], row[4], row[5]) for row in said["raised"]},
        {(row[0], row[1], row[2]): (row[3], row[4]) for row in said["waiting"]},
        tuple(said["untold"]),
        {router: (event, t) for router, event, t in said["heads"]},
    )


def passed(heads: Heads, holed: frozenset[str], as_of_ns: int, oldest_ns: int) -> tuple[int, int]:
    """Return the time of the newest event known, and up to when all logs have come that are whole and not late, in ns;
    without any of these, all logs that are not late, or all. `heads`: as for `late_heads`; `holed`: routers with
    holes."""
    times = {router: t for router, (_, t) in heads.items()}
    lively = {router: t for router, t in times.items() if as_of_ns - t <= oldest_ns} or times
    whole = [t for router, t in lively.items() if router not in holed]
    return max(times.values(), default=0), min(whole or lively.values(), default=0)
