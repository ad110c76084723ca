"""A message as an app receives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from router.client.errors import ClientError
from router.client.interrupts import uninterrupted
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason, by_word


@dataclass(frozen=True, slots=True)
class Message:
    """A message as an app sees it.

    `group`: the group of a multicast, else None; `source`: the sender of a unicast, else None. `sender`, `seq`, `deps`
    and `code` come from the member's signed words inside the sealed body, None or empty where the body is unsealed
    (`raw`); a unicast's sender is its source. `sealed`: nobody on the way could read the body. `via`: the router next
    to ours, None for a message from this node. `received_at`: Unix seconds. `redelivered`: an earlier run of this app
    may have seen it. `seen`: the ids that a multicast's header names. `wire`: the bytes as received, without VIA.

    In causal order, `missing`: the ids of its causes that this app has not been given, because they did not come in
    time or were before its time; `late`: it comes after a message that named it as missing, or after a later one of its
    sender.
    """

    id: MessageId
    body: bytes
    group: PublicKey | None
    source: PublicKey | None
    sender: PublicKey | None
    seq: int | None
    deps: tuple[MessageId, ...]
    code: int | None
    via: PublicKey | None
    received_at: float
    redelivered: bool
    seen: tuple[MessageId, ...]
    expiry_min: int
    wire: bytes = field(repr=False)
    sealed: bool = field(default=False, kw_only=True)
    missing: tuple[MessageId, ...] = field(default=(), kw_only=True)
    late: bool = field(default=False, kw_only=True)


@uninterrupted
@dataclass(frozen=True, slots=True)
class Received(Message):
    """A message in an app's hands. It is settled when its loop asks for the next one, or by `settle` or `refuse`."""

    _settle: Callable[[], Awaitable[None]] = field(repr=False, compare=False)
    _refuse: Callable[[Reason, str], None] = field(repr=False, compare=False)

    async def settle(self) -> None:
        """Settle this message at the node; with a journal, once it is on disk there. Calling it twice is harmless."""
        await self._settle()

    async def refuse(self, reason: Reason | str = Reason.PEER_REFUSED, text: str = "") -> None:
        """Refuse this message at the node. A final reason ends it: it is logged as refused, and the source of a unicast
        gets a report. A *later* reason makes the node deliver it again after a pause. A settled message stays
        settled. `reason`: a `Reason` or its word; raise `ClientError` for another."""
        self._refuse(_reason(reason), text)
        await trio.lowlevel.checkpoint()


def _reason(given: Reason | str) -> Reason:
    """Return the reason of that word; raise `ClientError` before anything is settled or refused if there is none."""
    found = given if isinstance(given, Reason) else by_word(given)
    if found is None:
        words = ", ".join(one.word for one in Reason)
        raise ClientError(f"{given!r} is no reason to refuse a message; reasons are {words}")
    return found
