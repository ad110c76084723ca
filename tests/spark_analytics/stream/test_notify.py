"""The command of --notify is told of each alarm in order; one that hangs or fails is tried again, and all goes on."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.patience import HANG_S

from spark_analytics.stream import notify
from spark_analytics.stream.notify import WAITING_MAX, Notifier, NotifyError

WRITE = "import sys; print(sys.stdin.read(), end='', file=open(sys.argv[1], 'a'))"
ONCE = "import os, sys; tried = os.path.exists(sys.argv[1] + '.tried'); open(sys.argv[1] + '.tried', 'w').close();"


class Reports(list[str]):
    """What is reported, and an event for each report."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)

    def __call__(self, what: str) -> None:
        self.append(what)
        self.came.release()

    def wait(self) -> None:
        assert self.came.acquire(timeout=HANG_S)


def alarm(n: int) -> dict[str, Any]:
    return {"key": f"k{n}", "text": "text\nwith lines"}


def command(program: str, path: Path) -> str:
    return shlex.join([sys.executable, "-c", program, str(path)])


def told(path: Path) -> list[str]:
    return [json.loads(line)["key"] for line in path.read_text().splitlines()]


def test_each_alarm_is_an_object_on_a_line_of_its_own_in_order(tmp_path: Path) -> None:
    reports = Reports()
    found = Notifier(command(WRITE, tmp_path / "told"), reports)
    found.put([alarm(n) for n in range(3)])
    found.put([alarm(2), alarm(3)])
    assert found.close(HANG_S) == () and not reports
    assert told(tmp_path / "told") == ["k0", "k1", "k2", "k3"], "one that waits is not told twice"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("print('no such pager', file=sys.stderr); sys.exit(7)", "it ended with code 7: no such pager"),
        ("sys.stdin.close(); os.kill(os.getpid(), 9)", "it ended with code -9"),
        ("import time; os.fork() or time.sleep(99); time.sleep(99)", "it took more than 1 s and was killed"),
    ],
)
def test_a_command_that_fails_or_hangs_is_said_and_tried_again(
    program: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_S_MIN", 0.01)
    reports, lines = Reports(), f"{ONCE}\nif not tried:\n    {program}\n{WRITE}"
    found = Notifier(command(lines, tmp_path / "told"), reports, limit_s=1)
    found.put([alarm(1), alarm(2)])
    assert found.close(HANG_S) == ()
    assert told(tmp_path / "told") == ["k1", "k2"]
    [said] = reports
    assert f"was not told of the alarm k1 ({why})" in said


def test_what_is_not_told_is_given_back_at_the_end(tmp_path: Path) -> None:
    reports = Reports()
    found = Notifier(str(tmp_path / "missing"), reports)
    found.put([alarm(1), alarm(2)])
    reports.wait()
    assert found.close(0) == (alarm(1), alarm(2))
    assert "it cannot be started: No such file or directory" in reports[0]


def test_a_command_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    found = Notifier(
        command(f"open({str(tmp_path / 'begun')!r}, 'w'); import time; time.sleep(99)", tmp_path), Reports()
    )
    found.put([alarm(1)])
    assert found.close(0.2) == (alarm(1),)
    assert not found._thread.is_alive()


def test_a_command_that_is_started_as_the_stream_ends_is_killed(tmp_path: Path) -> None:
    begun, why = threading.Event(), list[str]()

    class Slow(Notifier):
        def _told(self, alarm: dict[str, Any]) -> str:
            why.append(super()._told(alarm))
            return why[-1]

        def _started(self, alarm: dict[str, Any]) -> subprocess.Popen[bytes]:
            begun.set()
            with self._changed:
                assert self._changed.wait_for(lambda: self._is_over, HANG_S)
            return super()._started(alarm)

    found = Slow(command("import time; time.sleep(9999)", tmp_path), Reports(), limit_s=HANG_S)
    found.put([alarm(1)])
    assert begun.wait(HANG_S)
    assert found.close(0) == (alarm(1),)
    assert why == ["it ended with code -9"]


def test_of_too_many_alarms_the_oldest_are_given_up_and_it_is_said(tmp_path: Path) -> None:
    reports, may_go = Reports(), threading.Event()
    started = threading.Event()

    class Held(Notifier):
        def _told(self, alarm: dict[str, Any]) -> str:
            started.set()
            assert may_go.wait(HANG_S)
            return ""

    found = Held("true", reports)
    found.put([alarm(0)])
    assert started.wait(HANG_S)
    found.put([alarm(n) for n in range(1, WAITING_MAX + 2)])
    assert [one["key"] for one in found.untold()][:1] == ["k2"]
    assert "2 alarms wait for the command of --notify no longer" in reports[0]
    may_go.set()
    assert found.close(HANG_S) == ()


@pytest.mark.parametrize(("given", "said"), [("", "needs a command"), ("sh -c 'x", "cannot be read as a command")])
def test_what_is_no_command_is_refused_with_a_sentence(given: str, said: str) -> None:
    refuse: Callable[[], Notifier] = lambda: Notifier(given, Reports())  # noqa: E731
    with pytest.raises(NotifyError, match=said):
        refuse()


def test_a_notifier_without_room_for_its_file_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_S_MIN", 0.01)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "later"))
    reports = Reports()
    found = Notifier(command(WRITE, tmp_path / "told"), reports)
    found.put([alarm(1)])
    reports.wait()
    (tmp_path / "later").mkdir()
    assert found.close(HANG_S) == () and told(tmp_path / "told") == ["k1"]
    assert "cannot be started: No such file or directory" in reports[0]


def test_what_a_command_prints_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints more than a pipe holds, closes its output, and says how large the file behind it was."""
    monkeypatch.setattr(notify, "PAUSE_S_MIN", 0.01)
    flood = "os.write(1, bytes(1 << 18)); size = os.fstat(1).st_size; print('last words', flush=True)"
    lines = f"{ONCE}\nif not tried:\n    {flood}; os.close(1); os.close(2); os._exit(9 if size else 7)\n{WRITE}"
    reports = Reports()
    found = Notifier(command(lines, tmp_path / "told"), reports)
    found.put([alarm(1)])
    assert found.close(HANG_S) == () and told(tmp_path / "told") == ["k1"]
    assert "it ended with code 7: " in reports[0] and "last words" in reports[0]
