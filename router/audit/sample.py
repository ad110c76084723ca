"""A synthetic fleet's event logs, of any size, and beside them what an audit of them must find (`truth.json`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from router.audit.sample_fleet import Fleet, Place, signing_key
from router.audit.sample_log import SECOND, SampleLog
from router.audit.sample_run import Simulation

TRUTH = "truth.json"
SEGMENT_BYTES = 8 << 20
SEGMENT_S = 3600
NODES_MAX = 2000
MESSAGES_MAX = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """How much there is on the disk."""

    nodes: int
    segments: int
    lines: int
    events: int
    bytes: int


def log_directory(directory: Path, name: str) -> Path:
    return directory / name / "log"


def write_sample(
    directory: Path, nodes: int, messages: int, seed: int, *, segment_bytes: int = SEGMENT_BYTES,
    segment_s: int = SEGMENT_S, progress: Callable[[int], None] = lambda published: None,
) -> Written:  # fmt: skip
    """Write `directory`/NODE/log/events-*.jsonl of each node, and truth.json. Same arguments, same bytes."""
    fleet = Fleet(seed, nodes)
    logs: list[SampleLog] = []

    def log(place: Place) -> SampleLog:
        key = signing_key(seed, place.name)
        logs.append(SampleLog(log_directory(directory, place.name), key, segment_bytes, segment_s))
        return logs[-1]

    simulation = Simulation(fleet, messages, log)
    for published in simulation.run():
        progress(published)
    said = {"seed": seed, **simulation.truth.said(simulation.now + 60 * SECOND)}
    (directory / TRUTH).write_text(json.dumps(said, indent=1) + "\n")
    return Written(
        len(logs), sum(one.segments for one in logs), sum(one.lines for one in logs),
        sum(one.seq - 1 for one in logs), sum(one.bytes for one in logs),
    )  # fmt: skip
