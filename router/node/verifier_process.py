"""A verifier process: signatures in, verdicts out, over the socket that is its standard input.

A request is three numbers (bytes of the frames, messages, base), then three numbers per message (start and end of the
message and the position of its signer's key, all counted from the same zero as `base`, where the frames begin), and the
frames; numbers are 32-bit words of this machine. The answer is one byte per message: 1 if the signature is good.
"""

from __future__ import annotations

import signal
import socket
from array import array
from contextlib import suppress

from nacl import bindings
from nacl.exceptions import BadSignatureError

from router.actors.process import STOP_SIGNALS

WORD = "I"
HEAD_WORDS = 3
ROW_WORDS = 3


def request(frames: memoryview, positions: array[int], base: int) -> list[bytes | memoryview]:
    """Return the parts of one request, to be written together."""
    head = array(WORD, (len(frames), len(positions) // ROW_WORDS, base))
    return [head.tobytes() + positions.tobytes(), frames]


def verdicts(frames: bytes, positions: array[int], base: int) -> bytes:
    """Return one byte per message: 1 if its signature is good. The signed bytes begin after the array head and end
    before the signature's (R-A6)."""
    check = bindings.crypto_sign_open
    found = bytearray(len(positions) // ROW_WORDS)
    numbers = iter(positions)
    for at, (start, end, signer_at) in enumerate(zip(numbers, numbers, numbers, strict=True)):
        start, end, signer_at = start - base, end - base, signer_at - base
        try:
            check(frames[end - 64 : end] + frames[start + 1 : end - 66], frames[signer_at : signer_at + 32])
        except (BadSignatureError, ValueError):
            continue
        found[at] = 1
    return bytes(found)


def serve(sock: socket.socket) -> None:
    """Answer requests until the other end closes."""
    stream = sock.makefile("rb", buffering=1 << 18)
    head_bytes = 4 * HEAD_WORDS
    while len(raw := stream.read(head_bytes)) == head_bytes:
        size, count, base = array(WORD, raw)
        positions = stream.read(4 * ROW_WORDS * count)
        frames = stream.read(size)
        if len(frames) < size:
            return
        sock.sendall(verdicts(frames, array(WORD, positions), base))


def main() -> None:
    for number in STOP_SIGNALS:  # the node handles them, and then closes the socket
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=0) as sock, suppress(ConnectionError):  # a killed node resets instead of closing
        serve(sock)


if __name__ == "__main__":
    main()
