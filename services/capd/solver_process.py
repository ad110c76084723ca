"""The process that `Solver` starts: `python -m services.capd.solver_process` tries nonces until standard input ends."""

from __future__ import annotations

import os
import signal
import sys
from struct import Struct

from services.capd.core.solving import tried

ORDER = Struct(">32sIQI")
"""What is to be tried: stage 1, the bits, and the nonces by their place and number."""
ANSWER_BYTES = 9
"""How many bytes the nonce that was found has, 0 without one, and the nonce."""


def serve() -> None:
    """Answer each order in turn."""
    while len(order := sys.stdin.buffer.read(ORDER.size)) == ORDER.size:
        nonce = tried(*ORDER.unpack(order)) or b""
        os.write(1, (bytes((len(nonce),)) + nonce).ljust(ANSWER_BYTES, b"\0"))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the command, and with it this pipe.
    serve()
