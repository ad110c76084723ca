"""Messages from a router to the pub/sub service of its node, in the body of a unicast (specification, "SUB & UNSUB").

    [1 SUB] [3 UNSUB]         a group is wanted here, or is not wanted any more

The service answers with `[2 SUB_ACK]` and `[4 UNSUB_ACK]`, which byte by byte are the JOIN_ACK and LEAVE_ACK of
`control.py`; the router tells them apart by the link that brings them (R-C27).
"""

from __future__ import annotations

from . import shape
from .codec import Malformed, decode, encode
from .crypto import PublicKey
from .heard import Heard

SUB, UNSUB = b"\x82\x01", b"\x82\x03"
_KINDS = {SUB: True, UNSUB: False}
_ITEMS_MAX = 5


class Wanted(Heard, frozen=True):
    """A group is wanted from other nodes (SUB), or not any more (UNSUB). This comes again every 5 s until `AckWanted`
    acknowledges it, and for each wanted group whenever the service connects."""

    group: PublicKey
    wanted: bool


def is_wanted(body: bytes) -> bool:
    """Whether the body of a router's unicast to a service begins like SUB or UNSUB."""
    return body[:2] in _KINDS


def encode_wanted(value: Wanted) -> bytes:
    return encode([1 if value.wanted else 3, {"addr": value.group}])


def decode_wanted(body: bytes) -> Wanted:
    """Return the SUB or UNSUB in the body of a router's unicast; raise `Malformed` if it is neither."""
    if not is_wanted(body):
        raise Malformed("neither SUB nor UNSUB")
    found = shape.fields(decode(body, _ITEMS_MAX)[1], "SUB or UNSUB", ("addr",))
    return Wanted(shape.checked_key(found["addr"], "addr"), _KINDS[body[:2]])
