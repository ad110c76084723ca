"""Kill a process that writes an app's state, at each step of what it does, or at random moments.

`python -m rigs.killed_state DIRECTORY ROUNDS SEED` does the latter ROUNDS times. A forked process writes numbered
decisions, each of which changes a row of every kind, and says which are on disk. Then the state is checked: all rows
are of one moment, no decision is lost, and all secrets can be opened, by a key that is the only one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.app_state import AppState
from router.disk.state.environment import Environment
from router.disk.state.secrets import KEY_FILE, NEXT_FILE

GROUP, JOURNAL, KEPT, FORGETS_EACH = b"g" * 32, b"journal1", 4, 3
UNTIL_MIN = 4_000_000_000
STEPS = ("fsync", "fdatasync", "open", "write", "pwrite", "rename", "unlink", "link")
"""Calls of the system that are steps: a kill comes before any of them, and so after the one before."""
MOMENT_S = 0.1


def id_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def secret_of(number: int) -> bytes:
    return b"the secret %d " % number * 4


def decision(number: int) -> AppBatch:
    """Return what the decision with that number writes."""
    batch = AppBatch([(JOURNAL + id_of(number), UNTIL_MIN)], numbers={GROUP: number})
    batch.heads = {JOURNAL + GROUP: [(id_of(number), UNTIL_MIN)]}
    batch.put("prekeys", number.to_bytes(8, "big"), secret_of(number), secret=True)
    batch.put("correspondents", b"one", b"%d" % number)
    batch.remove("prekeys", max(0, number - KEPT).to_bytes(8, "big"))
    batch.forgets = number % FORGETS_EACH == 0
    return batch


def decide_next(rows: AppRows) -> AppBatch:
    return decision(rows.number(GROUP) + 1)


def decide(path: Path, decisions: int, out: int) -> None:
    """Write so many decisions, each second one of what was read before, and the number of each one that is on disk."""
    state = AppState(path)
    for at in range(decisions):
        batch = state.change(decide_next) if at % 2 else decision(state.number(GROUP) + 1)
        if not at % 2:
            state.commit(batch)
        os.write(out, batch.numbers[GROUP].to_bytes(4, "big"))
    state.close()


def decide_with_log(path: Path, decisions: int, out: int) -> None:
    """Write so many messages as handled, most of them to a journal's log, and the number of each that is on disk."""
    state = AppState(path)
    descriptor = os.open(path.with_name("journal"), os.O_RDWR | os.O_CREAT, 0o600)
    state.begin_log(descriptor, JOURNAL)
    [(newest, _)] = state.heads(JOURNAL + GROUP) or [(bytes(32), 0)]
    first = int.from_bytes(newest, "big") + 1
    for number in range(first, first + decisions):
        batch = decision(number)
        if number % FORGETS_EACH:
            batch = AppBatch(batch.handled, heads=batch.heads)
        state.commit(batch)
        os.write(out, number.to_bytes(4, "big"))
    state.end_log()
    os.close(descriptor)
    state.close()


def check_with_log(path: Path, said: int) -> int:
    """Compare what is known as handled with the last message that is said to be on disk, or the one behind."""
    state = AppState(path)
    descriptor = os.open(path.with_name("journal"), os.O_RDWR | os.O_CREAT, 0o600)
    state.begin_log(descriptor, JOURNAL)
    [(newest, _)] = state.heads(JOURNAL + GROUP) or [(bytes(32), 0)]
    number = int.from_bytes(newest, "big")
    assert number in (said, said + 1), f"message {said} was on disk, and {number} is the last one now"
    keys = [JOURNAL + id_of(one) for one in range(number + 2)]
    assert state.known(keys) == {*keys[1:-1]}
    assert state.number(GROUP) == number - number % FORGETS_EACH, "what was written with others is of the same moment"
    state.close()
    os.close(descriptor)
    return number


def check(path: Path, said: int) -> int:
    """Compare the rows with the last decision that is said to be on disk, or the one behind; return its number."""
    state = AppState(path)
    with state.reading() as rows:
        number = rows.number(GROUP)
        assert number in (said, said + 1), f"decision {said} was on disk, and {number} is the last one now"
        of_secrets = range(max(1, number - KEPT + 1), number + 1)
        assert rows.rows("prekeys") == [(one.to_bytes(8, "big"), secret_of(one)) for one in of_secrets]
        keys = [JOURNAL + id_of(one) for one in range(number + 2)]
        assert rows.known(keys) == {*keys[1:-1]} and rows.handled() == number
        if number:
            assert rows.heads(JOURNAL + GROUP) == [(id_of(number), UNTIL_MIN)]
            assert rows.get("correspondents", b"one") == b"%d" % number
    assert not (path / NEXT_FILE).exists() and ((path / KEY_FILE).exists() or not number)
    state.close()
    return number


def forked(work: Callable[[int], None], moment: Callable[[], None]) -> tuple[bool, bytes]:
    """Let a process do that work with a pipe, and kill it when `moment` returns, unless it is `None`'s. Return whether
    it was killed, and what it wrote."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        try:
            work(writing)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    moment()
    if moment is not nothing:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the process has ended with {status}"
    return os.WIFSIGNALED(status), said


def nothing() -> None:
    """Let the process come to its end."""


def kill_at(step: int) -> None:
    """Let this process be killed before its call of the system, or its commit, of that number."""
    left = [step]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            count()
            return call(*args, **more)

        return called

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    Environment.write = counted(Environment.write)  # type: ignore[method-assign]


def main(path: Path, rounds: int, seed: int) -> None:
    chance, last, killed = Random(seed), 0, 0
    for _ in range(rounds):
        was_killed, said = forked(lambda out: decide(path, 1000, out), lambda: time.sleep(chance.random() * MOMENT_S))
        killed += was_killed
        last = check(path, int.from_bytes(said[-4:], "big") if said else last)
    print(f"{killed} kills, {last} decisions, each whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
