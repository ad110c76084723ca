"""A TCP relay on this machine, in the place of a link's cable: no byte passes while it is cut. It needs no rights."""

from __future__ import annotations

import trio

READ_BYTES = 1 << 16
CONNECTIONS_MAX = 64
"""Connections that a relay holds at once; a further one is closed."""


class Relay:
    """Passes bytes on between whoever connects to `port` and who listens at `target`, ports of 127.0.0.1.

    `cut`: bytes wait on both sides, as if the cable were pulled; `break_off`: connections are closed and new ones too;
    `slow`: each read waits before it is passed on; `mend` ends all three, and what waited is passed on."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._delay_s = 0.0
        self._is_broken = False
        self._passable = trio.Event()
        self._passable.set()
        self._connections: set[trio.CancelScope] = set()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled; started when `port` is known."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._pass_on, listeners)

    def cut(self) -> None:
        self._passable = trio.Event()

    def break_off(self) -> None:
        self._is_broken = True
        for one in self._connections:
            one.cancel()

    def slow(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def mend(self) -> None:
        self._delay_s, self._is_broken = 0.0, False
        self._passable.set()

    async def _pass_on(self, near: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            if self._is_broken or len(self._connections) >= CONNECTIONS_MAX:
                await trio.aclose_forcefully(near)
                return
            self._connections.add(scope)
            try:
                await self._passable.wait()
                far = await trio.open_tcp_stream("127.0.0.1", self._target)
                async with far, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pipe, near, far, nursery.cancel_scope)
                    nursery.start_soon(self._pipe, far, near, nursery.cancel_scope)
            except OSError:
                pass  # Nobody listens there: the dialler sees its connection closed.
            finally:
                self._connections.discard(scope)

    async def _pipe(self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
        try:
            while data := await source.receive_some(READ_BYTES):
                if self._delay_s:
                    await trio.sleep(self._delay_s)
                await self._passable.wait()
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # An end is gone, and the other one with it.
        both.cancel()
