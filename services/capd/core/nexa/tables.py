"""The order in which Nexa nodes speak, as tables: one for each side, since neither waits for the other's turn.

    silent -- version --> greeted -- extversion --> declared -- verack --> open

The listener greets when it has heard the dialler's version; either says `extversion` when it has heard the other's
version, and `verack` when it has heard the other's `extversion`. The protocol between pools is spoken when both sides
are open. Pings are answered from the version on. Commands that are not known have no place here: they are ignored.
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
"""Seconds within which a packet is whole that has begun."""


class Said(Enum):
    """What a side has said."""

    NOTHING = "silent"
    VERSION = "greeted"
    EXTVERSION = "declared"
    VERACK = "open"


def _half(speaker: Agency) -> Table:
    def row(said: Said, on: dict[type, Enum], timeout_s: float) -> Row:
        pings: dict[type, Enum] = {} if said is Said.NOTHING else {Ping: said, Pong: said}
        return Row(speaker, {**on, **pings}, timeout_s)

    return {
        Said.NOTHING: row(Said.NOTHING, {Version: Said.VERSION}, GREETING_S),
        Said.VERSION: row(Said.VERSION, {ExtVersion: Said.EXTVERSION}, GREETING_S),
        Said.EXTVERSION: row(Said.EXTVERSION, {Verack: Said.VERACK}, GREETING_S),
        Said.VERACK: row(Said.VERACK, dict.fromkeys((*COMMANDS, Reject), Said.VERACK), inf),
    }


TABLES: dict[Agency, Table] = {side: _half(side) for side in (Agency.INITIATOR, Agency.RESPONDER)}
"""What the dialler (the initiator) and the listener (the responder) may say."""
