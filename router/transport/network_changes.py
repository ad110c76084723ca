"""Changes of this machine's addresses and routes, as Linux announces them over netlink (rtnetlink(7)).

On other systems nothing is announced: a lost path shows by silence alone.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import trio
from trio.socket import SocketType

from router.transport.sockets import words

log = logging.getLogger(__name__)

SETTLE_S = 0.5
"""Announcements within this time of one another, as when an address comes with its routes, are reported once."""
READ_BYTES = 1 << 16
RECEIVED_MAX = 256
"""Most datagrams that are read at once while a change settles."""

_IPV4_ADDRESSES, _IPV4_ROUTES, _IPV6_ADDRESSES, _IPV6_ROUTES = 0x10, 0x40, 0x100, 0x400
_LINKS = 0x1
_GROUPS = _IPV4_ADDRESSES | _IPV4_ROUTES | _IPV6_ADDRESSES | _IPV6_ROUTES
_NEW_ADDRESS, _DELETED_ADDRESS, _NEW_ROUTE, _DELETED_ROUTE = 20, 21, 24, 25
_HEAD = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface
_ROUTE = struct.Struct("=BBBBBBBBI")  # family, destination's length, …, table, protocol, scope, type, flags
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_IFA_ADDRESS, _RTA_DESTINATION = 1, 1
_LINK_SCOPE = 253  # addresses and routes of this scope and above lead no further than the own cable
_TENTATIVE = 0x40  # an address that is announced again once no other machine turned out to have it
_LOCAL_TABLE = 255
_UNICAST = 1
_CLONED = 0x200  # an entry of the cache of routes
_NARROW = (b"\xfe\x80", b"\xff")  # link-local and multicast destinations of IPv6, whose routes have no scope


class Announcements:
    """Distinguish changes from other announcements, such as a longer lifetime of an address."""

    def __init__(self) -> None:
        self._addresses: set[bytes] = set()  # those announced and still there, each behind its interface

    def __repr__(self) -> str:
        return f"<announcements: of {len(self._addresses)} addresses>"

    def is_change(self, data: bytes) -> bool:
        """Whether a datagram announces a change."""
        found = False
        for kind, body in _messages(data):
            found |= self._changes(kind, body)
        return found

    def _changes(self, kind: int, body: bytes) -> bool:
        if kind in (_NEW_ADDRESS, _DELETED_ADDRESS) and len(body) >= _ADDRESS.size:
            return self._changes_address(kind, body)
        if kind in (_NEW_ROUTE, _DELETED_ROUTE) and len(body) >= _ROUTE.size:
            return _is_far_route(body)
        return False

    def _changes_address(self, kind: int, body: bytes) -> bool:
        _, _, flags, scope, interface = _ADDRESS.unpack_from(body)
        if scope >= _LINK_SCOPE or flags & _TENTATIVE:
            return False
        one = interface.to_bytes(4, "big") + _attribute(body[_ADDRESS.size :], _IFA_ADDRESS)
        if kind == _DELETED_ADDRESS:
            self._addresses.discard(one)
            return True
        is_new = one not in self._addresses
        self._addresses.add(one)
        return is_new


def _is_far_route(body: bytes) -> bool:
    """Whether packets of this machine may take this route beyond its own cables."""
    table, scope, form, flags = (_ROUTE.unpack_from(body)[at] for at in (4, 6, 7, 8))
    narrow = _attribute(body[_ROUTE.size :], _RTA_DESTINATION).startswith(_NARROW)
    return form == _UNICAST and table != _LOCAL_TABLE and scope < _LINK_SCOPE and not flags & _CLONED and not narrow


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message in a datagram."""
    while len(data) >= _HEAD.size:
        size, kind = _HEAD.unpack_from(data)[:2]
        if not _HEAD.size <= size <= len(data):
            return
        yield kind, data[_HEAD.size : size]
        data = data[_aligned(size) :]


def _attribute(data: bytes, wanted: int) -> bytes:
    """Return the value of the first attribute of that type; empty if there is none."""
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= size <= len(data):
            break
        if kind == wanted:
            return data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]
    return b""


def _aligned(size: int) -> int:
    return (size + 3) & ~3


@trio.lowlevel.enable_ki_protection  # a task of an app's, too: Ctrl-C waits for its main task
async def watch(on_change: Callable[[], None]) -> None:
    """Call `on_change` when addresses or routes of this machine have changed; return if the system does not tell."""
    announcements = Announcements()
    try:
        with trio.socket.from_stdlib_socket(_opened(_GROUPS)) as sock:
            while True:
                if not announcements.is_change(await _received(sock)):
                    continue
                await trio.sleep(SETTLE_S)
                _drain(sock, announcements)
                on_change()
    except OSError as error:
        log.info("changes of the network are not announced here: %s", words(error))


class Announced:
    """Waits until something is announced of this machine's interfaces, their addresses or routes. Where the system does
    not tell, `is_told` is False."""

    def __init__(self) -> None:
        self._sock: SocketType | None = None
        try:
            self._sock = trio.socket.from_stdlib_socket(_opened(_LINKS | _GROUPS))
        except OSError as error:
            log.info("changes of the interfaces are not announced here: %s", words(error))

    def __repr__(self) -> str:
        return f"<announcements of interfaces: {'told' if self.is_told else 'not told'}>"

    @property
    def is_told(self) -> bool:
        return self._sock is not None

    async def wait(self, most_s: float) -> bool:
        """Wait for an announcement, at most so many seconds; return whether there was one."""
        with trio.move_on_after(most_s) as waited:
            if self._sock is None:
                await trio.sleep_forever()
            await _received(self._sock)
            _drain(self._sock)
        return not waited.cancelled_caught

    def close(self) -> None:
        """Close the socket; may be called again."""
        if self._sock is not None:
            self._sock.close()


def _opened(groups: int) -> socket.socket:
    """Return a socket on which the system announces changes."""
    if sys.platform != "linux":
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    try:
        own.setblocking(False)
        own.bind((0, groups))
    except OSError:
        own.close()
        raise
    return own


async def _received(sock: SocketType) -> bytes:
    """Return the next datagram; one that stands for a change if the system had to drop some."""
    try:
        return await sock.recv(READ_BYTES)
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise
        return _SOME_CHANGE


_SOME_CHANGE = _HEAD.pack(_HEAD.size + _ADDRESS.size, _DELETED_ADDRESS, 0, 0, 0) + bytes(_ADDRESS.size)


def _drain(sock: SocketType, announcements: Announcements | None = None) -> None:
    """Read what has been announced meanwhile, which belongs to the same change."""
    with suppress(OSError):
        for _ in range(RECEIVED_MAX):
            data = os.read(sock.fileno(), READ_BYTES)
            if announcements is not None:
                announcements.is_change(data)
