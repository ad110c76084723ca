"""External causes that stop a stream, each as a sentence: another run in its place, a full disk, a broken state."""

from __future__ import annotations

import fcntl
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException

from spark_analytics.batch.session import from_java
from spark_analytics.batch.short_memory import SIGNS

CAUSE_CHARACTERS_MAX = 300
_AGAIN = "run it again, and it goes on where it was"
_CAUSES = (
    ("No space left on device|Disk quota exceeded", f"the disk is full: make room and {_AGAIN}"),
    (
        "concurrently using|CONCURRENT|ConcurrentModification",
        "another audit writes there at the same time: stop one of them, or give each an --out of its own",
    ),
    ("Permission denied|Read-only file system|Not a directory|not a directory", "it cannot write there: give it the"
     f" right to, or another --out; then {_AGAIN}"),
    (SIGNS.pattern, f"Java has too little memory: give it more, or fewer --files-max; {_AGAIN}"),
    (
        "not a Parquet file|CANNOT_READ|FAILED_READ_FILE|FILE_NOT_EXIST|PATH_NOT_FOUND|malformed|corrupt|JSON"
        "|checkpoint|Incomplete log file",
        "what an earlier run wrote there cannot be read: take the whole directory away, and everything is read again",
    ),
)  # fmt: skip
_OTHERWISE = f"{_AGAIN}; where it stops there again, take the whole directory away, and everything is read again"


class Stopped(Exception):
    """A stream could not go on; the text says why, and what to do."""


@contextmanager
def signals(over: threading.Event | None = None) -> Iterator[threading.Event]:
    """Yield the event `over`, by default a new one, that is set as soon as Ctrl-C is pressed or the process is asked to
    end."""
    over = over or threading.Event()
    asked = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, lambda *_: over.set()) for number in asked]
    try:
        yield over
    finally:
        for number, handler in zip(asked, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def ending(is_over: Callable[[], bool]) -> Iterator[None]:
    """Let errors of the bridge to Java pass once the stream is to end: a signal to all processes of a group ends Java
    too, where that is not the child of this one. An error of a batch does not pass."""
    try:
        yield
    except Exception as error:
        if not is_over() or not (isinstance(error, ConnectionError) or from_java(error)):
            raise


@contextmanager
def alone(out: str) -> Iterator[None]:
    """Make sure that no other run writes below a local directory. In other file systems nothing prevents a second
    run."""
    if "://" in out:
        yield
        return
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as error:
        raise Stopped(f"nothing can be written to {out} ({error.strerror}): give another --out") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stopped(f"another audit is writing to {out}: wait for its end, or give another --out") from None
        yield


@contextmanager
def stopped_by(out: str, failure: Callable[[], Exception | None]) -> Iterator[None]:
    """Turn Spark's errors into `Stopped`. `failure` returns the error of a batch; an error of ours is raised
    unchanged."""
    try:
        yield
    except PySparkException as error:
        found = failure()
        if found is None or isinstance(found, PySparkException | OSError) or from_java(found):
            raise Stopped(sentence(out, str(found or error))) from error
        raise found from error


def sentence(out: str, error: str) -> str:
    """Return a sentence with the cause and the remedy, from the text of an error."""
    remedy = next((text for pattern, text in _CAUSES if re.search(pattern, error)), _OTHERWISE)
    return f"the audit in {out} stopped: {remedy} ({_cause(error)})"


def _cause(error: str) -> str:
    """Return the last line of an error's text that names a cause, without stack frames."""
    lines = [
        line.strip() for line in error.splitlines() if line.strip() and not re.match(r"\s+(at|File) |\s*\.\.\.", line)
    ]
    told = [line for line in lines if re.search(r"Caused by|Exception|Error|\[[A-Z_.]+\]", line)]
    return (told or lines or ["it does not say why"])[-1][:CAUSE_CHARACTERS_MAX]
