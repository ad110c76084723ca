"""A message's body in words, for people."""

from __future__ import annotations

from contextlib import suppress

from router.cli.output import one_line
from router.core.wire.codec import Malformed, decode
from router.core.wire.text import clean

_SHOWN_BYTES_MAX = 64
"""Most bytes of a body without text that are shown."""


def readable(body: bytes) -> str:
    """Return a body as one line: text as it is, other short CBOR as its value in Python's notation, all else as hex
    digits."""
    with suppress(UnicodeDecodeError):
        if body.decode().replace("\n", "").replace("\t", "").isprintable():
            return one_line(body)
    if len(body) > _SHOWN_BYTES_MAX:
        return f"{body[:_SHOWN_BYTES_MAX].hex()} … ({len(body)} bytes)"
    with suppress(Malformed):
        return clean(repr(decode(body, _SHOWN_BYTES_MAX)), 4 * _SHOWN_BYTES_MAX)
    return body.hex()
