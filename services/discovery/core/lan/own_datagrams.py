"""The datagrams that a node signs itself: one of its key that it has not signed comes from a copy of its home."""

from __future__ import annotations

from collections import deque

from router.core.wire.advert import Advertisement
from router.service.contract import Deed, Warn
from services.discovery.core.lan.neighbours import Source

SIGNED_MAX = 512
"""How many of its own datagrams a node knows again: it signs one every five minutes."""
COPIED = (
    "a node with this node's key is on the local network as well, at {}: this home was copied, and both run. Stop one "
    "of both for good and remove its home; where both are linked to one neighbour, the one that was started first "
    "stops by itself (`router copy`)"
)


class OwnDatagrams:
    """Knows what was signed in this run by its revisions, which grow from run to run as the clock does."""

    def __init__(self) -> None:
        self._revs: deque[int] = deque(maxlen=SIGNED_MAX)  # the latest last
        self._is_copied = False

    def __repr__(self) -> str:
        return f"<own datagrams: {len(self._revs)} signed{', and there is a copy' if self._is_copied else ''}>"

    def signed(self, advert: Advertisement) -> None:
        """Note a datagram that this node's router has signed."""
        self._revs.append(advert.rev)

    def heard(self, advert: Advertisement, source: Source) -> list[Deed]:
        """Warn once if a datagram of this node's key is none that it has signed since it started."""
        is_new = bool(self._revs) and advert.rev > self._revs[0] and advert.rev not in self._revs
        if self._is_copied or not is_new or not advert.verify():
            return []
        self._is_copied = True
        return [Warn(COPIED.format(source.ip))]
