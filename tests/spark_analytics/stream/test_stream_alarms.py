"""What is new of a stream's findings and what is over: said once each, with the same key if a batch is repeated."""

from __future__ import annotations

import pytest

from spark_analytics.report.alarms import Key, Matter
from spark_analytics.stream.alarms import (
    MORE,
    STANDING_MAX,
    Alarm,
    Moment,
    Standing,
    after,
    from_text,
    looked,
    passed,
    to_text,
)

LOST: Key = ("unaccounted", "a1", "")
BROKEN: Key = ("broken", "a1", "b2")
HOLE: Key = ("incomplete", "b2", "")
MATTERS = {
    LOST: Matter("bad", "lost", "look", ({"router": "a1", "unaccounted": 2},)),
    BROKEN: Matter("bad", "broken", ""),
    HOLE: Matter("warning", "a hole", ""),
}


class Stream:
    """A stream's batches, each begun from what the one before noted down."""

    def __init__(self) -> None:
        self.standing, self.batch = Standing(), -1

    def take(self, *keys: Key, newest: int = 10, come: int = 10, mark: int = 0) -> list[tuple[str, Key]]:
        self.batch += 1
        at = Moment("s", self.batch, 0, 50 * 10**9, newest, come)
        before = from_text(to_text(self.standing))
        assert before == self.standing
        self.standing, new = after(before, {key: MATTERS[key]._replace(mark=mark) for key in keys}, at)
        assert len({one["key"] for one in new}) == len(new)
        return [(one["change"], (one["finding"], one["router"], one["peer"])) for one in new]


def test_each_finding_is_said_once_and_once_more_when_it_is_over() -> None:
    stream = Stream()
    assert stream.take(LOST) == [("raised", LOST)]
    assert stream.take(LOST, BROKEN) == [("raised", BROKEN)]
    assert stream.take(LOST, BROKEN) == []
    assert stream.take(BROKEN) == [("cleared", LOST)]
    assert stream.take() == [("cleared", BROKEN)]
    assert stream.take() == []
    assert stream.take(LOST) == [("raised", LOST)], "again, after it was over"


def test_what_a_late_file_may_undo_waits_until_the_watermark_has_passed_what_was_known() -> None:
    stream = Stream()
    assert stream.take(HOLE, newest=10, come=10) == []
    assert stream.take(HOLE, newest=20, come=10) == []
    assert stream.take(newest=20, come=15) == [], "the file came"
    assert stream.take(HOLE, newest=20, come=15) == []
    assert stream.take(HOLE, newest=30, come=20) == []
    assert stream.take(HOLE, newest=30, come=21) == [("raised", HOLE)]
    assert stream.take(newest=30, come=21) == [("cleared", HOLE)]


def test_the_end_of_a_log_that_is_always_a_little_late_is_never_said() -> None:
    """Each batch lacks the last segment of a log, of which a neighbour has heard, and brings the one before."""
    stream = Stream()
    for number in range(9):
        assert stream.take(HOLE, newest=10 * number, come=10 * number, mark=number) == []
    assert stream.take(HOLE, newest=90, come=90, mark=8) == [("raised", HOLE)], "this one did not come"
    assert stream.take(HOLE, newest=100, come=100, mark=9) == [("cleared", HOLE)], "it came, and another one is late"
    assert stream.take(HOLE, newest=110, come=110, mark=9) == [("raised", HOLE)]


def test_a_batch_that_is_repeated_gives_the_same_keys_and_another_one_others() -> None:
    before = Standing(3)

    def keys(batch: int, as_of_ns: int, step: int = 0) -> list[str]:
        _, new = after(before, MATTERS, Moment("s", batch, step, as_of_ns, 10, 11))
        return [one["key"] for one in new]

    assert keys(4, 10**9) == keys(4, 2 * 10**9) and len(set(keys(4, 10**9))) == 3
    assert not {*keys(4, 10**9)} & {*keys(5, 10**9)} and not {*keys(4, 10**9)} & {*keys(4, 10**9, step=1)}


def test_a_finding_that_has_become_bad_is_said_again() -> None:
    at = Moment("s", 1, 0, 1, 10, 11)
    mild = {LOST: MATTERS[LOST]._replace(level="warning")}
    standing, _ = after(Standing(), mild, at)
    standing, new = after(standing, {LOST: MATTERS[LOST]}, at)
    assert [(one["change"], one["level"]) for one in new] == [("raised", "bad")]
    standing, new = after(standing, mild, at)
    assert new == []


def test_of_very_many_findings_the_worst_are_said_and_the_rest_counted() -> None:
    found = {("x", f"{n:04}", ""): Matter("bad" if n % 2 else "warning", "t", "") for n in range(STANDING_MAX + 5)}
    standing, new = after(Standing(), found, Moment("s", 0, 0, 1, 10, 11))
    assert len(new) == STANDING_MAX + 1 and new[-1]["text"] == "There are 5 further findings."
    assert sum(one["level"] == "bad" for one in new) == sum(one.level == "bad" for one in found.values())
    again, new = after(standing, found, Moment("s", 1, 0, 1, 10, 11))
    assert new == [] and MORE in again.raised


def test_a_look_between_batches_adds_logs_that_went_silent_and_ends_nothing() -> None:
    late: Key = ("head-late", "a1", "")
    standing = Standing(7, 0, {LOST: ("bad", "lost", 0)}, {HOLE: (10, 1)}, heads={"a1": (5, 10)})
    found, new = looked(standing, {late: Matter("warning", "silent", "")}, Moment("s", 7, 1, 1))
    assert [(one["change"], one["finding"]) for one in new] == [("raised", "head-late")]
    assert (found.step, found.waiting, set(found.raised)) == (1, {HOLE: (10, 1)}, {LOST, late})
    assert looked(found, {late: Matter("warning", "silent", "")}, Moment("s", 7, 2, 1))[1] == []


def test_a_note_of_another_version_is_none() -> None:
    told: Alarm = {"key": "k", "text": "t"}
    standing = Standing(3, 1, {LOST: ("bad", "lost", 0)}, {HOLE: (7, 2)}, (told,), {"a1": (9, 11)})
    assert from_text(to_text(standing)) == standing
    assert from_text(to_text(standing).replace('"version": 1', '"version": 2')) is None


@pytest.mark.parametrize(
    ("heads", "holed", "expected"),
    [
        ({}, (), (0, 0)),
        ({"a": (1, 50), "b": (1, 70)}, (), (70, 50)),
        ({"a": (1, 50), "b": (1, 70)}, ("a",), (70, 70)),
        ({"a": (1, 50), "b": (1, 70)}, ("a", "b"), (70, 50)),
        ({"a": (1, 3), "b": (1, 70)}, (), (70, 70)),  # a is late
        ({"a": (1, 3), "b": (1, 4)}, (), (4, 3)),
    ],
)
def test_the_watermark_is_that_of_logs_that_are_whole_and_not_late(
    heads: dict[str, tuple[int, int]], holed: tuple[str, ...], expected: tuple[int, int]
) -> None:
    assert passed(heads, frozenset(holed), as_of_ns=100, oldest_ns=60) == expected
