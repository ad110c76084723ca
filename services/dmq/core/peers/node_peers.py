"""The part of a DMQ node between its rules and `Peers`: the topology, admission, and the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from router.service import contract as c

from ..admission import Admission, AdmissionVerdict, FromPeer
from ..holdings import Holdings
from ..mempool import Row
from ..messages.fault import Fault, Rejected
from ..messages.signed_message import SignedMessage
from ..stake.source import moment_of
from ..turned_away import TurnedAway
from .away import CAUSE_CHARS_MAX, NAME_CHARS_MAX, AwayPeer, as_row
from .ledger import RelayStanding
from .peers import DOORS, Peers
from .topology_source import TAG, TopologySource

CAUSES_SHOWN = 5
"""Most causes for which connections have ended, or did not come about, that `status` names, and most nodes that are
away."""


class NodePeers:
    """The other nodes of a DMQ node."""

    def __init__(
        self, peers: Peers, topology: TopologySource, admission: Admission, holdings: Holdings, turned_away: TurnedAway
    ) -> None:
        self.peers = peers
        self.topology = topology
        self._admission = admission
        self._holdings = holdings
        self._turned_away = turned_away

    def __repr__(self) -> str:
        return f"<NodePeers: {self.peers!r}, {self.topology!r}>"

    @property
    def due_s(self) -> float:
        return self.peers.due_s

    def hears(self, heard: c.Heard) -> bool:
        """Whether this is about other nodes."""
        if isinstance(heard, c.Opened | c.Came | c.ConnectionFailed):
            return heard.door in DOORS
        return isinstance(heard, c.Computed) and heard.tag == TAG

    def hear(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard:
            case c.Opened():
                self.peers.opened(heard, now)
            case c.Came():
                self.peers.came(heard, now)
            case c.ConnectionFailed():
                self.peers.failed(heard, now)
            case c.Computed():
                roots, deeds = self.topology.computed(heard, now)
                if roots is not None:
                    self.peers.set_roots(roots.groups, roots.ledger, is_edited=self.topology.is_edited)
                yield from deeds

    def judge(self, now: c.Now) -> Iterator[c.Deed]:
        """Judge what peers have brought; the signatures of what passes are verified with those of clients."""
        brought, self.peers.exchange.brought = self.peers.exchange.brought, []
        for one in brought:
            rejected = self._admission.judge(FromPeer(one.address), one.message, moment_of(now))
            if rejected is not None:
                yield from self._rejected(one.address, one.message, rejected, now)

    def decided(self, verdict: AdmissionVerdict, now: c.Now) -> Iterator[c.Deed]:
        """Take the verdict on a message that a peer has brought."""
        assert isinstance(verdict.source, FromPeer)
        if verdict.rejected is not None:
            yield from self._rejected(verdict.source.address, verdict.message, verdict.rejected, now)
        elif verdict.row is not None:
            self.peers.taken(verdict.row, now, verdict.source.address)

    def taken(self, row: Row, now: c.Now, by: str = "") -> None:
        """Record that a client has handed a message in, or that it came `by` the topic's group."""
        self.peers.taken(row, now, by)

    def expired(self, rows: list[Row], now: c.Now) -> Iterator[c.Deed]:
        """Forget messages that have expired; yield the events of those that a peer was not told for their pool's
        spacing."""
        yield from self.peers.exchange.expired(rows, now.mono_s)

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        yield from self.topology.due(now)
        for cause in self.peers.endings.take():
            self._turned_away.broken_off(cause)

    def settled(self, now: c.Now, *, may_pull: bool) -> Iterator[c.Deed]:
        if now.mono_s >= self.peers.due_s:
            yield from self.peers.due(now)
        yield from self.peers.settled(now, may_pull=may_pull)

    def away(self) -> list[dict[str, Any]]:
        """Return what `router dmq peers` shows of the nodes that the topology names and that are not connected, those
        for whose names no address is known first."""
        missing = [
            as_row(one.point[:NAME_CHARS_MAX], AwayPeer(since_s, one.cause[:CAUSE_CHARS_MAX]))
            for one, since_s in self.topology.missing()
        ]
        return [*missing, *self.peers.away()]

    def relays(self, now: c.Now) -> list[tuple[str, RelayStanding]]:
        """Return the relays of the ledger peer snapshot, by address or name, and how each stands."""
        unresolved = self.topology.roots.snapshot.unresolved
        return [
            *((str(address), standing) for address, standing in self.peers.ledger.standings(now.mono_s)),
            *((name, RelayStanding.UNRESOLVED) for name in unresolved),
        ]

    def _ledger(self, now: c.Now) -> dict[str, Any] | None:
        """Return what `router dmq status` shows of the relays of the ledger; None without a snapshot."""
        if not self.topology.snapshot:
            return None
        report = self.topology.roots.snapshot
        counts = Counter(standing for _, standing in self.relays(now))
        counts[RelayStanding.NOT_LOOKED_UP] = report.not_looked_up
        counts[RelayStanding.OWN], counts[RelayStanding.BEYOND] = report.own, report.beyond
        counts[RelayStanding.UNREADABLE] = report.unreadable
        standing = {one.value: counts[one] for one in RelayStanding if counts[one]}
        return {"snapshot": self.topology.snapshot, "relays": report.relays, "standing": standing}

    def as_status(self, now: c.Now) -> dict[str, Any]:
        """Return what `router dmq status` shows of other nodes."""
        connections, exchange = self.peers.as_status(), self.peers.exchange
        states = [one["state"] for one in connections]
        agreed = [one for one in connections if one["version"]]
        ways = [one["direction"] for one in agreed]
        causes = self.peers.endings.counts.most_common(CAUSES_SHOWN)
        return {
            "hot": states.count("hot"),
            "warm": states.count("warm"),
            "cold": self.peers.cold,
            "in_handshake": states.count("handshake"),
            "inbound": ways.count("inbound"),
            "outbound": ways.count("outbound"),
            "duplex": sum(one["is_duplex"] for one in agreed),
            "full_duplex": exchange.full_duplex,
            "hot_inbound": exchange.hot_inbound,
            "fetch_from_us": self.peers.fetch_from_us,
            "requests": asdict(exchange.fetching.made),
            "duplicates": exchange.fetching.duplicates,
            "spaced_out": exchange.spaced_out,
            "waiting_turns": exchange.waiting_turns(now),
            "hop_delay": exchange.hop_delay.as_status(),
            "accepted": exchange.accepted,
            "accepted_bytes": exchange.accepted_bytes,
            "rejections": dict(exchange.rejections.total),
            **self.peers.traffic(),
            "listens_at": sorted(self.peers.listens_at),
            "doors": self.peers.crowds.as_status(),
            "initiator_only": self.peers.is_initiator_only,
            "topology": self.topology.file,
            "ledger": self._ledger(now),
            "missing": [one._asdict() for one, _ in self.topology.missing()][:CAUSES_SHOWN],
            "unknown_keys": self.topology.roots.unknown,
            "problem": self.topology.problem,
            "only_itself": self.topology.only_itself,
            "away": self.peers.needed()[:CAUSES_SHOWN],
            "causes": dict(causes),
        }

    def _rejected(self, address: str, message: SignedMessage, rejected: Rejected, now: c.Now) -> Iterator[c.Deed]:
        self.peers.rejected(message, address, rejected)
        if rejected.fault is Fault.DUPLICATE:  # two have brought it at once
            return
        yield from self._turned_away.rejected(message, rejected, now, address)
