"""Write a synthetic fleet's event logs, of any size, and the expected findings of an audit (`truth.json`)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from router.audit.disk_space import NO_ROOM, no_room
from router.audit.sample.fleet import Fleet, Place, signing_key
from router.audit.sample.log import SECOND, SampleLog
from router.audit.sample.run import Simulation

TRUTH = "truth.json"
SEGMENT_BYTES = 8 << 20
SEGMENT_S = 3600
NODES_MAX = 2000
MESSAGES_MAX = 1_000_000_000


class SampleFailed(Exception):
    """The sample was not written; the text says why and what is left of it."""


@dataclass(frozen=True, slots=True)
class Written:
    """How much was written to the disk."""

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
    """Write `directory`/NODE/log/events-*.jsonl of each node, and truth.json. Same arguments, same bytes.

    All or nothing: `SampleFailed` gives the error of the disk.
    """
    fleet = Fleet(seed, nodes)
    logs: list[SampleLog] = []

    def log(place: Place) -> SampleLog:
        key = signing_key(seed, place.name)
        logs.append(SampleLog(log_directory(directory, place.name), key, segment_bytes, segment_s))
        return logs[-1]

    with _whole(directory, [*(place.name for place in fleet.places), TRUTH]):
        simulation = Simulation(fleet, messages, log)
        for published in simulation.run():
            progress(published)
        said = {"seed": seed, **simulation.truth.said(simulation.now + 60 * SECOND)}
        (directory / TRUTH).write_text(json.dumps(said, indent=1) + "\n")
    return Written(
        len(logs), sum(one.segments for one in logs), sum(one.lines for one in logs),
        sum(one.seq - 1 for one in logs), sum(one.bytes for one in logs),
    )  # fmt: skip


@contextmanager
def _whole(directory: Path, names: Iterable[str]) -> Iterator[None]:
    """Delete what is new under these names unless the block succeeds, and also directories made to hold it."""
    new = [path for name in names if not (path := directory / name).exists()]
    above = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        yield
    except BaseException as error:
        _remove(new, above)
        if not isinstance(error, OSError):
            raise
        full = error.errno in NO_ROOM
        said = no_room(directory.absolute(), directory) if full else f"{error.filename or directory}: {error.strerror}"
        left = [str(path) for path in (*new, *above) if path.exists()]
        rest = f"{left[0]} could not be removed" if left else "nothing of the sample is left"
        raise SampleFailed(f"{said}; {rest}") from error


def _remove(new: Iterable[Path], above: Iterable[Path]) -> None:
    """Delete the logs and the truth, and the directories that are empty then."""
    for path in new:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink(missing_ok=True)  # the truth
    for path in above:
        with suppress(OSError):
            path.rmdir()
