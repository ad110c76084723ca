"""Ports of this machine for what a test starts."""

from __future__ import annotations

import random
import socket

PORTS = range(20_000, 32_000)
"""Those below the ports that the system gives to outgoing connections."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port of TCP, or of that kind, that is free, and can be listened on again after every restart."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket(socket.AF_INET, kind) as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
