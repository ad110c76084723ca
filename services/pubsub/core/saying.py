"""What this service says to that of another router, beside copies of messages."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.messages import Message, encode_message

TTL_S = 30


def say(to: PublicKey, said: Message, via: PublicKey, tag: str) -> c.Send:
    """Return a message to the service `to` at the router `via`.

    It is not kept over a crash of this service: the nonce or the question that it belongs to is in memory only, and
    both sides go on without it after a while. So it costs no transaction of the service's state."""
    return c.Send(to, encode_message(said), TTL_S, via, tag, kept=False)
