"""Tell a command of each alarm: one JSON object on its standard input, in order, until it ends with code 0.

A command that hangs is killed after `LIMIT_S` with all that it started, and tried again, as one that fails: after a
second, then ever more rarely, once a minute at least. The stream goes on meanwhile.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from .taken import Taken

LIMIT_S = 10.0
"""Seconds that the command may take for one alarm."""
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 60.0
WAITING_MAX = 5_000
"""Most alarms that wait for the command; the oldest beyond them are in the table only."""
END_S = 15.0
"""Seconds for which the end of a stream waits until the command has been told of all alarms."""
ERROR_BYTES_MAX = 300
PIPE_BYTES = 1 << 16
"""Bytes of its output that are read at a time: as many as a pipe holds."""
LOOK_S = 0.05
"""Seconds between two looks whether a command has ended whose output another process holds open."""

Alarm = dict[str, Any]
Report = Callable[[str], None]


class NotifyError(Exception):
    """The command cannot be used at all; the text says why."""


class Notifier:
    """Runs the command in a thread of its own. `report` is called for each attempt that fails; `taken` holds the alarms
    that the command has taken, also of earlier runs, and is told of none of them again."""

    def __init__(self, command: str, report: Report, limit_s: float = LIMIT_S, taken: Taken | None = None) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise NotifyError(f"--notify {command!r} cannot be read as a command: {error}") from None
        if not self._arguments:
            raise NotifyError("--notify needs a command, such as --notify '/usr/local/bin/page-me --now'")
        self._report = report
        self._limit_s = limit_s
        self._taken = Taken() if taken is None else taken
        self._waiting: deque[Alarm] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<notifier: {shlex.join(self._arguments)}, {len(self._waiting)} alarms wait>"

    def put(self, alarms: Iterable[Alarm]) -> None:
        """Tell the command of these as well, but for those that it has taken, after all that wait; of the oldest no
        more if there are too many."""
        with self._changed:
            known = {one["key"] for one in self._waiting}
            self._waiting.extend(one for one in alarms if one["key"] not in known and one["key"] not in self._taken)
            given_up = max(0, len(self._waiting) - WAITING_MAX)
            for _ in range(given_up):
                self._waiting.popleft()
            self._changed.notify_all()
        if given_up:
            self._report(f"{given_up} alarms wait for the command of --notify no longer; the table `alarm` has them")

    def untold(self) -> tuple[Alarm, ...]:
        """Return the alarms that the command has not taken yet, in order."""
        with self._changed:
            return tuple(self._waiting)

    def close(self, within_s: float = END_S) -> tuple[Alarm, ...]:
        """Wait until all are told, for a bounded time; then end. Return those that are not told."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, within_s)
            self._is_over = True
            self._changed.notify_all()
            if self._process is not None:
                _kill(self._process)
        self._thread.join(self._limit_s)
        return self.untold()

    def _run(self) -> None:
        pause_s, failures = PAUSE_S_MIN, 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._waiting)
                if self._is_over:
                    return
                alarm = self._waiting[0]
            why = self._told(alarm)
            if not why:
                self._note_taken(alarm["key"])
            with self._changed:
                if self._is_over and why:
                    return
                if not why:
                    if self._waiting and self._waiting[0] is alarm:
                        self._waiting.popleft()
                    self._changed.notify_all()
                    pause_s, failures = PAUSE_S_MIN, 0
                    continue
                failures += 1
                text = f"the command of --notify was not told of the alarm {alarm['key']} ({why}); attempt {failures}"
                self._report(f"{text}, it is tried again in {pause_s:.0f} s")
                self._changed.wait_for(lambda: self._is_over, pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _note_taken(self, key: str) -> None:
        try:
            self._taken.add(key)
        except OSError as error:
            text = f"that the command of --notify has taken the alarm {key} cannot be noted ({error.strerror or error})"
            self._report(f"{text}; after a crash it is told of it again: make room on the disk of --out")

    def _told(self, alarm: Alarm) -> str:
        """Run the command for one alarm; return why it failed, "" if it did not."""
        try:
            process = self._started(alarm)
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        assert process.stdout is not None
        with process.stdout:
            with self._changed:
                self._process = process
                if self._is_over:  # It was started while the stream ended.
                    _kill(process)
            try:
                said = _printed(process, process.stdout.fileno(), self._limit_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                process.wait()
                return f"it took more than {self._limit_s:.0f} s and was killed"
            finally:
                with self._changed:
                    self._process = None
        last, code = said.decode("utf-8", "replace").strip().rpartition("\n")[2], process.returncode
        return f"it ended with code {code}" + (f": {last}" if last else "") if code else ""

    def _started(self, alarm: Alarm) -> subprocess.Popen[bytes]:
        """Start the command, with the alarm in a file on its standard input; raise `OSError`, also if the disk has no
        room for that."""
        with tempfile.TemporaryFile() as given:
            given.write(json.dumps(alarm).encode() + b"\n")
            given.seek(0)
            return subprocess.Popen(
                self._arguments, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )


def _printed(process: subprocess.Popen[bytes], output: int, within_s: float) -> bytes:
    """Return the last bytes that a command printed, once it has ended; raise `subprocess.TimeoutExpired`.

    What it prints is read and forgotten, so it takes no room, however much it is. A process that it leaves behind is
    not waited for, and cannot print any more.
    """
    poller, last, until_s = select.poll(), b"", time.monotonic() + within_s
    poller.register(output, select.POLLIN)
    while process.poll() is None:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise subprocess.TimeoutExpired(process.args, within_s)
        if not poller.poll(1000 * min(left_s, LOOK_S)):
            continue
        if data := os.read(output, PIPE_BYTES):
            last = (last + data)[-ERROR_BYTES_MAX:]
        else:
            process.wait(left_s)  # it has closed its output
    return (last + os.read(output, PIPE_BYTES))[-ERROR_BYTES_MAX:] if poller.poll(0) else last


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with all that it has started in its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
