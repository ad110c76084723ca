"""The welcome of a neighbour by its key: whether it is let in, and within which bounds as a stranger."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from router.core.link.session import Offer, Welcome
from router.core.neighbours.directory import Directory, Standing
from router.core.routing.admission import SIGN_ON_ANEW
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.settings.config import Config
from router.transport.contract import Stream


def welcome(directory: Directory, config: Config, owner: bool, key: PublicKey) -> Welcome | None:
    """Return the welcome of a proven key; None if it is rejected without a reason. `owner`: it came by the owner's
    socket."""
    standing, limits = directory.standing(bytes(key), owner), config.limits
    if standing in (None, Standing.STRANGER) and bytes(key) in directory.successors:
        return Welcome(refused=SIGN_ON_ANEW, reason=Reason.RENEWED)
    if standing is Standing.STRANGER:
        return Welcome(True, min(limits.strangers_frame_bytes_max, limits.frame_bytes_max))
    if standing is None:
        ended_s = directory.ended_s(bytes(key))
        return Welcome(refused=f"its time here ended on {_utc(ended_s)}") if ended_s else None
    return Welcome()


def _utc(at_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_s))


def offer_to(stream: Stream, offer: Offer, config: Config, judge: Callable[[PublicKey], Welcome | None]) -> Offer:
    """Return the offer in our hello, with smaller limits if the transport has proven that the peer is a stranger."""
    limits = config.limits
    found = judge(stream.peer) if stream.peer is not None else None
    if found is None or found.frame_bytes_max is None:
        return offer
    return replace(
        offer,
        frame_bytes_max=found.frame_bytes_max,
        window_messages=limits.strangers_window_messages,
        window_bytes=limits.strangers_window_bytes,
    )
