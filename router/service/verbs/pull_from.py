"""Messages of a group that a service or app of this node has another router asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.heard import Heard
from router.core.wire.lifetime import UINT32_MAX

from .verb import Deed, Request

IDS_MAX = 64
MINUTES_MAX = 16
"""Most minutes in which an id is looked up one by one; if more are possible, the whole index is searched."""

PullState = Literal["asked", "known", "away", "later"]
"""The result of a `PullFrom`: the router was asked; the own router knows the id, so no one was asked; the router is not
connected; or too many requests are open."""


class PullFrom(Deed, frozen=True):
    """Have the own router ask a connected one for a message by its id, unless it knows the message; `PulledFrom`
    follows. A service may have 256 open.

    The message goes to the group's subscribers here, like any message of that router, which need not answer.
    `expiry_min`: the minute of the message's expiry, or the first of `minutes` in which it may be; for up to 16 this
    makes the look-up cheap. 0: unknown. `is_history`: the message goes to this service alone, which keeps it for other
    nodes; the group's subscribers here did not miss it."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    expiry_min: Annotated[int, Meta(ge=0, le=UINT32_MAX)] = 0
    minutes: Annotated[int, Meta(ge=1)] = 1
    is_history: bool = False


class PulledFrom(Heard, frozen=True):
    """The result of a `PullFrom`: that router is `asked`, and the message comes like any other or not at all; it is
    `known` here already; that router is `away`; or too much is open, so try `later`."""

    router: PublicKey
    group: PublicKey
    id: MessageId
    state: PullState


class PullsFrom(Request, frozen=True, omit_defaults=True):
    """PULLs of one group for one router at a time, as they travel: a column for each field of `PullFrom`, of which the
    last three may be missing. The answer holds a state for each id; to an app also "owed", if its queue has it."""

    WORD: ClassVar[str] = "pull"
    OF_APPS: ClassVar[bool] = True

    router: PublicKey
    group: PublicKey
    ids: Annotated[tuple[MessageId, ...], Meta(min_length=1, max_length=IDS_MAX)]
    expiries: Annotated[tuple[Annotated[int, Meta(ge=0, le=UINT32_MAX)], ...], Meta(max_length=IDS_MAX)] = ()
    minutes: Annotated[tuple[Annotated[int, Meta(ge=1, le=MINUTES_MAX)], ...], Meta(max_length=IDS_MAX)] = ()
    history: Annotated[tuple[bool, ...], Meta(max_length=IDS_MAX)] = ()

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        """Return the result for each message; "later" if the request failed."""
        states = answer.get("states", ["later"] * len(self.ids))
        pairs = zip(self.ids, states, strict=True)
        return [PulledFrom(self.router, self.group, id, state) for id, state in pairs]

    @classmethod
    def of(cls, run: Sequence[PullFrom]) -> Self:
        """Return the request for these messages of one group from one router."""
        return cls(
            run[0].router,
            run[0].group,
            tuple([one.id for one in run]),
            tuple([one.expiry_min if one.minutes <= MINUTES_MAX else 0 for one in run]),
            tuple([min(one.minutes, MINUTES_MAX) for one in run]),
            tuple([one.is_history for one in run]),
        )
