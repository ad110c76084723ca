"""Events of services for the node's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from router.core.log.events import NOTED_IDS_MAX
from router.core.wire.crypto import MessageId
from router.core.wire.reasons import REASON_MAX, Reason

from .forms import Name
from .verb import Deed, Request

FIELDS_MAX = 16

Ids = Annotated[str, Meta(pattern=rf"^(?:[0-9a-f]{{64}}){{1,{NOTED_IDS_MAX}}}\Z")]


class LogEvent(Deed, frozen=True):
    """Write an event that `EVENTS` declares to the node's log; `message` is the id it is about, by which `router why`
    finds it.

    One about several, at most 64, names their ids in `messages`, and what differs between them in `each`: by name the
    value for each message, without commas. `router why` shows of it what concerns the one message. By the field
    `handover` the audit balances what is owed to recipients and what became of it (`cddl/segment.cddl`)."""

    event: str
    message: MessageId | None = None
    reason: Reason | None = None
    fields: Mapping[str, str | int | bool] = {}
    messages: Sequence[MessageId] = ()
    each: Mapping[str, Sequence[str | int]] = {}


class NotedEvent(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An event as a service writes it down; its host judges each by this form before it is kept.

    `message`: the ids of the messages that it is about, joined."""

    event: str
    message: Ids | None = None
    reason: Annotated[int, Meta(ge=0, le=REASON_MAX)] | None = None
    fields: Annotated[dict[Name, str | int | bool], Meta(max_length=FIELDS_MAX)] = {}


class LogEvents(Request, frozen=True):
    """Write the events of a service that wait in its state: those of the state `epoch` from number `first` on."""

    WORD: ClassVar[str] = "note"

    epoch: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    first: Annotated[int, Meta(ge=1)]
    events: tuple[NotedEvent, ...]

    @staticmethod
    def of_kept(epoch: str, first: int, events: Sequence[bytes]) -> str:
        """Return the argument for events as the state keeps them, each the JSON of a `NotedEvent`."""
        return f'{{"epoch":"{epoch}","first":{first},"events":[{b",".join(events).decode()}]}}'
