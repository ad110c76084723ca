"""The limits of a door for HTTP."""

from __future__ import annotations

from msgspec import Struct

READ_AHEAD_BYTES_MAX = 64 * 1024
"""Bytes of further requests that may come while one waits for its answer; with more, the connection is closed."""
PIECES_LEAST, PIECE_BYTES_LEAST = 1024, 64
"""Pieces of a body (chunks, or what is read at once) that are taken in any case; of more, each has so many bytes on
average, since each costs as much as many bytes do."""
REPEAT_BYTES_MAX = 2048
"""Bytes of a request that is remembered on its connection, as it is likely to be repeated there."""
LINGER_S = 2.0
"""Seconds for which a connection is read, and nothing kept, after an answer that came before the request's end: a close
would overtake the answer."""
LINGER_BYTES_MAX = 8 << 20
"""Bytes that are read so at most."""
AT_ONCE_MAX = 16
"""Requests that are answered of what is read at once; the last of them closes the connection, so that nobody keeps the
others waiting by thousands of requests in one packet."""
AT_ONCE_BYTES_MAX = 128 * 1024
"""Bytes of answers to what is read at once from which on the next answer closes the connection, so that little is kept
for who asks much and reads nothing."""
PARAMETERS_MAX = 32
"""Parameters behind the `?` of a request."""

LINKS_PER_S, LINKS_AT_ONCE = 50.0, 256
"""New links of one IPv4 address or IPv6 /64: each second in the long run, and at once, as when a node starts again and
all pages behind one address reconnect."""
LINK_ADDRESSES_MAX = 4096
"""Addresses of which it is remembered how many links they began lately; the one that began longest ago is forgotten."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """How much one client may take: `per_address` counts the open connections of an IPv4 address or an IPv6 /64.

    `head_s` and `body_s` are for the head and the body of a request, `idle_s` for the pause between two."""

    per_address: int = 64
    head_bytes_max: int = 16 * 1024
    body_bytes_max: int = 256 * 1024
    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 60.0
