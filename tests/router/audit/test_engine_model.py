"""The bit arithmetic of the engine against sets: random logs, counted by the engine and by plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples.audit_logs import APP, LATE, MINUTE, OTHER_APP, START, A, Log, audited, name

from router.core.log.line import Line
from spark_analytics.judgement.schema import ENDS, STATES

THIRD = "cd" * 32
RECIPIENTS = (APP, OTHER_APP, THIRD)
EVENTS = (*ENDS, "forwarded", "deferred")
Unit = tuple[int, int, str]
"""A unit: parcel, arrival number, recipient."""

parcels = st.lists(
    st.tuples(st.integers(1, 100), st.sets(st.sampled_from(RECIPIENTS), max_size=3).map(sorted)), min_size=1, max_size=4
)
ranges = st.lists(st.tuples(st.integers(-5, 105), st.integers(0, 110)), min_size=0, max_size=3)
outward = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 4), st.sampled_from(RECIPIENTS), ranges), max_size=12
)


def written(sizes: list[tuple[int, list[str]]], events: list[tuple[str, int, str, list[tuple[int, int]]]]) -> Log:
    """Write each parcel in a minute of its own; events name the parcel by its place, and ranges count from its first
    message."""
    log, firsts, first = Log(), [], 1000
    for place, (size, recipients) in enumerate(sizes):
        log.accepted(first, range(first, first + size), recipients, at=60 * place)
        firsts.append(first)
        first += size + 7
    for event, place, recipient, offsets in events:
        parcel = firsts[place] if place < len(firsts) else 10**6
        found = [(parcel + start, count) for start, count in offsets]
        log.outward(event, found, at=400, recipient=recipient, parcel=parcel)
    log.state("stop", LATE)
    return log


class Model:
    """The content of the lines, message by message."""

    def __init__(self, lines: list[Line]) -> None:
        self.events: defaultdict[Unit, Counter[str]] = defaultdict(Counter)
        self.minutes: dict[Unit, int] = {}
        self.strays = 0
        for line in lines:
            if line.event == "accepted":
                for arrival in range(line.first or 0, (line.first or 0) + line.n):
                    for recipient in line.recipients or ():
                        self.minutes[line.first or 0, arrival, recipient] = line.t // MINUTE
        for line in lines:
            for start, count in line.ranges or ():
                for arrival in range(start, start + count):
                    unit = (line.parcel or 0, arrival, line.recipient or "")
                    if unit in self.minutes:
                        self.events[unit][line.event] += 1
                    elif line.event in ENDS:
                        self.strays += 1

    def state(self, unit: Unit) -> str:
        return next((end for end in ENDS if self.events[unit][end]), "unaccounted")

    def total(self, event: str) -> int:
        return sum(found[event] for found in self.events.values())

    def beyond_the_first(self, event: str) -> int:
        return sum(max(0, found[event] - 1) for found in self.events.values())


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.long)])
def test_bits_count_as_sets_do(examples: int) -> None:
    limited = settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    limited(given(parcels, outward)(judge))()


def judge(sizes: list[tuple[int, list[str]]], events: list[tuple[str, int, str, list[tuple[int, int]]]]) -> None:
    log = written(sizes, events)
    with TemporaryDirectory() as directory:
        found = audited(log.write(Path(directory)))
    model = Model(log.lines)
    windows: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for unit, minute in model.minutes.items():
        windows[minute].update(("owed", model.state(unit)))
    expected = [
        {"router": name(A), "window": minute} | {state: counts[state] for state in ("owed", *STATES)}
        for minute, counts in sorted(windows.items())
    ]
    assert found["step_minutes"] == 1 and START % MINUTE == 0
    assert found["windows"] == expected
    assert found["strays"] == model.strays
    assert found["duplicates"] == model.beyond_the_first("delivered")
    assert found["redelivered"] == model.beyond_the_first("forwarded")
    assert found["deferred"] == model.total("deferred")
    ends = [sum(counts[end] > 0 for end in ENDS) for counts in model.events.values()]
    assert found["contradictions"] == sum(count > 1 for count in ends)
