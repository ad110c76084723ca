"""An alarm that the command has taken is not told again after a crash; one of which that is not known is."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from rigs.patience import HANG_S
from samples.audit_logs import A

from spark_analytics.report.alarms import Key, Matter
from spark_analytics.stream import alarm_book, taken
from spark_analytics.stream.alarm_book import AlarmBook, taken_in
from spark_analytics.stream.alarms import Moment, Standing, after, to_text
from spark_analytics.stream.notify import Notifier
from spark_analytics.stream.taken import Taken

WRITE = "import sys; print(sys.stdin.read(), end='', file=open(sys.argv[1], 'a'))"
NO_SPARK = cast("SparkSession", None)
"""What stands is a file of this machine, for which a book needs no Spark."""
FOUND: dict[Key, Matter] = {(name, A.public.hex(), ""): Matter("bad", name, "") for name in ("one", "two", "three")}


class Runs:
    """Runs of a stream in one place that are killed, and what their command was told."""

    def __init__(self, root: Path) -> None:
        self.root, self.reports = root, list[str]()
        (root / "state").mkdir(parents=True)

    def note(self, standing: Standing) -> None:
        (self.root / "state/alarms-a").write_text(to_text(standing))

    def begin(self) -> tuple[AlarmBook, Notifier]:
        command = shlex.join([sys.executable, "-c", WRITE, str(self.root / "told")])
        notifier = Notifier(command, self.reports.append, taken=taken_in(str(self.root)))
        return AlarmBook(NO_SPARK, str(self.root), notifier, 10.0, self.reports.append), notifier

    def killed(self) -> None:
        """Begin a run, wait until its command is told, and leave it without a word."""
        _, notifier = self.begin()
        assert notifier.close(HANG_S) == ()

    def told(self) -> list[str]:
        path = self.root / "told"
        return [json.loads(line)["finding"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "out")


@pytest.fixture
def standing() -> Standing:
    """Return what stands after a first batch with three findings, of which the command has not been told."""
    found, new = after(Standing(), FOUND, Moment("the stream", 0, 0, 10**18))
    return Standing(found.batch, found.step, found.raised, untold=tuple(new))


def test_what_was_taken_before_a_crash_is_not_told_again(runs: Runs, standing: Standing) -> None:
    runs.note(standing)
    runs.killed()
    assert sorted(runs.told()) == ["one", "three", "two"]
    runs.killed()
    assert len(runs.told()) == 3 and not runs.reports


def test_what_is_not_known_to_be_taken_is_told_again(runs: Runs, standing: Standing) -> None:
    """The first key is there, the second was cut off."""
    first, second, _ = standing.untold
    (runs.root / "state/alarms-taken").write_text(f"{first['key']}\n{second['key'][:9]}")
    runs.note(standing)
    runs.killed()
    assert runs.told() == [one["finding"] for one in standing.untold[1:]]
    assert all(one["key"] in taken_in(str(runs.root)) for one in standing.untold)


def test_a_batch_that_is_repeated_tells_nothing_that_was_taken(
    runs: Runs, standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was killed after its alarms were told, before Spark had noted down its end."""

    class Rows:
        def coalesce(self, parts: int) -> Rows:
            return self

    monkeypatch.setattr(alarm_book, "table_of", lambda *_: Rows())
    monkeypatch.setattr(alarm_book, "write_checked", lambda *_: None)
    for _ in range(2):
        book, notifier = runs.begin()
        book._say(standing, list(standing.untold))
        assert notifier.close(HANG_S) == ()
    assert sorted(runs.told()) == ["one", "three", "two"]


def test_a_disk_that_takes_no_key_holds_nothing_up(runs: Runs, standing: Standing) -> None:
    (runs.root / "state/alarms-taken").symlink_to("missing/alarms-taken")
    runs.note(standing)
    runs.killed()
    assert len(runs.told()) == 3 == len(runs.reports)
    assert "cannot be noted (No such file or directory); after a crash it is told of it again" in runs.reports[0]


def test_only_the_newest_keys_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken, "KEYS_MAX", 3)
    file = tmp_path / "state/alarms-taken"
    known = Taken(file)
    for number in range(7):
        known.add(f"k{number}")
    assert file.read_text().split() == ["k4", "k5", "k6"]
    known.add("k7")
    again: Any = Taken(file)
    assert [f"k{number}" in again for number in range(3, 9)] == [False, True, True, True, True, False]


def test_of_another_file_system_only_this_process_knows() -> None:
    elsewhere = taken_in("s3a://audit/stream")
    elsewhere.add("k1")
    assert "k1" in elsewhere and "k1" not in taken_in("s3a://audit/stream")
