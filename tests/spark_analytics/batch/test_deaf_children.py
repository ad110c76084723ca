"""Java hears no SIGTERM that is sent to all processes of a group; the process that started it does, at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from spark_analytics.batch.session import deaf_children
from spark_analytics.stream.stopped import signals

SAYS = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_IGN)"
SECONDS_MAX = 60.0


def is_deaf() -> bool:
    """Say whether a child that is started as PySpark starts Java ignores SIGTERM."""
    child = subprocess.run(
        [sys.executable, "-c", SAYS],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    return child.stdout == "True\n"


def test_only_children_that_start_meanwhile_are_deaf() -> None:
    assert not is_deaf()
    with deaf_children():
        assert is_deaf()
    assert not is_deaf()


def test_a_signal_that_comes_meanwhile_is_heard_whichever_thread_takes_it() -> None:
    with signals() as over, deaf_children():
        os.kill(os.getpid(), signal.SIGTERM)
        assert over.wait(SECONDS_MAX)


def test_children_of_another_thread_are_not_deaf() -> None:
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(is_deaf()))
    with deaf_children():
        thread.start()
        thread.join()
    assert said == [False]


def test_children_that_another_thread_starts_deaf_are() -> None:
    said: list[bool] = []

    def start() -> None:
        with deaf_children():
            said.append(is_deaf())

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert said == [True]
