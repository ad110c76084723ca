"""The messages of a group that the own router holds, page by page."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard

from .forms import Seconds
from .verb import Request


class ListHeld(Request, frozen=True):
    """Ask for the messages of a group that the own router holds: those after the arrival number `after` that arrived at
    the Unix second `since_s` or later."""

    WORD: ClassVar[str] = "held"
    ANSWERED_LATER: ClassVar[bool] = True
    BY_NODE: ClassVar[bool] = True

    group: PublicKey
    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    since_s: Seconds = 0

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        """Return the page."""
        if "error" in answer:
            return (HeldPage(self.group, error=str(answer["error"]), after=self.after),)
        keys, times = b64decode(answer["keys"]), tuple([(at_s, count) for at_s, count in answer["times"]])
        upto, more, gone = answer["upto"], answer["more"], answer["gone"]
        return (HeldPage(self.group, keys, upto, more, gone, times, after=self.after),)


class HeldPage(Heard, frozen=True):
    """The answer to `ListHeld`: expiry minute (4 bytes, big endian) and id (32) of each message, joined, in the order
    in which the router took them.

    `upto`: the arrival number from which the next page begins; `more`: there is one already. `gone`: a number that
    changes when messages of the group are deleted before their expiry. `times`: Unix seconds, each with the number of
    these messages that came then. `error`: why the router did not answer. `after`: as in the `ListHeld`."""

    group: PublicKey
    keys: bytes = b""
    upto: int = 0
    more: bool = False
    gone: int = 0
    times: tuple[tuple[int, int], ...] = ()
    error: str = ""
    after: int = 0

    def __repr__(self) -> str:
        return f"<HeldPage of {self.group!r}: {len(self.keys)} bytes from {self.after} to {self.upto}{self.error}>"
