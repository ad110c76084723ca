"""Why a program that a command or a service dials is not reached, in words."""

from __future__ import annotations

import errno
import socket

from router.transport.tcp import number_of, why


def why_unreached(error: OSError, place: str, remedy: str) -> str:
    """Return what is said of a program that was dialled at `place`, HOST:PORT, with the remedy; another one if the
    host has no address."""
    if not isinstance(error, socket.gaierror):
        return f"nobody listens at {place}: {why(error)}; {remedy}"
    host, cause = place.rpartition(":")[0], error.strerror or error
    return f"no address is known for {host} ({cause}); correct the name, or see to this machine's name server"


def why_from(error: OSError, source: str) -> str:
    """Return what is said of a stream that could not be opened from a source address, HOST:PORT; "" is any."""
    if number_of(error) == errno.EINVAL and source.startswith(("127.", "[::1]")):
        return f"nothing but this machine is reached from {source}, an address of it alone"
    return why(error)
