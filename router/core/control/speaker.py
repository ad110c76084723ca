"""Messages in this router's own name: encoded, signed, and counted in the window of the link that they leave by."""

from __future__ import annotations

from router.core.neighbours.directory import Standing
from router.core.routing.effects import Pending, SendOwn
from router.core.routing.kernel import Said
from router.core.routing.links import Flight, Link
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.control import encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import TO_ROUTER, TO_SERVICE, Hinted, encode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted, encode_wanted
from router.core.wire.redemption import AskTerms, Redeem, Redeemed, Terms, encode_redemption

CONTROL_LIFE_S = 3600
SEALED_BYTES = 192
"""Bytes that a unicast has beyond its body, at most: its heads, two keys, a signature."""


class Speaker:
    """Signs with the router's key, and hands the message to the link."""

    def __init__(self, key: SigningKey, pending: Pending) -> None:
        self._key = key
        self._pending = pending

    def say(self, link: Link, said: Said, now: Now, to: PublicKey | None = None) -> bool:
        """Send a control message of this router to a neighbour, or through it to `to`: never queued, so its ttl is 0.

        If it does not fit the window and its slack, because the neighbour settles nothing, it is not signed, and this
        returns False; a JOIN is repeated by its sender if the answer is missing.
        """
        body = _body(link, said)
        if not self.has_room(link, len(body)):
            return False
        expiry = expiry_min(now.judged_s + CONTROL_LIFE_S)
        wire = seal_unicast(self._key, to or PublicKey(link.key), body, ttl_s=0, expiry_min=expiry)
        n = link.outgoing.send(1, len(wire))
        link.fly(Flight(n, None, 0, 1))
        self._pending.effects.append(SendOwn(link.id, wire))
        return True

    def has_room(self, link: Link, size: int = 0) -> bool:
        """Whether a body of that many bytes may be sent on the link now; asked before one is made at any cost."""
        return link.outgoing.takes_control(size + SEALED_BYTES)


def _body(link: Link, said: Said) -> bytes:
    match said:
        case Answer() | Inquiry():
            return encode_inquiry(said)
        case Wanted():
            return encode_wanted(said)
        case Hinted():
            return encode_hint(said, TO_SERVICE if link.standing is Standing.LOCAL else TO_ROUTER)
        case Redeem() | Redeemed() | AskTerms() | Terms():
            return encode_redemption(said)
        case _:
            return encode_control(said)
