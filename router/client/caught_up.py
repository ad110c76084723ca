"""The news for an app that its node has caught up with a group after an absence."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.verbs.caught_up import GroupCaughtUp


class CaughtUp(Struct, frozen=True):
    """At `at_s` (Unix seconds) the node had fetched the messages that it missed of a group.

    `of` messages were missing; `missing` of them nobody has any more."""

    group: PublicKey
    at_s: int
    missing: int = 0
    of: int = 0

    def __str__(self) -> str:
        """Return the news as a sentence, with the time in this machine's time zone."""
        when, today = datetime.fromtimestamp(self.at_s), datetime.now()
        at = f"{when:%H:%M}" if when.date() == today.date() else f"{when:%Y-%m-%d %H:%M}"
        if not self.missing:
            return f"caught up to {at}"
        have = "has" if self.missing == 1 else "have"
        return f"caught up to {at}; {self.missing:,} of {self.of:,} {have} expired everywhere"


def read_caught_up(argument: str) -> CaughtUp:
    """Return the news in the argument of the node's word `caught-up`."""
    said = GroupCaughtUp.from_argument(argument)
    return CaughtUp(said.group, said.at_s, said.missing, said.of)
