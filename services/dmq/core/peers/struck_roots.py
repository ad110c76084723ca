"""The roots that somebody has struck out of the topology, until they are left: as strangers alone they would be pulled
from until a churn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..protocols.peer_sharing import PeerAddress
from .acts import Act, Hang
from .book import PeerBook
from .known import PeerState

STRUCK = "the topology names it no more"


class StruckRoots:
    """Such roots; `book`: where they are known, as strangers from now on."""

    def __init__(self, book: PeerBook) -> None:
        self._book = book
        self._addresses: dict[PeerAddress, None] = {}

    def __repr__(self) -> str:
        return f"<StruckRoots: {len(self._addresses)}>"

    def add(self, addresses: Iterable[PeerAddress]) -> None:
        self._addresses |= dict.fromkeys(addresses)

    def left(self, now_s: float) -> Iterator[Act]:
        """Yield what leaves them: the connection with one that we have dialled ends, and its address is forgotten; one
        that has dialled us is pulled from no more. What is under way is waited for."""
        for address in list(self._addresses):
            peer = self._book.get(address)
            if peer is None or peer.group is not None:  # it is gone, or named again
                del self._addresses[address]
            elif peer.state is PeerState.COLD:
                del self._addresses[address]
                self._book.forget(peer, now_s)
            elif peer.is_connected and peer.is_inbound:
                del self._addresses[address]
                if peer.state is PeerState.HOT:
                    yield self._book.cool(peer, now_s)
            elif peer.is_connected:
                self._book.move(peer, PeerState.CLOSING, now_s)
                yield Hang(address, STRUCK)
