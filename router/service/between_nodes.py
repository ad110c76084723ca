"""Events and deeds for passing groups from node to node, as the pub/sub service does (R-C27 to R-C30).

See `router.service.contract`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason

PullState = Literal["asked", "known", "away", "later"]
"""The result of a `PullFrom`: the router was asked; the own router knows the id, so no one was asked; the router is not
connected; or too many requests are open."""


# -- heard ----------------------------------------------------------------------------------------------------------


class Passed(Struct, frozen=True):
    """The fate of the message with this tag at the next hop. `to`: that router, or a local recipient.

    `reason` is None if it has taken custody ("acked", "delivered" to an app of this node, or "unconfirmed" with ttl 0);
    else the copy has ended for that reason. No `Passed` follows if the connection to the own router is lost meanwhile.
    """

    tag: str
    id: MessageId
    to: PublicKey
    state: str
    reason: Reason | None = None


class PulledFrom(Struct, frozen=True):
    """The result of a `PullFrom`. After "asked" the message comes like any other, or does not come."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    state: PullState


@dataclass(frozen=True, slots=True)
class Published:
    """Apps of this node have published in a group of `IdsOnly`: the ids, joined, and runs of (expiry minute, number of
    ids). `left_out`: messages before these whose ids are not told, since too many waited."""

    group: PublicKey
    ids: bytes = field(repr=False)
    expiries: tuple[tuple[int, int], ...]
    left_out: int = 0


# -- deeds ----------------------------------------------------------------------------------------------------------


class Forward(Struct, frozen=True):
    """Send a multicast on as it was received, to the next router `via`. With a tag, `Passed` reports its fate there, or
    `Sent` that the own router refused it."""

    wire: bytes
    via: PublicKey
    tag: str = ""


class PullFrom(Struct, frozen=True):
    """Have the own router ask a connected one for a message by its id, unless it knows the message; `PulledFrom`
    follows.

    The message goes to the group's subscribers here, like any message of that router, which need not answer.
    `expiry_min`: the minute of the message's expiry if the rules know it, or the first of `minutes` in which it may be,
    which makes the look-up cheap for up to `MINUTES_MAX`; 0: unknown. `is_history`: the message goes to this service
    alone, which keeps it for other nodes; the group's subscribers here did not miss it."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    expiry_min: int = 0
    minutes: int = 1
    is_history: bool = False


class Confirm(Struct, frozen=True):
    """Acknowledge a `Wanted`, as the pub/sub service does; until then it is repeated every few seconds."""

    group: PublicKey
    wanted: bool
    success: bool = True


class IdsOnly(Struct, frozen=True):
    """Get `Published` instead of the messages that apps of this node publish in a joined group, or, unless `on`, the
    messages again; a `Join` of the group ends it.

    While there is nobody else to give them to, the messages come all the same. What was published just before a crash
    is perhaps not told; `ListHeld` has it."""

    group: PublicKey
    on: bool = True
