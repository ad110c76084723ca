"""The user at the other end of a TCP connection within this machine.

Linux tells it of a connection, by both its addresses, over a netlink socket (sock_diag(7), `linux/inet_diag.h`), to
whoever asks. So users of one machine do not take places from each other at a port where all come from one address.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 20, 1
ANY_STATE = (1 << 32) - 1
NO_COOKIE = (1 << 32) - 1
ANSWER_BYTES_MAX = 4096
_HEAD = struct.Struct("=IHHII")  # length, type, flags, number, port of a netlink message
_ASKED = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ENDS = struct.Struct("!HH16s16s")  # ports and addresses of this end and of the other
_REST = struct.Struct("=III")  # interface, cookie
_TOLD = struct.Struct("=4x48x12xII")  # after state, ends, and lengths of queues: user, inode
USERS_OF_A_RANGE = 1 << 16
"""From this number on, users count together that share a range of so many: one user may have as many subordinate ones
(subuid(5))."""


def user_on_loopback(sock: Any) -> str:
    """Return in words which user of this machine has the other end of a connected TCP socket; "" if that is elsewhere,
    closed already, or not known, as on other systems than Linux."""
    with suppress(OSError, ValueError):
        peer, own = sock.getpeername(), sock.getsockname()
        if not _real(peer[0]).is_loopback:
            return ""
        with socket.socket(getattr(socket, "AF_NETLINK", -1), socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asks:
            asks.setblocking(False)  # the kernel has answered when the question is sent
            asks.send(_question(sock.family, peer, own))
            user = _user_in(asks.recv(ANSWER_BYTES_MAX))
        return "" if user is None else _name_of(user)
    return ""


def _real(host: str) -> IPv4Address | IPv6Address:
    found = ip_address(host.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


def _question(family: int, this: tuple[Any, ...], other: tuple[Any, ...]) -> bytes:
    """Return the question for the connection whose own end is `this`, as (address, port)."""
    ends = _ENDS.pack(this[1], other[1], *(ip_address(one[0].partition("%")[0]).packed for one in (this, other)))
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, ANY_STATE) + ends + _REST.pack(0, NO_COOKIE, NO_COOKIE)
    return _HEAD.pack(_HEAD.size + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + asked


def _user_in(answer: bytes) -> int | None:
    """Return the number of the user in an answer; None if there is no such connection, or no process has it any more:
    then its user is not known, and Linux says root."""
    if len(answer) < _HEAD.size + _TOLD.size or _HEAD.unpack_from(answer)[1] != SOCK_DIAG_BY_FAMILY:
        return None
    user, inode = _TOLD.unpack_from(answer, _HEAD.size)
    return user if inode else None


def _name_of(user: int) -> str:
    first = user // USERS_OF_A_RANGE * USERS_OF_A_RANGE
    return f"users {first} to {first + USERS_OF_A_RANGE - 1}" if first else f"user {user}"
