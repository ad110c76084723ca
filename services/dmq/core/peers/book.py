"""The peers that are known, by address and by state; what keeps them from being dialled too soon, and what is told."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from math import inf
from typing import TypeVar

from router.service import contract as c

from ..protocols.peer_sharing import PeerAddress
from .acts import Cool, Heat
from .hot_places import OF_PREFIX_MAX
from .known import KnownPeer, PeerSource, PeerState, RootGroup, is_public, prefix

Key = TypeVar("Key")
DIAL_S = 60.0
"""Least seconds between two dials to one host for which only strangers have given their word."""
RESTS_S = 600.0
"""Seconds for which an address is not dialled after it was forgotten, or left."""
RESTING_MAX = 2000
"""Most addresses that are remembered for that."""
STRANGERS_OF_PREFIX_MAX = 2 * OF_PREFIX_MAX
"""Most strangers of one place of the network that are known, beside those who are connected as they came."""
SHARED_MAX = 10
"""Most addresses that are shared at once."""
CHOICE_S = 823.0
"""For how long the same addresses are shared, so that nobody learns all by asking often."""


class PeerBook:
    """The peers, each once, whatever named it."""

    def __init__(self) -> None:
        self._peers: dict[PeerAddress, KnownPeer] = {}
        self._of_state: dict[PeerState, dict[PeerAddress, KnownPeer]] = {state: {} for state in PeerState}
        self._resting: OrderedDict[PeerAddress, float] = OrderedDict()
        self._hosts_s: OrderedDict[str, float] = OrderedDict()
        self._chosen: tuple[PeerAddress, ...] = ()
        self._chosen_until_s = -inf

    def __repr__(self) -> str:
        return ", ".join(f"{len(of)} {state.name.lower()}" for state, of in self._of_state.items())

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, address: PeerAddress) -> bool:
        return address in self._peers

    @property
    def peers(self) -> list[KnownPeer]:
        return list(self._peers.values())

    def get(self, address: PeerAddress) -> KnownPeer | None:
        return self._peers.get(address)

    def of(self, *states: PeerState) -> list[KnownPeer]:
        """Return the peers in these states."""
        return [peer for state in states for peer in self._of_state[state].values()]

    def count(self, state: PeerState) -> int:
        return len(self._of_state[state])

    @property
    def kept(self) -> int:
        """Return how many peers are known beyond those that have dialled in and may go as they came."""
        return sum(not peer.is_visitor for peer in self._peers.values())

    def strangers_by_prefix(self) -> Counter[str]:
        """Return how many strangers of each place of the network are kept."""
        kept = (peer for peer in self._peers.values() if peer.is_stranger and not peer.is_visitor)
        return Counter(prefix(peer.address.ip) for peer in kept)

    def keeps(self, visitor: KnownPeer, most: int) -> bool:
        """Whether the address of a peer that has dialled in is kept for a dial of ours, as if it had been shared; so
        nobody fills the book by dialling in again and again."""
        listens = visitor.agreement is not None and visitor.agreement.is_duplex and is_public(visitor.address)
        if not listens or self.kept >= most:
            return False
        return self.strangers_by_prefix()[prefix(visitor.address.ip)] < STRANGERS_OF_PREFIX_MAX

    def learn(self, address: PeerAddress, source: PeerSource) -> KnownPeer:
        """Return the peer at an address, known from now on; the best of its sources counts."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = self._of_state[PeerState.COLD][address] = KnownPeer(address, source)
        elif source < peer.source:
            peer.source = source
        return peer

    def name_roots(self, groups: Iterable[RootGroup], own: Collection[PeerAddress]) -> list[PeerAddress]:
        """Learn the roots of a topology, but for `own` addresses; return those that it names no more, which become
        strangers."""
        named: dict[PeerAddress, RootGroup] = {}
        for group in groups:
            for address in group.addresses:
                named.setdefault(address, group)
        former = [peer for peer in self._peers.values() if peer.group is not None and peer.address not in named]
        for peer in former:
            peer.group, peer.source = None, PeerSource.SHARED
        for address, group in named.items():
            if address in own:
                continue
            source = PeerSource.LOCAL if group.is_local else PeerSource.PUBLIC
            peer = self.learn(address, source)
            if peer.group is None:
                peer.dial_s = -inf
            peer.group, peer.source = group, source
        return [peer.address for peer in former]

    def move(self, peer: KnownPeer, state: PeerState, now_s: float) -> None:
        """Let a peer be in a state."""
        del self._of_state[peer.state][peer.address]
        self._of_state[state][peer.address] = peer
        peer.state, peer.since_s = state, now_s

    def heat(self, peer: KnownPeer, now_s: float) -> Heat:
        self.move(peer, PeerState.HOT, now_s)
        peer.was_hot = True
        return Heat(peer.address)

    def cool(self, peer: KnownPeer, now_s: float) -> Cool:
        self.move(peer, PeerState.WARM, now_s)
        peer.rests_s = now_s + RESTS_S
        return Cool(peer.address)

    def drop(self, peer: KnownPeer) -> None:
        """Know a peer no more."""
        del self._peers[peer.address]
        del self._of_state[peer.state][peer.address]

    def forget(self, peer: KnownPeer, now_s: float) -> None:
        """Know a peer no more, and do not learn of it again for a while."""
        self.drop(peer)
        _put(self._resting, peer.address, now_s + RESTS_S)

    # -- dials -----------------------------------------------------------------------------------------------

    def rests(self, address: PeerAddress, now_s: float) -> bool:
        """Whether an address was forgotten just before."""
        return self._resting.get(address, -inf) > now_s

    def dialled(self, peer: KnownPeer, now_s: float) -> None:
        """Record a dial."""
        if peer.is_stranger:
            _put(self._hosts_s, peer.address.ip, now_s)
        self.move(peer, PeerState.DIALLING, now_s)

    def dial_s(self, peer: KnownPeer) -> float:
        """Return from when on a peer may be dialled; infinity: never."""
        if peer.group is None and not is_public(peer.address):
            return inf
        if not peer.is_stranger:
            return peer.dial_s
        return max(peer.dial_s, self._hosts_s.get(peer.address.ip, -inf) + DIAL_S)

    def ripe(self, peers: Iterable[KnownPeer], now_s: float) -> tuple[list[KnownPeer], float]:
        """Return those that may be dialled now, and when the next of the others may be."""
        found, next_s = [], inf
        for peer in peers:
            from_s = self.dial_s(peer)
            if from_s <= now_s:
                found.append(peer)
            else:
                next_s = min(next_s, from_s)
        return found, next_s

    # -- sharing -----------------------------------------------------------------------------------------------

    def shared(self, chance: c.Chance, now_s: float) -> list[PeerAddress]:
        """Return the addresses that are shared now, one more than at once, as far as they are still known."""
        if now_s >= self._chosen_until_s:
            known = [peer.address for peer in self._peers.values() if _is_shareable(peer)]
            self._chosen = tuple(chance.sample(known, min(len(known), SHARED_MAX + 1)))
            self._chosen_until_s = now_s + CHOICE_S
        return [one for one in self._chosen if one in self._peers]


def _is_shareable(peer: KnownPeer) -> bool:
    if not is_public(peer.address) or not peer.has_answered or peer.failures:
        return False
    return peer.group is None or peer.group.advertise or not peer.group.is_local


def _put(times: OrderedDict[Key, float], key: Key, at_s: float) -> None:
    """Keep a time; the oldest ones go when there are too many."""
    times[key] = at_s
    times.move_to_end(key)
    if len(times) > RESTING_MAX:
        times.popitem(last=False)
