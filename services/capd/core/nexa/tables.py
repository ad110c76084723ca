"""The order of messages between Nexa nodes, as tables: one for each side, since neither waits for the other's turn.

    silent -- version --> greeted -- extversion --> declared -- verack --> open

The listener sends its version when it has the dialler's. Either side sends `extversion` when it has the other's
version, and `verack` when it has the other's `extversion`. The protocol between pools begins when both sides are open.
Pings are answered from the version on. Unknown commands are not in the tables: they are ignored, as is a known one
before its time, unless it is a greeting.
"""

from __future__ import annotations

from enum import Enum
from math import inf

from router.core.link.machine import Agency, Row, Table

from .greeting import Version
from .packets import COMMANDS, ExtVersion, Ping, Pong, Reject, Verack

GREETING_S = 10.0
"""Seconds that a side has for each step of its greeting."""
PACKET_S = 120.0
"""Seconds within which a packet that has begun must be complete."""


class Said(Enum):
    """The last message of its greeting that a side has sent."""

    NOTHING = "silent"
    VERSION = "greeted"
    EXTVERSION = "declared"
    VERACK = "open"


def _half(speaker: Agency) -> Table:
    def row(said: Said, on: dict[type, Enum], timeout_s: float) -> Row:
        pings: dict[type, Enum] = {} if said is Said.NOTHING else {Ping: said, Pong: said}
        return Row(speaker, {**on, **pings, Reject: said}, timeout_s)

    return {
        Said.NOTHING: row(Said.NOTHING, {Version: Said.VERSION}, GREETING_S),
        Said.VERSION: row(Said.VERSION, {ExtVersion: Said.EXTVERSION}, GREETING_S),
        Said.EXTVERSION: row(Said.EXTVERSION, {Verack: Said.VERACK}, GREETING_S),
        Said.VERACK: row(Said.VERACK, dict.fromkeys(COMMANDS, Said.VERACK), inf),
    }


TABLES: dict[Agency, Table] = {side: _half(side) for side in (Agency.INITIATOR, Agency.RESPONDER)}
"""The messages that the dialler (the initiator) and the listener (the responder) may send."""
