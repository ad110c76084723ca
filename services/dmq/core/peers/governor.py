"""The governor: which peers a node knows, is connected to, and pulls from (docs/dmq.md, "Peers").

    cold   known, not connected      warm   connected: keep-alive, peer sharing      hot   pulled from

Roots of the topology come first; each group of local roots has numbers of its own. Strangers, whose addresses were
shared or who have dialled in, have at most half of the places, and two of one place of the network; so nobody fills a
node's view of the network by having many addresses. Who has dialled in over a connection that runs both ways may be hot
at once; who only dials, never.

`decide` returns what is to be done, and reckons with its being done; what came of it is told by `opened`, `failed` and
`closed`. One record for each address, whatever named it, has one budget of dials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from router.core.service.back_off import BackOff
from router.service import contract as c

from ..protocols.node_handshake import Agreement
from ..protocols.peer_sharing import PeerAddress
from .acts import Act, AskPeers, Dial, Hang
from .book import RESTS_S, SHARED_MAX, STRANGERS_OF_PREFIX_MAX, PeerBook
from .hot_places import HotPlaces, Targets
from .known import KnownPeer, PeerSource, PeerState, RootGroup, is_public, prefix
from .ledger import LedgerRelays
from .struck_roots import StruckRoots
from .trials import Trials, latest_first

DIALS_MAX = 8
"""Most dials under way."""
FAILURES_MAX = 3
"""After so many failed dials in a row a stranger is forgotten, or a relay of the ledger, for another one."""
BACK_OFF = BackOff(10.0, 160.0, calm_s=120.0)
ASK_S = 900.0
ASKED_MAX = 2
"""Seconds between two questions for addresses to one peer, and most such questions under way."""
CHURN_SHARE = 5
"""One in so many of the hot, connected and known strangers gives way at a churn, at least one."""


class Governor:
    """Decides on peers. `own`: the addresses at which this node listens; `shares`: whether peers are asked for others,
    and told some; `dials_out`: False if this node dials nobody."""

    def __init__(
        self, targets: Targets, chance: c.Chance, own: Iterable[PeerAddress] = (), *, shares: bool = True
    ) -> None:
        self._targets = targets
        self._chance = chance
        self._own = frozenset(own)
        self._shares = shares
        self._groups: tuple[RootGroup, ...] = ()
        self._book = PeerBook()
        self.ledger = LedgerRelays(self._book, targets, chance)
        self._struck = StruckRoots(self._book)
        self._churn_s = inf
        self._trials = Trials(self._book, chance)
        self.due_s = -inf
        """When `decide` has something to do, if nothing happens until then."""

    def __repr__(self) -> str:
        return f"<Governor: {self._book!r}>"

    @property
    def peers(self) -> list[KnownPeer]:
        """Return all that are known."""
        return self._book.peers

    def get(self, address: PeerAddress) -> KnownPeer | None:
        return self._book.get(address)

    def of_state(self, state: PeerState) -> list[KnownPeer]:
        return self._book.of(state)

    # -- what is learned -----------------------------------------------------------------------------------

    def set_roots(self, groups: Iterable[RootGroup], *, is_edited: bool = False) -> None:
        """Take the roots of the topology in the place of earlier ones; what stays in it is not cut. A root that is in
        it no more becomes a stranger; if `is_edited`, since somebody has struck it out, it is left."""
        self._groups = tuple(groups)
        self.due_s = -inf
        struck = self._book.name_roots(self._groups, self._own)
        if is_edited:
            self._struck.add(struck)

    def set_ledger(self, addresses: Iterable[PeerAddress]) -> None:
        """Take the relays of the ledger in the place of earlier ones; some of them are learned at the next decision."""
        self.ledger.set(one for one in addresses if one not in self._own)
        self.due_s = -inf

    def told(self, address: PeerAddress, shared: Iterable[PeerAddress], now_s: float) -> None:
        """Take the addresses that a peer has shared."""
        self.due_s = -inf
        if (teller := self._book.get(address)) is not None:
            teller.is_asked = False
        of_prefix = self._book.strangers_by_prefix()
        for one in shared:
            if self._is_welcome(one, now_s) and of_prefix[prefix(one.ip)] < STRANGERS_OF_PREFIX_MAX:
                of_prefix[prefix(one.ip)] += 1
                self._book.learn(one, PeerSource.SHARED)

    def was_first(self, address: PeerAddress, now_s: float) -> None:
        """Count that the peer was the first to announce a message that was taken."""
        if (peer := self._book.get(address)) is not None:
            peer.was_first(now_s)

    def _is_welcome(self, address: PeerAddress, now_s: float) -> bool:
        if address in self._book or address in self._own or not is_public(address):
            return False
        return not self._book.rests(address, now_s) and self._book.kept < self._targets.known

    # -- what has happened ---------------------------------------------------------------------------------

    def opened(self, address: PeerAddress, agreement: Agreement, now_s: float, *, is_inbound: bool) -> bool:
        """Record a connection on which both have agreed; return False if it is one too many with this peer."""
        self.due_s = -inf
        peer = self._book.get(address) or self._book.learn(address, PeerSource.INBOUND)
        if peer.is_connected or peer.state is PeerState.CLOSING:
            return False
        self._book.move(peer, PeerState.WARM, now_s)
        peer.agreement, peer.is_inbound, peer.was_hot = agreement, is_inbound, False
        if not is_inbound:
            peer.has_answered = True
        return True

    def failed(self, address: PeerAddress, now_s: float) -> None:
        """Record that a dial has failed, or that the peer did not agree."""
        peer = self._book.get(address)
        if peer is not None and peer.state is PeerState.DIALLING:
            self._count_failure(peer, now_s)

    def closed(self, address: PeerAddress, now_s: float) -> None:
        """Record the end of a connection. One that did not last counts as a failed dial."""
        peer = self._book.get(address)
        if peer is None or peer.state <= PeerState.DIALLING:
            return
        is_ours = peer.state is PeerState.CLOSING
        if peer.is_visitor and not self._book.keeps(peer, self._targets.known):
            self._book.drop(peer)
            return
        if not is_ours and now_s - peer.since_s < BACK_OFF.calm_s:
            self._count_failure(peer, now_s)
            return
        peer.failures = 0
        self._cold(peer, now_s)
        rests = is_ours and peer.source is not PeerSource.LOCAL  # which was struck out, and is named again
        peer.dial_s = now_s + (RESTS_S if rests else BACK_OFF.pause_s(1, self._chance.random()))

    def _count_failure(self, peer: KnownPeer, now_s: float) -> None:
        self._cold(peer, now_s)
        peer.failures += 1
        peer.dial_s = now_s + BACK_OFF.pause_s(peer.failures, self._chance.random())
        if (peer.is_stranger or peer.source is PeerSource.LEDGER) and peer.failures >= FAILURES_MAX:
            self._book.forget(peer, now_s)

    def _cold(self, peer: KnownPeer, now_s: float) -> None:
        self.due_s = -inf
        self._book.move(peer, PeerState.COLD, now_s)
        peer.agreement, peer.is_asked, peer.is_inbound = None, False, False

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(self, now_s: float) -> list[Act]:
        """Return what is to be done now."""
        if self._churn_s == inf:
            self._churn_s = now_s + self._targets.churn_s * (1 + self._chance.random()) / 2
        self.due_s = self._churn_s
        acts = [*self._struck.left(now_s), *(self._churned(now_s) if now_s >= self._churn_s else ())]
        if self.ledger.draw(now_s):
            self.due_s = min(self.due_s, now_s + RESTS_S)  # those that were forgotten may be learned again
        acts += self._dials(now_s)
        acts += self._heated(now_s)
        acts += self._too_many(now_s)
        acts += self._questions(now_s)
        return acts

    def _dials(self, now_s: float) -> Iterator[Act]:
        room = DIALS_MAX - self._book.count(PeerState.DIALLING)
        for peer in self._wanted(now_s) if room > 0 else ():
            self._book.dialled(peer, now_s)
            yield Dial(peer.address, peer.group is not None and peer.group.initiator_only)
            room -= 1
            if room <= 0:
                return

    def _wanted(self, now_s: float) -> Iterator[KnownPeer]:
        """Yield the peers that are to be dialled now, in order."""
        for group in self._groups:
            if group.is_local and not group.behind_firewall:
                yield from self._due_for_dial(self._of_group(group), now_s)
        targets = self._targets
        held = self._book.of(PeerState.DIALLING, PeerState.WARM, PeerState.HOT)
        ours = [peer for peer in held if not (peer.is_inbound and peer.state is PeerState.WARM)]
        ledger = sum(peer.source is PeerSource.LEDGER for peer in ours)
        free = targets.established - len(ours) + ledger
        strangers = min(free, targets.established // 2 - sum(peer.is_stranger for peer in ours))
        rooms = {PeerSource.LOCAL: 0, PeerSource.LEDGER: targets.ledger_established - ledger}
        rooms |= {PeerSource.PUBLIC: free, PeerSource.SHARED: strangers, PeerSource.INBOUND: strangers}
        cold = [peer for peer in self._book.of(PeerState.COLD) if rooms[peer.source] > 0]
        for peer in self._shuffled(self._due_for_dial(cold, now_s)):
            if peer.source is PeerSource.LEDGER:
                ledger += 1
                is_wanted = ledger <= targets.ledger_established
            else:
                free -= 1
                strangers -= peer.is_stranger
                is_wanted = free >= 0 and not (peer.is_stranger and strangers < 0)
            # Another one of that host may have been dialled just now.
            if is_wanted and self._book.dial_s(peer) <= now_s:
                yield peer

    def _due_for_dial(self, peers: Iterable[KnownPeer], now_s: float) -> list[KnownPeer]:
        found, next_s = self._book.ripe(peers, now_s)
        self.due_s = min(self.due_s, next_s)
        return found

    def _of_group(self, group: RootGroup) -> Iterator[KnownPeer]:
        members = self._members(group)
        lacking = group.warm - sum(one.state not in (PeerState.COLD, PeerState.CLOSING) for one in members)
        cold = [one for one in members if one.state is PeerState.COLD]
        yield from sorted(cold, key=lambda one: one.dial_s)[: max(0, lacking)]

    def _members(self, group: RootGroup) -> list[KnownPeer]:
        return [peer for one in group.addresses if (peer := self._book.get(one)) is not None]

    def _heated(self, now_s: float) -> Iterator[Act]:
        """Yield which warm peers become hot: local roots up to their group's number, then others up to the targets."""
        for group in self._groups:
            if group.is_local:
                members = self._members(group)
                lacking = group.hot - sum(one.state is PeerState.HOT for one in members)
                warm = [one for one in members if one.state is PeerState.WARM and one.may_be_hot]
                for peer in warm[: max(0, lacking)]:
                    yield self._book.heat(peer, now_s)
        places = HotPlaces(self.of_state(PeerState.HOT), self._targets)
        ready = []
        for peer in self._book.of(PeerState.WARM):
            if peer.rests_s > now_s:
                self.due_s = min(self.due_s, peer.rests_s)
            elif peer.may_be_hot and places.has_for(peer):
                ready.append(peer)
        for peer in self._shuffled(ready):
            if places.take(peer):
                yield self._book.heat(peer, now_s)
        yield from self._trials.exchanged(places, now_s)
        self.due_s = min(self.due_s, self._trials.due_s)

    def _too_many(self, now_s: float) -> Iterator[Act]:
        """Yield what brings the numbers down to targets that have become smaller."""
        hot = [
            peer for peer in self.of_state(PeerState.HOT) if peer.source not in (PeerSource.LOCAL, PeerSource.LEDGER)
        ]
        roots = sum(peer.source is PeerSource.LOCAL for peer in self.of_state(PeerState.HOT))
        spare = len(hot) + roots - max(self._targets.active, roots)
        for peer in latest_first(hot, self._chance, now_s)[:spare] if spare > 0 else ():
            yield self._book.cool(peer, now_s)

    def _churned(self, now_s: float) -> Iterator[Act]:
        """Yield what makes room for others: the hot peers that announce latest are pulled from no more, and some that
        we have dialled are left; some that are only known are forgotten."""
        self._churn_s = now_s + self._targets.churn_s * (0.9 + self._chance.random() / 5)
        self.due_s = min(self.due_s, self._churn_s)
        hot = [peer for peer in self.of_state(PeerState.HOT) if peer.source is not PeerSource.LOCAL]
        warm = [peer for peer in self.of_state(PeerState.WARM) if peer.source is not PeerSource.LOCAL]
        heirs = sum(peer.may_be_hot and peer.rests_s <= now_s for peer in warm)
        for peer in latest_first(hot, self._chance, now_s)[: min(_share(hot), heirs)]:
            yield self._book.cool(peer, now_s)
        dialled = [peer for peer in warm if not peer.is_inbound]
        for peer in self._chance.sample(dialled, _share(dialled)):
            self._book.move(peer, PeerState.CLOSING, now_s)
            yield Hang(peer.address, "another peer takes its place")
        cold = [peer for peer in self.of_state(PeerState.COLD) if peer.is_stranger]
        if self._book.kept >= self._targets.known - SHARED_MAX:
            for peer in self._chance.sample(cold, _share(cold)):
                self._book.forget(peer, now_s)

    def _questions(self, now_s: float) -> Iterator[Act]:
        """Yield which peers are asked for addresses."""
        if not self._shares or self._book.kept >= self._targets.known:
            return
        connected = self._book.of(PeerState.WARM, PeerState.HOT)
        room = ASKED_MAX - sum(peer.is_asked for peer in connected)
        sharing = [one for one in connected if one.agreement is not None and one.agreement.shares_peers]
        ready = [one for one in sharing if not one.is_asked and one.asked_s + ASK_S <= now_s]
        later = (one.asked_s + ASK_S for one in sharing if one.asked_s + ASK_S > now_s)
        self.due_s = min(self.due_s, min(later, default=inf))
        for peer in self._shuffled(ready)[: max(0, room)]:
            peer.asked_s, peer.is_asked = now_s, True
            yield AskPeers(peer.address, SHARED_MAX)

    def _shuffled(self, peers: list[KnownPeer]) -> list[KnownPeer]:
        """Return them in random order, those of better sources first."""
        return sorted(self._chance.sample(peers, len(peers)), key=lambda one: one.source) if peers else []

    # -- peer sharing --------------------------------------------------------------------------------------

    def share(self, amount: int, asker: PeerAddress, now_s: float) -> tuple[PeerAddress, ...]:
        """Return addresses for a peer that asks: such that we have reached ourselves, and of roots those that may be
        advertised."""
        if not self._shares:
            return ()
        chosen = self._book.shared(self._chance, now_s)
        return tuple([one for one in chosen if one != asker][: min(amount, SHARED_MAX)])


def _share(of: list[KnownPeer]) -> int:
    return min(len(of), max(1, len(of) // CHURN_SHARE))
