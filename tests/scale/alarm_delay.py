"""Measure how soon a stream says that something was lost: `PYTHONPATH=tests .venv/bin/python -m scale.alarm_delay`.

Beside the load of `stream_rate`, routers of their own each seal a segment that tells of a message dropped, one after
the other, at moments that do not follow the stream's batches. Of each is measured, from the moment when the segment has
its name: the seconds until the command of `--notify` has been started, and the batches until the one that raised the
alarm has ended, with the one that was at work at first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from router.actors.process import program
from router.audit.java import java_home
from router.bench.goal import Goal, table
from router.core.log.events import Accepted, Outward, RouterChange
from router.core.wire.lifetime import SECOND_NS as SECOND
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import Reason
from scale.stream_rate import SIZE, TTL_S, WARM_UP, Load, Log, bring, written

TELL = """#!/bin/sh
{ date +%s%N; cat; } >> "$1"
"""
"""The command of `--notify`: the time, then the alarm, into a file."""
APART_S = (4.0, 12.0)
"""The least and the most seconds between two losses."""
LOST = "ended-badly"


@dataclass(frozen=True, slots=True)
class Told:
    """A loss that was told of: the seconds until then, and how many batches it took."""

    after_s: float
    batches: int

    def __str__(self) -> str:
        return f"told after {self.after_s:5.1f} s, within {self.batches} batches"


class Loser:
    """A router whose log tells that it accepted a message, and later that it dropped it."""

    def __init__(self, logs: Path, number: int) -> None:
        self._log = Log(logs / f"loser-{number}", f"loser {number}")
        self._booted_ns = time.time_ns() - 60 * SECOND
        self.router = self._log.router.hex()

    def accept(self) -> None:
        now, log = self._now(), self._log
        log.put(RouterChange(now, log.mono, "start", ()))
        app = bytes(32)
        column = [one.to_bytes(4, "little") for one in (SIZE, TTL_S, expiry_min(now // SECOND + TTL_S))]
        log.put(Accepted(now, log.mono, 1, 0, app, app, app, 1, (app,), os.urandom(32), *column))
        log.close()

    def lose(self) -> int:
        """Tell of the loss in a segment; return when it had its name, in nanoseconds."""
        now, log = self._now(), self._log
        reason = Reason.LEFT.value
        log.put(Outward(now, log.mono, "dropped", bytes(32), 0, ((1, 1),), reason, 0, 0, 0, 1))
        log.close()
        return time.time_ns()

    def _now(self) -> int:
        self._log.t = time.time_ns()
        self._log.mono = self._log.t - self._booted_ns
        return self._log.t


class Batches:
    """When the batches of a stream ended, as it reports them. `raised`: how many had ended when an alarm was raised, by
    its text."""

    def __init__(self) -> None:
        self.ends_ns: list[int] = []
        self.raised: dict[str, int] = {}
        self._is_over = False
        self._news = threading.Condition()

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith("alarm raised: "):
                self.raised.setdefault(line, len(self.ends_ns))
            if re.match(r"batch \d+: .* after", line):
                with self._news:
                    self.ends_ns.append(time.time_ns())
                    self._news.notify_all()
            print(line.rstrip(), flush=True)
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def wait(self, count: int) -> None:
        """Wait until that many batches have ended; raise `SystemExit` if the stream has."""
        with self._news:
            self._news.wait_for(lambda: self._is_over or len(self.ends_ns) >= count)
            if self._is_over:
                raise SystemExit("the stream ended too early")

    def since(self, begin_ns: int, router: str) -> int:
        """Return how many batches it took until the alarm about a router, from the one that was at work then."""
        raised = min(count for line, count in self.raised.items() if router in line)
        return raised + 1 - bisect_left(self.ends_ns, begin_ns)


def told_in(path: Path) -> dict[str, int]:
    """Return when the command was told of the loss of each router, in nanoseconds."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = {}
    for when, text in zip(lines[::2], lines[1::2], strict=False):
        if not text.endswith("}"):
            continue  # It is still being written.
        alarm = json.loads(text)
        if (alarm["finding"], alarm["change"]) == (LOST, "raised"):
            found[alarm["router"]] = int(when)
    return found


def measured(load: Load, losses: int, every_s: float, base: Path) -> list[Told]:
    """Run the load and the stream; return what was told of each loss."""
    (base / "tell.sh").write_text(TELL)
    begin_ns, segments = written(load, base)
    losers = [Loser(base / "logs", number) for number in range(losses)]
    for loser in losers:
        loser.accept()
    early = [segment for segment in segments if segment.last_ns < begin_ns]
    time.sleep(max(0.0, (begin_ns - time.time_ns()) / SECOND))
    bring(early)
    over = threading.Event()
    producer = threading.Thread(target=bring, args=(segments[len(early) :], over.is_set))
    producer.start()
    command = program("spark_analytics.streaming", str(base / "logs"), "--out", str(base / "out"))
    command += ["--every", str(every_s), "--notify", f"sh {base / 'tell.sh'} {base / 'told'}"]
    environment = os.environ | {"JAVA_HOME": str(java_home(base / "java"))}
    batches, lost_ns = Batches(), {}
    with (
        ended(producer, over),
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as stream,
    ):
        assert stream.stderr is not None
        reader = threading.Thread(target=batches.read, args=(stream.stderr,))
        reader.start()
        batches.wait(WARM_UP)
        for loser in losers:
            lost_ns[loser.router] = loser.lose()
            time.sleep(random.uniform(*APART_S))
        while told_in(base / "told").keys() < lost_ns.keys():
            batches.wait(len(batches.ends_ns) + 1)
        stream.send_signal(signal.SIGTERM)
        reader.join()
    told_ns = told_in(base / "told")
    return [
        Told((told_ns[router] - since_ns) / SECOND, batches.since(since_ns, router))
        for router, since_ns in lost_ns.items()
    ]


@contextmanager
def ended(thread: threading.Thread, over: threading.Event) -> Iterator[None]:
    """Tell a thread to end, and wait until it has."""
    try:
        yield
    finally:
        over.set()
        thread.join()


def figures(found: Sequence[Told]) -> list[Goal]:
    return [
        Goal("batches until the command is told, most", max(one.batches for one in found), 2, False),
        Goal("batches, median", median(one.batches for one in found)),
        Goal("seconds until the command is told, median", median(one.after_s for one in found)),
        Goal("seconds, most", max(one.after_s for one in found)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=5_000, help="events a second")
    parser.add_argument("--open", type=int, default=100_000, help="messages that are open all the time")
    parser.add_argument("--losses", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=5, help="for how long the load lasts")
    parser.add_argument("--every", type=float, default=1, metavar="SECONDS", help="between two batches at least")
    given = parser.parse_args()
    load = Load(given.rate, given.open, given.minutes * 60, batch=100, pairs=4, segment_s=10)
    with tempfile.TemporaryDirectory() as base:
        found = measured(load, given.losses, given.every, Path(base))
    print("\n".join(str(one) for one in found))
    print("\n".join(table(figures(found), 1)))


if __name__ == "__main__":
    main()
