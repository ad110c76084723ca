"""Measure `router why` on a large log: `.venv/bin/python tests/scale/why_scale.py [EVENTS] [--batch N]…`.

A log of EVENTS events is written as a node would write it, in a temporary directory. Printed are the cost of the index
while the log is written, its size, and the time of a look-up: of the newest message, an old one, one that does not
exist, and of four digits that fit many.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from struct import pack

from router.core.log.events import ID_BYTES, Accepted, Event, Outward, encode_events, span
from router.core.why.id_prefix import IdPrefix, parse_prefix
from router.core.wire.crypto import SigningKey
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.index import INDEX, Growing
from router.disk.log.sealer import Sealer
from router.disk.log.search import FoundEvents, LogSnapshot, Search

KEY = SigningKey(b"b" * 32)
BOOT = bytes(16)
ROUNDS = 5
SAMPLE_VALUES = 400


def values(events: int, batch: int, recipients: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield values of the store, each with its first id: one parcel accepted, the one before forwarded and
    delivered."""
    keys = [os.urandom(32) for _ in range(recipients + 2)]
    seq = arrival = 1
    column = pack(f"<{batch}I", *[1000] * batch)
    now_ns, before = 1_790_000_000_000_000_000, 0
    while seq <= events:
        ids = os.urandom(ID_BYTES * batch)
        batch_events: list[Event] = [
            Accepted(now_ns, 1, arrival, 1, keys[0], None, keys[1], 3, tuple(keys[2:]), ids, column, column, column)
        ]
        for event in ("forwarded", "delivered") if before else ():
            batch_events += [
                Outward(now_ns, 1, event, key, 3, ((before, batch),), None, 0, batch, 500, before) for key in keys[2:]
            ]
        yield encode_events(batch_events, seq, BOOT), ids[:ID_BYTES]
        seq += sum(map(span, batch_events))
        before, arrival, now_ns = arrival, arrival + batch, now_ns + 1_000_000


def timed(action: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def cost_of_index(batch: int, recipients: int) -> tuple[float, float]:
    """Return the microseconds a message that the sealer needs for a value, and the part of the index in it."""
    ready = [value for value, _ in values(SAMPLE_VALUES * batch, batch, recipients)]
    messages = len(ready) * batch

    def seal() -> float:
        with tempfile.TemporaryDirectory() as directory:
            sealer = Sealer(Segments(Path(directory) / "log", KEY, LogLimits(segment_bytes=1 << 40)))
            found = timed(lambda: [sealer.add(value, 0) for value in ready])
            sealer.close()
        return found

    note = Growing.note
    whole = min(seal() for _ in range(ROUNDS))
    spent = []
    for _ in range(ROUNDS):
        taken = [0.0]

        def measured(self: Growing, offset: int, events: list[Event], taken: list[float] = taken) -> None:
            taken[0] += timed(lambda: note(self, offset, events))

        Growing.note = measured  # type: ignore[method-assign, assignment]
        seal()
        spent.append(taken[0])
    Growing.note = note  # type: ignore[method-assign]
    return whole / messages * 1e6, min(spent) / messages * 1e6


def written(directory: Path, events: int, batch: int, recipients: int) -> tuple[LogSnapshot, list[bytes], Sealer]:
    segments = Segments(directory, KEY, LogLimits())
    sealer, ids = Sealer(segments), []
    for value, first in values(events, batch, recipients):
        sealer.add(value, 0)
        if sealer.due(0):
            sealer.seal()
        ids.append(first)
    return LogSnapshot(segments.kept(), sealer.unsealed(), segments.pruned_seq), ids, sealer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--batch", type=int, default=100, help="messages a value")
    parser.add_argument("--recipients", type=int, default=1)
    given = parser.parse_args()
    sealing, index = cost_of_index(given.batch, given.recipients)
    print(f"sealing {sealing:.3f} µs a message, of it the index {index:.3f}")
    with tempfile.TemporaryDirectory() as base:
        directory = Path(base) / "log"
        log, ids, sealer = written(directory, given.events, given.batch, given.recipients)
        size = sum(path.stat().st_size for path in directory.glob("events-*"))
        beside = sum(path.stat().st_size for path in directory.glob(f"{INDEX}*"))
        print(f"{given.events:,} events, {len(log.sealed)} segments of {size >> 20} MiB, indexes {beside >> 20} MiB")
        asked = {
            "the newest message": ids[-2].hex(), "the oldest": ids[0].hex(),
            "one in the middle": ids[len(ids) // 2].hex(),
            "one by 12 digits": ids[len(ids) // 3].hex()[:12], "none": "00" * 32, "four digits": ids[5].hex()[:4],
        }  # fmt: skip
        for name, text in asked.items():
            _print(name, log, parse_prefix(text))
        sealer.close()


def _print(name: str, log: LogSnapshot, prefix: IdPrefix) -> None:
    answers: list[FoundEvents] = []
    times = [timed(lambda: answers.append(Search(log).find(prefix))) for _ in range(ROUNDS)]
    trace = answers[-1].trace
    lines = len(trace.accepted) + len(trace.outward) if trace else 0
    said = f"{lines} lines" if trace else f"{len(answers[-1].candidates)} candidates"
    print(f"{name:<20} {median(times) * 1e3:7.0f} ms, at most {max(times) * 1e3:.0f} ms: {said}")


if __name__ == "__main__":
    main()
