"""The limits of listening, whose defaults the configuration takes."""

from __future__ import annotations

from msgspec import Struct

from router.core.link.table import LinkLimits

CONNECTIONS_MAX = 10_000  # open connections per listener; further ones are closed at once
HANDSHAKE_READS = 8  # reads of a handshake without a pause; after them, each waits HANDSHAKE_PAUSE_S first
HANDSHAKE_PAUSE_S = 0.05


class HandshakeLimits(Struct, frozen=True):
    """Limits of handshakes: how many at once from one address prefix; how many a second from one, and from all (0:
    unlimited); how long each may take or wait, and how long it may take while others of its prefix wait."""

    max_per_prefix: int = 64
    per_s_per_prefix: float = 20.0
    per_s: float = 100.0
    timeout_s: float = LinkLimits().hello_s
    spared_s: float = 2.0
