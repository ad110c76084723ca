"""The places for peers that are pulled from, beside those of local roots: how many there are for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from .known import KnownPeer, PeerSource, prefix

OF_PREFIX_MAX = 2
"""Most strangers of one place of the network that are hot; and twice as many that are known."""


class Targets(Struct, frozen=True):
    """How many peers are known, connected, and hot, as in dmq-node's configuration; the big ones of the ledger besides.

    `churn_s`: seconds between two churns."""

    known: int = 150
    established: int = 30
    active: int = 20
    ledger_known: int = 15
    ledger_established: int = 10
    ledger_active: int = 5
    churn_s: float = 3300.0


class HotPlaces:
    """The places for hot peers beside those of local roots."""

    def __init__(self, hot: Iterable[KnownPeer], targets: Targets) -> None:
        self._targets = targets
        self._count = self._ledger = self._strangers = 0
        self._of_prefix: Counter[str] = Counter()
        for peer in hot:
            self._add(peer)

    def take(self, peer: KnownPeer) -> bool:
        """Give a peer a place; return False if there is none for it."""
        has_place = self.has_for(peer)
        if has_place:
            self._add(peer)
        return has_place

    def has_for(self, peer: KnownPeer) -> bool:
        """Whether there is a place for a peer."""
        if peer.source is PeerSource.LOCAL:
            return False
        if peer.source is PeerSource.LEDGER:
            return self._ledger < self._targets.ledger_active
        if self._count >= self._targets.active:
            return False
        if not peer.is_stranger:
            return True
        return self._strangers < self._targets.active // 2 and self._of_prefix[prefix(peer.address.ip)] < OF_PREFIX_MAX

    def leave(self, peer: KnownPeer) -> None:
        """Free the place of a stranger."""
        self._count -= 1
        self._strangers -= 1
        self._of_prefix[prefix(peer.address.ip)] -= 1

    def _add(self, peer: KnownPeer) -> None:
        self._ledger += peer.source is PeerSource.LEDGER
        self._count += peer.source is not PeerSource.LEDGER
        if peer.is_stranger:
            self._strangers += 1
            self._of_prefix[prefix(peer.address.ip)] += 1
