"""The relays of a ledger peer snapshot: which of them are known, and how each stands, so that an operator sees why a
relay is not dialled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from router.service import contract as c

from ..protocols.peer_sharing import PeerAddress
from .book import PeerBook
from .hot_places import Targets
from .known import PeerSource, PeerState, is_public


class RelayStanding(StrEnum):
    """How a relay stands. Those from `UNRESOLVED` on were left out when the snapshot was read."""

    CONNECTED = "connected"
    DIALLING = "dialling"
    FAILED = "failed"
    GIVEN_UP = "given-up"
    WAITING = "waiting"
    NOT_DRAWN = "not-drawn"
    PRIVATE = "private"
    UNRESOLVED = "unresolved"
    NOT_LOOKED_UP = "not-looked-up"
    OWN = "own"
    BEYOND = "beyond"
    UNREADABLE = "unreadable"


PHRASES = {
    RelayStanding.CONNECTED: "connected",
    RelayStanding.DIALLING: "being dialled",
    RelayStanding.FAILED: "not reached, dialled again later",
    RelayStanding.GIVEN_UP: "not reached three times, left for ten minutes",
    RelayStanding.WAITING: "known, not dialled yet",
    RelayStanding.NOT_DRAWN: "not drawn by lot yet",
    RelayStanding.PRIVATE: "not dialled: the address is not public",
    RelayStanding.UNRESOLVED: "not dialled: no address is known for the name",
    RelayStanding.NOT_LOOKED_UP: "not dialled: too many names to look up",
    RelayStanding.OWN: "not dialled: this node itself",
    RelayStanding.BEYOND: "not dialled: beyond the most that are used",
    RelayStanding.UNREADABLE: "not dialled: no address and port can be read",
}
"""What operators read of each standing, behind a number of relays or the name of one."""


def counts_of(standings: Mapping[str, int]) -> list[str]:
    """Return what operators read of numbers of relays by their standing, as `router dmq status` answers them."""
    return [f"{count:,} {PHRASES[RelayStanding(word)]}" for word, count in standings.items()]


class LedgerRelays:
    """The relays, as addresses, beside the book in which some of them are known."""

    def __init__(self, book: PeerBook, targets: Targets, chance: c.Chance) -> None:
        self._book = book
        self._targets = targets
        self._chance = chance
        self._addresses: tuple[PeerAddress, ...] = ()
        self._public: dict[PeerAddress, None] = {}

    def __repr__(self) -> str:
        return f"<LedgerRelays: {len(self._addresses)}>"

    def set(self, addresses: Iterable[PeerAddress]) -> None:
        """Take these in the place of earlier ones."""
        self._addresses = tuple(dict.fromkeys(addresses))
        self._public = dict.fromkeys(filter(is_public, self._addresses))

    def draw(self, now_s: float) -> bool:
        """Learn some by chance until as many are known as the targets say: few of those that a ledger names may run a
        node, and the others are forgotten, as are those that it names no more. Return whether some are lacking."""
        for peer in self._book.of(PeerState.COLD):
            if peer.source is PeerSource.LEDGER and peer.address not in self._public:
                self._book.drop(peer)
        if not self._public:
            return False
        room = self._targets.ledger_known - sum(peer.source is PeerSource.LEDGER for peer in self._book.peers)
        if room <= 0:
            return False
        fresh = [one for one in self._public if one not in self._book and not self._book.rests(one, now_s)]
        for address in self._chance.sample(fresh, min(len(fresh), room)):
            self._book.learn(address, PeerSource.LEDGER)
        return len(fresh) < room

    def standings(self, now_s: float) -> Iterator[tuple[PeerAddress, RelayStanding]]:
        """Yield each relay with how it stands."""
        for address in self._addresses:
            yield address, self._standing(address, now_s)

    def _standing(self, address: PeerAddress, now_s: float) -> RelayStanding:
        peer = self._book.get(address)
        if peer is None:
            if not is_public(address):
                return RelayStanding.PRIVATE
            return RelayStanding.GIVEN_UP if self._book.rests(address, now_s) else RelayStanding.NOT_DRAWN
        if peer.is_connected or peer.state is PeerState.CLOSING:
            return RelayStanding.CONNECTED
        if peer.state is PeerState.DIALLING:
            return RelayStanding.DIALLING
        return RelayStanding.FAILED if peer.failures else RelayStanding.WAITING
