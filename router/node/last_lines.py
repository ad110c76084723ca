"""The last lines that a process printed on standard error, in case nothing else explains why it ended."""

from __future__ import annotations

import re
import sys
from contextlib import suppress

import trio

from router.core.wire.text import clean

LINES_MAX = 10
LINE_CHARACTERS_MAX = 200
END_BYTES_MAX = 16 * 1024
PACE_S = 0.05
"""The pause after each read, so that a process that prints without end waits, and does not take up the node's time."""
DRAIN_S = 1.0
FATAL = "Fatal Python error"
SECRET = re.compile(r"[\w+=-]{32,}")
"""A word as long as a key; keys, links and tokens among them may be secret."""


class LastLines:
    """Passes on what a process prints on standard error, and remembers the end of it."""

    def __init__(self) -> None:
        self._end = b""

    def __repr__(self) -> str:
        return f"<{len(self._end)} bytes that were printed last>"

    async def until_end(self, process: trio.Process) -> int:
        """Read until the process has ended; return its exit code."""
        assert process.stderr is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, process.stderr)
            code = await process.wait()
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN_S  # a process of its own may hold it open
        return code

    async def _pass_on(self, printed: trio.abc.ReceiveStream) -> None:
        async with printed:
            async for data in printed:
                self._end = (self._end + data)[-END_BYTES_MAX:]
                with suppress(OSError, ValueError):
                    sys.stderr.buffer.write(data)
                    sys.stderr.flush()
                await trio.sleep(PACE_S)

    def lines(self) -> tuple[str, ...]:
        """Return the last lines, or the first ones of Python's own report of a crash; words that may be secret are
        left out."""
        lines = [line for line in self._end.decode(errors="replace").splitlines() if line.strip()]
        crash = next((at for at, line in enumerate(lines) if line.startswith(FATAL)), None)
        lines = lines[-LINES_MAX:] if crash is None else lines[crash : crash + LINES_MAX]
        return tuple(clean(SECRET.sub("…", line), LINE_CHARACTERS_MAX) for line in lines)
