"""The process that `solve` starts: `python -m services.capd.solver_process` tries nonces until standard input ends."""

from __future__ import annotations

import os
import signal
import sys
from struct import Struct

from services.capd.core.solving import tried

ORDER = Struct(">32sIQI")
"""The layout of an order: stage 1, the bits, and the first place and the number of the nonces to try."""
ANSWER_BYTES = 9
"""Bytes of an answer: the length of the nonce that was found, 0 if there is none, and the nonce."""


def serve() -> None:
    """Answer each order in turn."""
    while len(order := sys.stdin.buffer.read(ORDER.size)) == ORDER.size:
        nonce = tried(*ORDER.unpack(order)) or b""
        os.write(1, (bytes((len(nonce),)) + nonce).ljust(ANSWER_BYTES, b"\0"))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the command, and so closes this pipe
    serve()
