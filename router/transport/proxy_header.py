"""The header with which a program says from where a stream comes that it passes on: the PROXY protocol, version 2.

No frame of a link begins like it, so it may be left out.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
HEAD_BYTES = 16
_PASSED, _OWN = 0x21, 0x20  # version 2, and whether the stream comes from elsewhere
_FAMILIES = {4: 0x11, 6: 0x21}  # TCP
_LENGTHS = {0x11: 12, 0x21: 36}


class BadHeader(ValueError):
    """The bytes are no such header."""


def header_for(address: str) -> bytes:
    """Return the header for a stream from HOST:PORT; "": from this machine itself."""
    if not address:
        return SIGNATURE + bytes((_OWN, 0, 0, 0))
    host, _, port = address.rpartition(":")
    ip = ip_address(host.strip("[]").partition("%")[0])
    nowhere = bytes(len(ip.packed))
    addresses = ip.packed + nowhere + struct.pack(">HH", int(port), 0)
    return SIGNATURE + bytes((_PASSED, _FAMILIES[ip.version])) + struct.pack(">H", len(addresses)) + addresses


def length_of(head: bytes) -> int:
    """Return how many bytes follow on the first `HEAD_BYTES`. Raises `BadHeader`."""
    if len(head) < HEAD_BYTES or not head.startswith(SIGNATURE) or head[12] not in (_PASSED, _OWN):
        raise BadHeader("it does not begin with a header of the PROXY protocol, version 2")
    return int.from_bytes(head[14:16], "big")


def address_in(head: bytes, rest: bytes) -> tuple[str, int]:
    """Return host and port that a header names; ("", 0) if it names none. Raises `BadHeader`."""
    if head[12] == _OWN or head[13] not in _LENGTHS:
        return "", 0
    if len(rest) < _LENGTHS[head[13]]:
        raise BadHeader(f"a header of the PROXY protocol ends after {len(rest)} bytes of its addresses")
    size = 4 if head[13] == _FAMILIES[4] else 16
    return str(ip_address(rest[:size])), int.from_bytes(rest[2 * size : 2 * size + 2], "big")
