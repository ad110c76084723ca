"""Print what the node's watch over itself costs: `PYTHONPATH=tests .venv/bin/python -m scale.alarm_cost`.

CPU time of this thread, the least of five runs: what noting the events of a transaction adds to writing them into a
segment, and what one second's rows of the store cost, on a real store and a real log.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from samples.logs import KEY
from samples.stores import BOOT, accepted, opened, parcel

from router.core.log.account import Account
from router.core.log.events import Event, Logged, Outward, span
from router.core.routing.effects import Changes
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.node.alarm_watch import ROWS_AT_ONCE

PARCELS = 4_000
RUNS = 5


def least_s(run: Callable[[], object]) -> float:
    """Return the CPU seconds of the cheapest of some runs."""
    found = []
    for _ in range(RUNS):
        began = time.thread_time()
        run()
        found.append(time.thread_time() - began)
    return min(found)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        random, path = Random(1), Path(directory)
        parcels = [parcel(random, 1 + number, 1_800_000_000, count=1, recipients=1) for number in range(PARCELS)]
        events: list[Event] = []
        for one in parcels:
            ended = Outward(1, 1, "delivered", one.recipients[0], 1, ((one.first, 1),), None, 0, 0, 0, one.first)
            events += [accepted(one), ended]
        logged = Logged(1, BOOT, events)

        def write() -> None:
            sealer = Sealer(Segments(path / f"log{random.random()}", KEY, LogLimits()))
            sealer.add_events(logged, 0.0)
            sealer.close()

        note_s, write_s = least_s(lambda: Account().note(logged)), least_s(write)
        lines = sum(map(span, events))
        print(f"noting an event: {note_s / lines * 1e6:.2f} µs; writing its line: {write_s / lines * 1e6:.2f} µs")

        store, account = opened(path / "store"), Account()
        store.apply(Changes(parcels=parcels), 1_800_000_000)
        store.commit()

        def read() -> None:
            account.begin(bytes)
            account.read(store.queued(b"", ROWS_AT_ONCE))

        print(f"reading {ROWS_AT_ONCE} rows of queues: {least_s(read) * 1e3:.2f} ms")
        store.close()


if __name__ == "__main__":
    main()
