"""The messages that pass between this node and others: what they ask of us, and what they bring; with each peer its
provider, and one `Fetching` for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any

from msgspec import Struct, field

from router.core.link.machine import RemoteProtocolError
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from router.service import contract as c

from .. import notes
from ..holdings import Holdings
from ..mempool import Row
from ..messages.certificate import PoolId
from ..messages.fault import Rejected
from ..messages.signed_message import Encoding, SignedMessage
from ..protocols import message_submission as ms
from ..protocols.node_handshake import NodeData
from ..protocols.peer_session import PeerEvent, Side
from ..protocols.peer_sharing import PeerAddress
from ..stake.source import moment_of
from .connection import PeerConnection
from .fetching import AskBodies, AskIds, Fetching, PeerFault, peer_fault
from .hop_delay import HopDelay
from .provider import Provider, Spacings
from .rejections import PeerRejections
from .trail import PeerTrail


class PeerTerms(Struct, frozen=True):
    """How this node speaks to others. `listens_at`: where it is dialled, HOST:PORT by its doors; `version_1`: the peers
    to which version 1 alone is offered; `submissions`: the message submission of each version that is spoken."""

    data: NodeData
    encoding: Encoding
    pause_s: float
    listens_at: Mapping[str, str] = {}
    version_1: frozenset[PeerAddress] = frozenset()
    submissions: Mapping[int, ms.MessageSubmission] = field(default_factory=lambda: ms.VERSIONS)


class FromNode(Struct, frozen=True):
    """A message that a peer has brought, to be judged."""

    address: str
    message: SignedMessage


class PeerExchange:
    """The messages of all peers. `connections`: those on which both have agreed, by the peer's address. `brought`: what
    is to be judged, until it is taken from here. `spaced_out`: how many were not told to a peer before they expired;
    `accepted`, `accepted_bytes`: the messages of peers that were taken; `rejections`: those that were not."""

    def __init__(self, terms: PeerTerms, holdings: Holdings, connections: Mapping[str, PeerConnection]) -> None:
        self._encoding = terms.encoding
        self._holdings = holdings
        self._connections = connections
        self._spacings = Spacings(terms.pause_s)
        self.fetching = Fetching(holdings.mempool)
        self.trail = PeerTrail()
        self.brought: list[FromNode] = []
        self.spaced_out = 0
        self.hop_delay = HopDelay()
        self.accepted = self.accepted_bytes = 0
        self.rejections = PeerRejections()

    def __repr__(self) -> str:
        return f"<PeerExchange with {len(self._connections)} peers: {self.fetching!r}>"

    @property
    def full_duplex(self) -> int:
        """How many connections are fetched over by both sides."""
        return sum(one.fetches_from_us and key in self.fetching for key, one in self._connections.items())

    @property
    def hot_inbound(self) -> int:
        """How many nodes have begun message submission as the side that begins it: to ask, in version 1 to provide."""
        return sum(one.has_peer_begun for one in self._connections.values())

    @property
    def spacing_s(self) -> float:
        """How far apart two messages of one pool are announced to a peer; 0: there is no spacing."""
        return self._spacings.seconds

    def provider_for(self, connection: PeerConnection) -> Provider:
        """Return a provider that tells a peer all that is live, in its turn."""
        spacing = self._spacings.of(connection.key)
        return Provider(self._holdings.mempool, spacing, answers_none=connection.version == 2)

    def forget_spacings(self, now_s: float) -> None:
        self._spacings.forget(self._connections.keys(), now_s)

    def asked_by(self, connection: PeerConnection, message: ms.Message, now: c.Now) -> list[PeerEvent]:
        """Answer what a peer asks of us; raise `RemoteProtocolError`."""
        provider, moment = connection.provider, moment_of(now)
        assert provider is not None
        match message:
            case ms.MsgRequestSigIdsBlocking(acknowledged, most) | ms.MsgRequestSigIdsNonBlocking(acknowledged, most):
                blocks = isinstance(message, ms.MsgRequestSigIdsBlocking)
                found = provider.request_ids(blocks, acknowledged, most, moment)
                return [] if found is None else connection.announce(found, now.mono_s, has_waited=blocks)
            case ms.MsgRequestSigs(ids):
                given = self._holdings.relayed(provider.request_bodies(ids, moment), now.wall_s)
                for row, _ in given:
                    self.trail.was_taken(row.number, connection.key)
                return connection.say(Side.PROVIDER, ms.MsgReplySigs(tuple([wire for _, wire in given])), now.mono_s)
            case ms.MsgDone():
                connection.provider = self.provider_for(connection)
        return []

    def brought_by(self, connection: PeerConnection, message: ms.Message, now: c.Now) -> None:
        """Take what a peer answers; raise `RemoteProtocolError`."""
        key = connection.key
        match message:
            case ms.MsgReplySigIds(announced):
                self._peer_has(connection, self.fetching.announced(key, announced, now.mono_s), now.mono_s)
            case ms.MsgReplyNoSigIds():
                self.fetching.no_ids(key)
            case ms.MsgReplySigs(wires):
                messages = self.fetching.delivered(key, [self._read(wire) for wire in wires])
                self.brought += [FromNode(key, one) for one in messages]

    def _read(self, wire: bytes) -> SignedMessage:
        try:
            return self._encoding.read(wire)
        except Malformed as error:
            raise RemoteProtocolError(Reason.MALFORMED, str(error)) from None

    def _peer_has(self, connection: PeerConnection, numbers: list[int], now_s: float) -> None:
        """Record that a peer has announced these live messages."""
        if connection.provider is None:
            return
        for row in map(self._holdings.mempool.get, numbers):
            if row is not None:
                connection.provider.peer_has(row, now_s)
                self.trail.was_announced(row.number, connection.key)

    # -- turns ---------------------------------------------------------------------------------------------

    def turns(self, rows: Sequence[Row], now: c.Now) -> dict[int, dict[str, int]]:
        """Return the peers to which these live messages wait to be announced, each with the Unix second of its turn, by
        the messages' numbers."""
        moment, pools = moment_of(now), {row.pool for row in rows}
        found: dict[int, dict[str, int]] = {row.number: {} for row in rows}
        for key, connection in self._connections.items():
            if (provider := connection.provider) is not None:
                for number, at_s in [turn for pool in pools for turn in provider.turns(pool, moment).items()]:
                    found.setdefault(number, {})[key] = ceil(at_s)
        return found

    def waiting_turns(self, now: c.Now) -> dict[str, Any]:
        """Return how many peers wait for messages whose turn has not come, and which of them for most pools, with the
        number of these and of their messages."""
        moment, held = moment_of(now), dict[str, list[PoolId]]()
        for key, connection in self._connections.items():
            if connection.provider is not None and (pools := connection.provider.held_back(moment)):
                held[key] = pools
        found = {"spacing_s": self.spacing_s, "peers": len(held), "peer": "", "pools": 0, "messages": 0}
        if held:
            key = max(held, key=lambda one: len(held[one]))
            provider = self._connections[key].provider
            assert provider is not None
            found |= {"peer": key, "pools": len(held[key]), "messages": provider.count_untold(held[key])}
        return found

    # -- verdicts ------------------------------------------------------------------------------------------

    def taken(self, row: Row, now: c.Now, by: str) -> PeerConnection | None:
        """Record that a message is live here; return the peer that was the first to announce it, if any has."""
        holders, announced_s = self.fetching.taken(row.id)
        if holders or by:
            self.trail.begin(row.number, by, holders)
        for key in holders:
            if (provider := self._connections[key].provider) is not None:
                provider.peer_has(row, now.mono_s)
        if (giver := self._connections.get(by)) is not None:
            giver.accepted += 1
            self.accepted += 1
            self.accepted_bytes += row.size
            if announced_s < inf:
                self.hop_delay.add(now.mono_s - announced_s)
        first = self._connections[holders[0]] if holders else None
        if by and first is not None:
            first.firsts += 1
        return first

    def rejected(self, message: SignedMessage, by: str, rejected: Rejected) -> PeerConnection | None:
        """Record that a message of a peer was not taken; return its connection if that ends with it."""
        self.rejections.note(by, rejected.fault.reason.word)
        is_named = self._encoding.right_id(message) == message.id
        self.fetching.refused(message.id, by, rejected.fault, is_named=is_named)
        connection = self._connections.get(by)
        if connection is None or peer_fault(rejected.fault) is not PeerFault.DISCONNECT:
            return None
        connection.fault = connection.fault or rejected.text
        return connection

    def counts_of(self, key: str) -> tuple[int, dict[str, int]]:
        """Return how many ids a peer has announced, and by reason how many of its address's messages were not taken."""
        return self.fetching.counts(key)[0], self.rejections.of(key)

    def expired(self, rows: list[Row], now_s: float) -> Iterator[c.Deed]:
        """Forget messages that have expired; yield the events of those that a peer was not told for their pool's
        spacing."""
        self.trail.forget([row.number for row in rows])
        for connection in self._connections.values():
            if connection.provider is not None:
                spaced = connection.provider.expired(rows, now_s)
                self.spaced_out += len(spaced)
                yield from notes.spaced_out(spaced, connection.key)


def request_of(ask: AskIds | AskBodies) -> ms.Message:
    """Return the message that makes a request."""
    if isinstance(ask, AskBodies):
        return ms.MsgRequestSigs(ask.ids)
    kind = ms.MsgRequestSigIdsBlocking if ask.blocking else ms.MsgRequestSigIdsNonBlocking
    return kind(ask.acknowledged, ask.most)
