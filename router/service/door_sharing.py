"""A TCP port that a door shares with the streams that its service opens: they are dialled from where it listens, so
that the other ends know it by one address.

Only the streams of one process share it: the listening socket is bound and listens before it is marked as shared, which
the kernel refuses where another one listens already, whether that one is shared or not.
"""

from __future__ import annotations

import errno
import socket
import struct

import trio

from router.service.door_places import DoorBounds

SHARED = "shared=yes"
"""The option in a door's URL."""
SHARED_BOUNDS = DoorBounds(most=512, soft=384, pause_s=5.0)
"""The places of such a door, as those of a node of Ouroboros."""
SELF = "this program itself listens there"
_AT_ONCE = struct.pack("ii", 1, 0)


def share(listening: socket.socket) -> None:
    """Let streams be dialled from where this socket listens already."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


async def dial_from(source: tuple[str, int], host: str, port: int) -> trio.socket.SocketType:
    """Return a socket that is connected to `host` from `source`, where a door listens; raise `OSError`, and
    `ValueError` if it would be connected to itself."""
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    found = await trio.socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    failed: OSError = OSError(errno.EAFNOSUPPORT, f"no address of its family has {host}")
    for *_, address in found:
        dialled = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            dialled.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            dialled.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            dialled.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)  # else it cannot be dialled for a minute
            await dialled.bind(source)
            await dialled.connect(address)
            if dialled.getsockname() == dialled.getpeername():
                raise ValueError(SELF)
        except OSError as error:
            dialled.close()
            failed = error
        except BaseException:
            dialled.close()
            raise
        else:
            return dialled
    raise failed
