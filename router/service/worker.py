"""The process started by `Jobs`: `python -m router.service.worker` calls functions until its standard input ends."""

from __future__ import annotations

import signal

from router.actors.process import stop_signals

if __name__ == "__main__":  # before the imports below: what stops the node reaches us, too, but it ends us when drained
    for number in stop_signals():  # a handler, since a stake command would inherit that it is ignored
        signal.signal(number, lambda *_: None)

import os
import sys
from pkgutil import resolve_name
from typing import BinaryIO

import cbor2

from router.core.wire.errors import cause_of
from router.service.jobs import LENGTH
from router.shared_packages import complete

NICE = 10
"""Jobs give way to the router, and to the apps that wait for it."""


def compute(function: str, argument: bytes) -> tuple[bytes, str]:
    """Return the function's result, or the error with which it failed."""
    try:
        if function.startswith("services."):
            complete("services")
        result = resolve_name(function)(argument)
    except Exception as error:  # it is the service's own; whatever goes wrong is told to it
        return b"", _said(error)
    if not isinstance(result, bytes):
        return b"", f"{function} returned {type(result).__name__}, and a job returns bytes"
    return result, ""


def _said(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its text cannot be made
        return cause_of(error)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request in turn, until the requests end, also in the middle of one."""
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        [size] = LENGTH.unpack(head)
        if len(request := requests.read(size)) < size:
            return
        function, argument = cbor2.loads(request)
        answer = cbor2.dumps(compute(function, argument))
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    os.nice(NICE)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints goes to standard error
    try:
        serve(sys.stdin.buffer, out)
    except BrokenPipeError:  # the node was killed, and nobody waits for the answer
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # so is what it still holds of it
