"""Measure the streaming audit: `.venv/bin/python tests/scale/stream_rate.py [--rate N] [--open N] [--minutes M]`.

Pairs of routers, an edge and a core, write real signed segments. Each message is accepted by its edge, handed on,
acknowledged, accepted by the core and delivered: four events (a message accepted, or its end at a recipient). It waits
half of its time at either router, so that the same number is always open: accepted, and without an end there. All
segments are written beforehand, with the times they will have, and only renamed into the logs when their last event's
time has come; the stream reads them meanwhile as its own process. The delay is measured when a batch's summary is
complete: the age of the newest event that it covers, and of the watermark, up to which the logs of all routers reach.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

from router.actors.process import program
from router.audit.java import java_home
from router.core.log.events import Accepted, Event, Logged, Outward, RouterChange, span
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import SECOND_NS as SECOND
from router.core.wire.lifetime import expiry_min
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer

SIZE, TTL_S = 1000, 86_400
EVENTS, LINES = 4, 6
"""Events of a message, and lines of a parcel: at each router accepted, forwarded (no event of a message) and its
end."""
UP_NS = 30 * 86_400 * SECOND
"""Nanoseconds for which the routers have been up at the beginning."""
LINE_S = 10e-6
"""Estimated seconds to write a line in advance; if they are too few, all is written again with more time."""
SEGMENT_BYTES = 8 << 20
COMMIT_EVENTS = 256
WARM_UP = 3
"""Batches until Java has compiled its code; the first of them reads everything open at the beginning."""
ENDS = ("accepted", "acked", "delivered")


@dataclass(frozen=True, slots=True)
class Load:
    """The load. `rate`: events a second; `open_`: open messages; `batch`: messages of a parcel."""

    rate: int
    open_: int
    seconds: float
    batch: int
    pairs: int
    segment_s: float

    @property
    def parcel_ns(self) -> int:
        """Return the time between two parcels of a pair."""
        return EVENTS * self.batch * self.pairs * SECOND // self.rate

    @property
    def waiting(self) -> int:
        """Return how many parcels wait at each router of a pair."""
        return max(1, self.open_ // (2 * self.pairs * self.batch))

    @property
    def parcels(self) -> int:
        """Return how many parcels a pair writes, including those that wait at its two routers at the beginning."""
        return 2 * self.waiting + int(self.seconds * SECOND) // self.parcel_ns


@dataclass(order=True, slots=True)
class Segment:
    """A segment: the time of its last event, the path where it is written, the path of its final name, its events and
    lines."""

    last_ns: int
    ready: Path
    place: Path
    events: int
    lines: int


class Log:
    """A router's log, written by the sealer of nodes. `t`, `mono`: the clocks of the next events, in nanoseconds."""

    def __init__(self, directory: Path, name: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        key = SigningKey(sha256(name.encode()).digest())
        self.router = bytes(key.public)
        self.t = self.mono = 0
        self._sealer = Sealer(Segments(directory, key, LogLimits(segment_bytes=segment_bytes)))
        self._seq = 1
        self._events: list[Event] = []

    def put(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= COMMIT_EVENTS:
            self._flush()
            if self._sealer.due(0.0):
                self._sealer.seal()

    def _flush(self) -> None:
        if self._events:
            self._sealer.add_events(Logged(self._seq, bytes(16), self._events), 0.0)
            self._seq += sum(map(span, self._events))
            self._events = []

    def close(self) -> None:
        """Close the open segment; the next event begins another one."""
        self._flush()
        self._sealer.seal()


class Pair:
    """An edge and its core, which write the parcels of a load, from the first one until its end."""

    def __init__(self, load: Load, number: int, directory: Path, begin_ns: int) -> None:
        self._load = load
        self._begin_ns = begin_ns + number * load.parcel_ns // load.pairs
        self._booted_ns = self._begin_ns - UP_NS
        self._directories = [directory / f"{name}-{number}" for name in ("edge", "core")]
        self._edge, self._core = (Log(one, one.name) for one in self._directories)
        self._app = bytes(SigningKey(sha256(b"app %d" % number).digest()).public)
        self._ids: deque[bytes] = deque()
        expiry = expiry_min(begin_ns // SECOND + TTL_S)
        self._columns = [array("I", [value] * load.batch).tobytes() for value in (SIZE, TTL_S, expiry)]

    def write(self, ready: Path, logs: Path) -> Iterator[Segment]:
        """Write the segments. Those before `begin_ns` are closed at that time, later ones at their maximum age."""
        load, early = self._load, 2 * self._load.waiting
        closed_ns = self._begin_ns
        self._at(self._begin_ns - early * load.parcel_ns - SECOND)
        for log in (self._edge, self._core):
            log.put(RouterChange(log.t, log.mono, "start", ()))
        for at in range(load.parcels):
            now = self._begin_ns + (at - early) * load.parcel_ns
            if at == early or now - closed_ns >= load.segment_s * SECOND:
                yield from self._closed(ready, logs)
                closed_ns = now
            self._at(now)
            self._step(at)
        yield from self._closed(ready, logs)

    def _at(self, now: int) -> None:
        for log in (self._edge, self._core):
            log.t, log.mono = now, now - self._booted_ns

    def _step(self, at: int) -> None:
        batch, waiting = self._load.batch, self._load.waiting
        self._ids.append(os.urandom(32 * batch))
        self._take(self._edge, at, self._ids[-1], self._core.router)
        if at >= waiting:
            self._outward("acked", self._edge, at - waiting, self._core.router)
            self._take(self._core, at - waiting, self._ids[-1 - waiting], self._app)
        if at >= 2 * waiting:
            self._ids.popleft()
            self._outward("delivered", self._core, at - 2 * waiting, self._app)

    def _take(self, log: Log, at: int, ids: bytes, recipient: bytes) -> None:
        first, app = 1 + at * self._load.batch, self._app
        log.put(Accepted(log.t, log.mono, first, 0, app, app, app, 1, (recipient,), ids, *self._columns))
        self._outward("forwarded", log, at, recipient)

    def _outward(self, event: str, log: Log, at: int, recipient: bytes) -> None:
        batch = self._load.batch
        first, depth = 1 + at * batch, self._load.waiting * batch
        log.put(Outward(log.t, log.mono, event, recipient, 1, ((first, batch),), None, 0, depth, 1000, first))

    def _closed(self, ready: Path, logs: Path) -> Iterator[Segment]:
        for log, directory in zip((self._edge, self._core), self._directories, strict=True):
            log.close()
            for path in sorted(directory.glob("events-*.jsonl")):
                footer = json.loads(path.read_bytes().rsplit(b"\n", 2)[-2])
                events = sum(footer["counts"].get(event, 0) for event in ENDS)
                name = f"{directory.name}/{path.name}"
                path = path.rename(ready / name.replace("/", " "))
                yield Segment(footer["max_t"], path, logs / name, events, footer["lines"])


def written(load: Load, base: Path) -> tuple[int, list[Segment]]:
    """Write the load; return when it begins, and its segments in order of time, ready to be renamed."""
    allowed_s = 10 + LINES * load.parcels * load.pairs * LINE_S
    while True:
        with tempfile.TemporaryDirectory(dir=base) as directory:
            begin_ns = time.time_ns() + int(allowed_s * SECOND)
            ready = base / f"ready-{begin_ns}"
            ready.mkdir()
            pairs = (Pair(load, number, Path(directory), begin_ns) for number in range(load.pairs))
            found = sorted(segment for pair in pairs for segment in pair.write(ready, base / "logs"))
        if time.time_ns() < begin_ns:
            return begin_ns, found
        for segment in found:
            segment.ready.unlink()
        allowed_s *= 2


def bring(segments: Sequence[Segment], is_over: Callable[[], bool] = lambda: False) -> None:
    """Rename each segment as soon as the time of its last event has come, until it `is_over`."""
    for segment in segments:
        time.sleep(max(0.0, (segment.last_ns - time.time_ns()) / SECOND))
        if is_over():
            return
        segment.place.parent.mkdir(parents=True, exist_ok=True)
        segment.ready.rename(segment.place)


@dataclass(slots=True)
class Batch:
    """A batch. `files`: all files that it covers; `behind_s`: the age of their newest event when the summary was
    complete."""

    number: int
    files: int
    done_ns: int
    behind_s: float
    watermark_s: float

    def __str__(self) -> str:
        said = f"batch {self.number:3}: {self.files:5} segments, {self.behind_s:5.1f} s behind"
        return f"{said}, the watermark {self.watermark_s:5.1f} s"


def followed(lines: Iterable[str], segments: Sequence[Segment], out: Path) -> Iterator[Batch]:
    """Yield the batches of a stream, as it reports them."""
    files = 0
    for line in lines:
        if found := re.match(r"batch (\d+): \d+ new files of (\d+)", line):
            files = int(found[2])
        elif found := re.match(r"batch (\d+): .* after", line):
            now = time.time_ns()
            newest = max((segment.last_ns for segment in segments[:files]), default=0)
            mark = int(datetime.fromisoformat(summary_in(out)["watermark"]).timestamp())
            yield Batch(int(found[1]), files, now, (now - newest) / SECOND, now / SECOND - mark)
        else:
            print(line.rstrip())


def summary_in(out: Path) -> dict[str, Any]:
    [part] = (out / "summary.json").glob("part-*")
    return dict(json.loads(part.read_text()))


def memory_mib(pid: int) -> dict[str, int]:
    """Return the peak memory of each of a process's children, by name."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            said = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if int(said["PPid"]) == pid:
                found[said["Name"]] = int(said["VmHWM"].split()[0]) >> 10
    return found


def measured(load: Load, every_s: float, base: Path) -> dict[str, Any]:
    """Return the figures of one run, and print each batch as it ends."""
    begin_ns, segments = written(load, base)
    early = [segment for segment in segments if segment.last_ns < begin_ns]
    time.sleep(max(0.0, (begin_ns - time.time_ns()) / SECOND))
    bring(early)
    producer = Thread(target=bring, args=(segments[len(early) :],))
    producer.start()
    out = base / "out"
    command = program("spark_analytics.streaming", str(base / "logs"), "--out", str(out))
    batches: list[Batch] = []
    environment = os.environ | {"JAVA_HOME": str(java_home(base / "java"))}
    command += ["--every", str(every_s)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as stream:
        assert stream.stderr is not None
        for batch in followed(stream.stderr, segments, out):
            print(batch, flush=True)
            batches.append(batch)
            if batch.files == len(segments):
                memory = memory_mib(stream.pid)
                stream.send_signal(signal.SIGTERM)
    producer.join()
    if stream.returncode or not batches or batches[-1].files < len(segments):
        raise SystemExit(f"the stream ended with {stream.returncode} before it had read everything")
    return figures(load, segments, batches, summary_in(out)) | {"memory_mib": memory}


def figures(
    load: Load, segments: Sequence[Segment], batches: Sequence[Batch], summary: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the figures of the batches after the warm-up. `expected`: the summary's sums for the written load."""
    warm = batches[WARM_UP:] or batches[-1:]
    first = batches[-len(warm) - 1] if len(batches) > len(warm) else warm[0]
    covered = segments[first.files : warm[-1].files]
    span_s = (warm[-1].done_ns - first.done_ns) / SECOND or 1.0
    parcels, waiting, each = load.parcels, load.waiting, load.pairs * load.batch
    expected = {
        "owed": (2 * parcels - waiting) * each, "acked": (parcels - waiting) * each,
        "delivered": (parcels - 2 * waiting) * each, "pending": 2 * waiting * each,
    }  # fmt: skip
    return {
        "events_s": sum(segment.events for segment in covered) / span_s,
        "lines_s": sum(segment.lines for segment in covered) / span_s,
        "open": summary["pending"],
        "behind_s": {"median": median(one.behind_s for one in warm), "worst": max(one.behind_s for one in warm)},
        "watermark_s": {
            "median": median(one.watermark_s for one in warm), "worst": max(one.watermark_s for one in warm)
        },
        "batches": len(warm),
        "agrees": {name: summary[name] for name in expected} == expected,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=15_000, help="events a second")
    parser.add_argument("--open", type=int, default=1_000_000, help="messages that are open all the time")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--batch", type=int, default=100, help="messages of a parcel, which share their lines")
    parser.add_argument("--pairs", type=int, default=4, help="of an edge and a core")
    parser.add_argument("--segment-s", type=float, default=10, help="the age at which a router closes a segment")
    parser.add_argument("--every", type=float, default=1, metavar="SECONDS", help="between two batches at least")
    given = parser.parse_args()
    load = Load(given.rate, given.open, given.minutes * 60, given.batch, given.pairs, given.segment_s)
    with tempfile.TemporaryDirectory() as base:
        found = measured(load, given.every, Path(base))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
