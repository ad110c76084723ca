"""The clients of a bench, as processes: `python -m services.dmq.bench.clients ROLE SOCKET FILE COUNT [MORE]`.

    sign SOCKET FILE COUNT CONNECTIONS        hand COUNT messages in over so many kept connections
    dial SOCKET FILE COUNT CONNECTIONS        the same, each message over a connection of its own, so many at a time
    pour SOCKET FILE COUNT RATE               hand messages in at that rate over 16 connections, whatever is answered
    read SOCKET - COUNT                       ask with blocking requests until COUNT messages were read

Each prints `ready`, waits for a line, and prints what happened as JSON. They write bytes that were made in advance, so
that they take little of the machine. A thread a connection is enough: at most 16 wait at a time.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from router.core.link.machine import Agency
from services.dmq.bench import traffic
from services.dmq.core.cbor import ItemScanner, array_of
from services.dmq.core.protocols import handshake, notification, submission
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.mux import HEAD, sdu

_HEAD = Struct(">IHH")
_HELLO = sdu(
    (handshake.NUMBER, Agency.INITIATOR), handshake.encode_message(handshake.propose(MAGICS[traffic.NETWORK])), 0
)
_DONE = sdu((submission.NUMBER, Agency.INITIATOR), submission.encode_message(submission.MsgDone()), 0)
_ACCEPTED = submission.encode_message(submission.MsgAcceptMessage())
_REQUEST = sdu((notification.NUMBER, Agency.INITIATOR), b"\x82\x00\xf5", 0)


class ShakenConnection:
    """A connection that has shaken hands."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._socket.sendall(_HELLO)
        self._data = b""
        self.next()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def next(self) -> bytes:
        """Return the payload of the next SDU."""
        self._until(HEAD.size)
        length = HEAD.unpack_from(self._data)[2]
        self._until(HEAD.size + length)
        payload, self._data = self._data[HEAD.size : HEAD.size + length], self._data[HEAD.size + length :]
        return payload

    def close(self) -> None:
        self._socket.close()

    def _until(self, size: int) -> None:
        while len(self._data) < size:
            data = self._socket.recv(1 << 18)
            if not data:
                raise EOFError("the node closed the connection")
            self._data += data


def submit(line: ShakenConnection, framed: bytes) -> str:
    """Hand a message in, and return what was answered, in a word."""
    line.send(framed)
    answer = line.next()
    return "accepted" if answer == _ACCEPTED else f"rejected: {answer.hex()[:120]}"


def framed(path: str, count: int) -> deque[bytes]:
    """Return the messages of a file as their SDUs."""
    found: deque[bytes] = deque()
    for wire in traffic.read(Path(path)):
        if len(found) == count:
            break
        found.append(sdu((submission.NUMBER, Agency.INITIATOR), array_of(b"\x00", wire), 0))
    return found


def side_by_side(count: int, act: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def sign(path: str, waiting: deque[bytes], connections: int) -> Iterator[Counter[str]]:
    lines = [ShakenConnection(path) for _ in range(connections)]
    yield (said := Counter[str]())
    side_by_side(connections, lambda number: _sign(lines[number], waiting, said))


def _sign(line: ShakenConnection, waiting: deque[bytes], said: Counter[str]) -> None:
    while waiting:
        try:
            one = waiting.popleft()
        except IndexError:
            return
        said[submit(line, one)] += 1


def dial(path: str, waiting: deque[bytes], connections: int) -> Iterator[Counter[str]]:
    yield (said := Counter[str]())
    side_by_side(connections, lambda _: _dial(path, waiting, said))


def _dial(path: str, waiting: deque[bytes], said: Counter[str]) -> None:
    while waiting:
        try:
            one = waiting.popleft()
        except IndexError:
            return
        line = ShakenConnection(path)
        said[submit(line, one)] += 1
        line.send(_DONE)
        line.close()


def pour(path: str, waiting: deque[bytes], rate: int) -> Iterator[Counter[str]]:
    connections = 16
    lines = [ShakenConnection(path) for _ in range(connections)]
    yield (said := Counter[str]())
    began_s, total = time.monotonic(), len(waiting)

    def act(number: int) -> None:
        for at in range(number, total, connections):
            ahead_s = began_s + at / rate - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
            said[submit(lines[number], waiting[at])[:8]] += 1

    side_by_side(connections, act)


def read(path: str, count: int) -> Iterator[Counter[str]]:
    line, found = ShakenConnection(path), 0
    yield (said := Counter[str]())
    while found < count:
        line.send(_REQUEST)
        reply = b""
        while not reply.endswith(b"\xff") or (size := _messages(reply)) is None:
            reply += line.next()
        found += size
        said["replies"] += 1
    said["messages"] = found


def _messages(reply: bytes) -> int | None:
    """Return how many messages a whole reply holds, by the first bytes of each; None if it is not whole."""
    at, found = 3, 0
    while at < len(reply) and reply[at] != 0xFF:
        end = ItemScanner().end_in(reply, at)
        if end is None:
            return None
        at, found = end, found + 1
    return found if at == len(reply) - 1 else None


def main() -> None:
    role, path, file, count, *more = sys.argv[1:]
    waiting = framed(file, int(count)) if file != "-" else deque()
    match role:
        case "sign":
            act = sign(path, waiting, int(more[0]))
        case "dial":
            act = dial(path, waiting, int(more[0]))
        case "pour":
            act = pour(path, waiting, int(more[0]))
        case _:
            act = read(path, int(count))
    said = next(act)
    print("ready", flush=True)
    sys.stdin.readline()
    began_s, cpu_s = time.monotonic(), time.process_time()
    next(act, None)
    print(json.dumps({**said, "seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}), flush=True)


if __name__ == "__main__":
    main()
