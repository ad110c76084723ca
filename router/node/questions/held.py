"""The messages of a group that the store holds, page by page."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from router.core.neighbours.directory import PUBSUB
from router.core.wire.admin import HELD
from router.node.questions.question import Asked, Questions, Respond

PAGE_MAX = 4_096
"""Messages in a page of held ones, before the last parcel: some 25 ms of the loop, and one turn of it for each page."""


class HeldAfter(Struct, forbid_unknown_fields=True):
    """The messages of a group that are asked for: those after arrival number `after` that arrived at `since_s` or
    later."""

    group: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    since_s: Annotated[int, Meta(ge=0, le=1 << 40)] = 0


class HeldQuestions(Questions):
    """Tells the ids of the messages that are held for those who come later."""

    def answers(self) -> dict[str, Respond]:
        return {HELD: self._held}

    @staticmethod
    def _held(asked: Asked, argument: str) -> dict[str, Any]:
        """Return a page of the messages that `HeldAfter` names. `goes_on`: history is kept now."""
        try:
            said = msgspec.json.decode(argument, type=HeldAfter)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            return {"error": f"{HELD}: {str(error)[:200]}"}
        page = asked.store.records.held(bytes.fromhex(said.group), said.after, PAGE_MAX, said.since_s)
        return {
            "keys": base64.b64encode(page.keys).decode(),
            "upto": page.upto,
            "more": page.more,
            "gone": page.gone,
            "times": page.times,
            "goes_on": asked.router.directory.service_called(PUBSUB) is not None,
        }
