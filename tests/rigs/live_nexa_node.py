"""A node that behaves as a live Nexa node does, on a socket: `python -m rigs.live_nexa_node HOST:PORT`.

It reads commands of standard input, a line each, and prints a line when one is carried out:

    listen       accept neighbours
    part         end all connections, and accept none
    post N TEXT  make N messages that begin with TEXT, or with two random bytes if it is missing
    held PATH    write the ids that it holds, a line each
    heard        print the commands that have come, each once
"""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path
from random import Random

import trio
from samples.capd import posted
from samples.capd_live import LiveNode
from samples.capd_net import post

from router.service import contract as c
from services.capd.core.nexa.neighbours import DOOR

READ_BYTES = 1 << 16
PRIORITY = 6.0


class End:
    """The node's end of a connection: what is written to it waits until the stream takes it."""

    def __init__(self) -> None:
        self.peer = ""
        self._wrote = trio.Event()
        self._data = bytearray()
        self._is_closed = False

    def written(self, data: bytes) -> None:
        self._data += data
        self._is_closed |= not data
        self._wrote.set()

    async def pump(self, stream: trio.SocketStream) -> None:
        """Write to the stream until the node closes it."""
        while self._data or not self._is_closed:
            await self._wrote.wait()
            self._wrote, data, self._data = trio.Event(), self._data, bytearray()
            await stream.send_all(data)
        await stream.aclose()


class Served:
    """The node, its clock, and its connections."""

    def __init__(self, place: str) -> None:
        self._host, _, port = place.rpartition(":")
        self._port = int(port)
        self._node = LiveNode()
        self._numbers, self._chance = count(), Random(5)
        self._link: trio.CancelScope | None = None

    def _hear(self, heard: c.Heard) -> None:
        self._node.now = c.Now(time.time(), time.monotonic())
        self._node.hear(heard)

    async def tick(self) -> None:
        while True:
            self._hear(c.Tick())
            await trio.sleep(1.0)

    async def _serve(self, stream: trio.SocketStream) -> None:
        end, (host, port, *_) = End(), stream.socket.getpeername()
        self._node.now = c.Now(time.time(), time.monotonic())
        self._node.open(end, f"{host}:{port}")
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(end.pump, stream)
                while data := await stream.receive_some(READ_BYTES):
                    self._hear(c.Came(DOOR, end.peer, bytes(data)))
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the other side has gone, or was closed
        finally:
            self._node.ends.pop((DOOR, end.peer), None)
            self._hear(c.Came(DOOR, end.peer, b""))

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.CancelScope() as self._link:
            listeners = await trio.open_tcp_listeners(self._port, host=self._host)
            task_status.started()
            await trio.serve_listeners(self._serve, listeners)

    async def post(self, amount: int, begin: bytes) -> None:
        for _ in range(amount):
            data = (begin or self._chance.randbytes(2)) + b" of the node, %d" % next(self._numbers)
            self._node.now = c.Now(time.time(), time.monotonic())
            assert post(self._node, posted(data, PRIORITY, int(time.time()) - 5)) == 0
            await trio.sleep(0)

    async def obey(self, nursery: trio.Nursery) -> None:
        """Carry out commands until there are no more."""
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            said = "done"
            match line.split():
                case ["listen"]:
                    await nursery.start(self.listen)
                case ["part"]:
                    assert self._link is not None
                    self._link.cancel()
                case ["post", amount, *begin]:
                    await self.post(int(amount), "".join(begin).encode())
                case ["held", path]:
                    ids = [row.id.hex() for row in self._node.rules._holdings.pool.rows()]
                    Path(path).write_text("\n".join(ids))
                case ["heard"]:
                    said = " ".join(sorted(set(self._node.heard_of)))
            print(said, flush=True)


async def main(place: str) -> None:
    served = Served(place)
    print("ready", flush=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.tick)
        await served.obey(nursery)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
