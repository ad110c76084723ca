"""What rules hear and decide to take groups from node to node, as the pub/sub service does (R-C27 to R-C30).

See `router.service.contract`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason

PullState = Literal["asked", "known", "away", "later"]
"""What became of a `PullFrom`: that router was asked; this router knows the id, so nobody was; that router is not
connected; or too much is asked for now."""


# -- heard ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passed:
    """What became of a message with this tag at the next hop; `to`: that router, or a local recipient.

    `reason` is None if it has taken custody ("acked", or "delivered" to an app of this node, or "unconfirmed" with
    ttl 0); else the copy has ended for that reason. Nothing follows if the connection to the own router is lost
    meanwhile."""

    tag: str
    id: MessageId
    to: PublicKey
    state: str
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class PulledFrom:
    """What became of a `PullFrom`. If it is "asked", the message comes like any other, or it does not come."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    state: PullState


# -- deeds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forward:
    """Send a multicast on as it was received, to the next router `via`. With a tag, `Passed` tells what became of
    it there, or `Sent` that the own router refused it."""

    wire: bytes
    via: PublicKey
    tag: str = ""


@dataclass(frozen=True, slots=True)
class PullFrom:
    """Let the own router ask a connected one for a message by its id, if it does not know it; `PulledFrom` follows.

    What the other answers goes to the group's subscribers here, like any message that it brings; it may not answer.
    `expiry_min`: the minute of the message's expiry where the rules know it, or the first of so many `minutes` in which
    it is; as long as they are at most `MINUTES_MAX` that makes the look-up cheap; 0: it is not known. `is_history`: the
    message goes to this service alone, which keeps it for others; the group's subscribers here did not miss it."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    expiry_min: int = 0
    minutes: int = 1
    is_history: bool = False


@dataclass(frozen=True, slots=True)
class Confirm:
    """Acknowledge a `Wanted`, as the pub/sub service does; until then it is heard again every few seconds."""

    group: PublicKey
    wanted: bool
    success: bool = True
