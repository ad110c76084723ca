"""Ids in place of messages that apps of this node publish."""

from __future__ import annotations

from typing import ClassVar

from router.core.wire.crypto import PublicKey

from .verb import News


class Published(News, frozen=True):
    """Apps of this node have published messages in a group of which this service is told ids (`TakePart`): these,
    joined, and runs of (expiry minute, number of ids); a thousand at once, or what there is once a second.

    `left_out`: messages before these whose ids are not told, since too many waited. What was published just before a
    crash may be missing: `ListHeld` names it."""

    WORD: ClassVar[str] = "published"

    group: PublicKey
    ids: bytes
    expiries: tuple[tuple[int, int], ...]
    left_out: int = 0

    def __repr__(self) -> str:
        return f"<Published in {self.group!r}: {len(self.ids)} bytes of ids, {self.left_out} left out>"
