"""The listening socket of a file that is made again: whoever accepts goes on at the new one."""

from __future__ import annotations

import socket
import tempfile
from itertools import pairwise
from pathlib import Path

import trio
import trio.testing
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_place

from router.transport.socket_file import KeptListener


def listening_at(path: Path) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    raw.setblocking(False)
    raw.bind(str(path))
    raw.listen()
    return raw


async def test_a_connection_that_comes_as_the_socket_is_replaced_ends_no_listener() -> None:
    """Whether the old socket is closed before the accepting task has its turn or after is left to chance."""
    with tempfile.TemporaryDirectory(prefix="kept", dir=short_place()) as directory, trio.fail_after(HANG_S):
        paths = [Path(directory) / f"{number}" for number in range(51)]
        listener, accepted = KeptListener(listening_at(paths[0])), list[object]()

        async def accept() -> None:
            stream, _ = await listener.accept()
            stream.close()
            accepted.append(stream)

        for path, following in pairwise(paths):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(accept)
                await trio.testing.wait_all_tasks_blocked()
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    await trio.lowlevel.checkpoint()
                    listener.replace(listening_at(following))
        listener.close()
        assert len(accepted) == 50
