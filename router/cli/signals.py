"""Signals that end a command which has something to do first: SIGTERM and SIGHUP end it like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import FrameType
from typing import Any

from router.actors.process import stop_signals
from router.cli.output import note

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 10
"""Signals sooner than this after the first are ignored, so that they do not interrupt the removal."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> Iterator[None]:
    """Handle the signals that stop a command while the block runs; not SIGHUP where it is ignored, as under nohup.

    Unlike trio's own receiver, deliver nothing again at the end, which would end this process."""
    before = {one: signal.signal(one, handler) for one in stop_signals()}
    try:
        yield
    finally:
        for one, was in before.items():
            signal.signal(one, was)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does while nothing else handles them: raise `KeyboardInterrupt`, in trio's
    main task where trio runs. A command that asks at a terminal ends with a sentence, and the terminal shows again what
    is typed. Where Ctrl-C is ignored it stays so. Do nothing in another thread than the main one."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as behind a shell's `&`
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    is_main = threading.current_thread() is threading.main_thread()
    taken = [one for one in SIGNALS[1:] if is_main and signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


@contextmanager
def as_trio_interrupts() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what trio, which runs, does at Ctrl-C; ignore Ctrl-C itself."""
    interrupt = signal.getsignal(signal.SIGINT)
    assert callable(interrupt), "trio handles Ctrl-C where it was not ignored as trio began"

    def end(number: int, frame: FrameType | None) -> None:
        interrupt(signal.SIGINT, frame)

    with handling(end):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield


@contextmanager
def removing() -> Iterator[None]:
    """Raise `KeyboardInterrupt` inside on SIGINT, SIGTERM or SIGHUP, so that it removes its files; exit with 128 +
    signal.

    A signal that is ignored already, as under nohup, stays ignored.
    """
    received: list[int] = []
    since = 0.0

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal since
        if not received or monotonic() - since > AGAIN_S:
            received.append(number)
            since = monotonic()
            raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in SIGNALS}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, receive)
    try:
        yield
    except BaseException:  # DuckDB and Spark turn an interrupt into their own errors.
        if not received:
            raise
        with suppress(OSError):  # The terminal may be gone.
            note(f"ended by {signal.Signals(received[0]).name} before it was done: what it had begun is removed")
        raise SystemExit(128 + received[0]) from None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
