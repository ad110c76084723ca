"""The other nodes: what their connections bring goes to the provider, the fetching, and the governor, and what these
decide is said there.

    PeerSession    bytes and messages of one connection        Fetching   what is fetched, and from whom
    Provider       what one peer is told and given             Governor   whom to know, to dial, and to pull from

A message that a peer has brought is judged like a client's (`Admission`), and announced to others when it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from math import inf
from typing import Any

from msgspec.structs import replace

from router.core.link.machine import Agency, RemoteProtocolError
from router.service import contract as c

from ..deadlines import Deadlines
from ..holdings import Holdings
from ..mempool import Row
from ..messages.fault import Rejected
from ..messages.signed_message import SignedMessage
from ..protocols import message_submission as ms
from ..protocols.peer_session import (
    PeerAgreed,
    PeerAnswered,
    PeerEvent,
    PeerRefused,
    PeerSaid,
    PeersAsked,
    PeerSession,
    PeersTold,
    Side,
)
from ..protocols.peer_sharing import PeerAddress
from ..stake.source import moment_of
from .acts import Act, AskPeers, Cool, Dial, Hang, Heat
from .away import PeersAway, as_row
from .connection import PeerConnection
from .crowd import DoorCrowds
from .endings import PeerEndings
from .exchange import PeerExchange, PeerTerms, request_of
from .governor import Governor
from .known import PeerState, RootGroup
from .pace import RelayPace

DIAL = "dial "
"""How the tag of a dial begins."""
DOORS = "peers", "peers6"
"""The doors of other nodes, for IPv4 and IPv6."""
FORGET_S = 60.0
"""Seconds between two times at which what is over is dropped."""
SAID_NO = "it does not agree"
CLOSED = "it has closed the connection"


class Peers:
    """The connections with other nodes. `exchange`: the messages that pass over them; `listens_at`: where others may
    dial this node, which only dials itself if `is_initiator_only`."""

    def __init__(self, terms: PeerTerms, holdings: Holdings, governor: Governor, chance: c.Chance) -> None:
        self._terms = terms
        self.is_initiator_only = terms.data.initiator_only
        self.listens_at = list(terms.listens_at.values())
        self._governor = governor
        self.ledger = governor.ledger
        self._chance = chance
        self._connections: dict[str, PeerConnection] = {}  # by the stream's name
        self._by_key: dict[str, PeerConnection] = {}  # agreed ones, by the peer's address
        self._changed: dict[PeerConnection, None] = {}
        self._deadlines: Deadlines[PeerConnection] = Deadlines()
        self._forget_s = -inf
        self._may_pull = False
        self._mempool = holdings.mempool
        self._told_to = 0  # the number of the last message of which peers that wait were told
        self.pace = RelayPace()
        self.endings = PeerEndings()
        self._away = PeersAway()
        self._past_bytes_in = self._past_bytes_out = 0  # of connections that have ended
        self.exchange = PeerExchange(terms, holdings, self._by_key)
        self._fetching = self.exchange.fetching
        self.crowds = DoorCrowds(self._connections, governor.get, terms.listens_at)

    def __repr__(self) -> str:
        return f"<Peers: {len(self._connections)} connections, {self._governor!r}>"

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def cold(self) -> int:
        """How many nodes are known, and not connected."""
        return len(self._governor.of_state(PeerState.COLD))

    @property
    def fetch_from_us(self) -> int:
        """How many nodes have asked this one for ids over their present connection."""
        return sum(one.fetches_from_us for one in self._by_key.values())

    @property
    def due_s(self) -> float:
        """When `due` has something to do, if nothing comes until then."""
        fetching_s = self._fetching.due_s if self._may_pull else inf
        return min(self._deadlines.next_s, self._governor.due_s, fetching_s)

    def set_roots(self, groups: Iterable[RootGroup], ledger: Iterable[PeerAddress], *, is_edited: bool) -> None:
        groups = tuple(groups)
        self._governor.set_roots(groups, is_edited=is_edited)
        self._governor.set_ledger(ledger)
        self._away.keep({address for group in groups for address in group.addresses})
        self._changed |= dict.fromkeys(self._by_key.values())  # one of them may be named now

    # -- connections ---------------------------------------------------------------------------------------

    def opened(self, heard: c.Opened, now: c.Now) -> None:
        """Take a stream that was accepted, or that we have dialled."""
        dialled = heard.tag.removeprefix(DIAL) if heard.tag.startswith(DIAL) else ""
        address = address_of(dialled or heard.address)
        if address is None:  # it is gone already
            return
        session = self._session(bool(dialled), address, now)
        connection = self._connections[heard.peer] = PeerConnection(heard.door, heard.peer, address, session, now)
        self._changed[connection] = None

    def _session(self, we_dial: bool, address: PeerAddress, now: c.Now) -> PeerSession:
        known = self._terms.submissions
        versions = {1: known[1]} if we_dial and address in self._terms.version_1 else known
        we, data = Agency.INITIATOR if we_dial else Agency.RESPONDER, self._terms.data
        peer = self._governor.get(address)
        if we_dial and peer is not None and peer.group is not None and peer.group.initiator_only:
            data = replace(data, initiator_only=True)
        return PeerSession(we, data, now.mono_s, versions, self._chance.randrange(1 << 16))

    def failed(self, heard: c.ConnectionFailed, now: c.Now) -> None:
        """Record that a dial has failed."""
        address = address_of(heard.tag.removeprefix(DIAL))
        if address is not None:
            self._governor.failed(address, now.mono_s)
            if not any(one.address == address for one in self._connections.values()):  # it has dialled meanwhile
                self.endings.note(f"{address} cannot be reached: {heard.text}")
                self._is_away(address, f"it cannot be reached: {heard.text}", now)

    def _is_away(self, address: PeerAddress, cause: str, now: c.Now) -> None:
        """Record that a peer is not connected, if the topology names it."""
        peer = self._governor.get(address)
        if peer is not None and peer.group is not None:
            self._away.note(address, cause, now.wall_s)

    def came(self, heard: c.Came, now: c.Now) -> None:
        """Take bytes of a peer, or the end of its stream."""
        connection = self._connections.get(heard.peer)
        if connection is None:
            return
        if not heard.data:
            self._closed(connection, now)
        elif not connection.fault:
            self._changed[connection] = None
            self._handle(connection, connection.hear(heard.data, now.mono_s), now)

    def _closed(self, connection: PeerConnection, now: c.Now) -> None:
        del self._connections[connection.name]
        self._past_bytes_in += connection.bytes_in
        self._past_bytes_out += connection.bytes_out
        self._changed.pop(connection, None)
        self._deadlines.set(connection, inf)
        if connection.fault:
            self.endings.note(f"{connection.address}: {connection.fault}")
        if self._by_key.get(connection.key) is connection:
            del self._by_key[connection.key]
            self._fetching.end(connection.key)
            self._governor.closed(connection.address, now.mono_s)
        elif connection.session.we_dialled:
            self._governor.failed(connection.address, now.mono_s)
        if not connection.is_left and connection.key not in self._by_key:
            self._is_away(connection.address, connection.fault or CLOSED, now)

    # -- what peers say ------------------------------------------------------------------------------------

    def _handle(self, connection: PeerConnection, events: list[PeerEvent], now: c.Now) -> None:
        """Handle what a peer has said, and what waited behind that."""
        while events and not connection.is_left:
            try:
                events = [*self._handled(connection, events[0], now), *events[1:]]
            except RemoteProtocolError as error:
                events = connection.break_off(error)

    def _handled(self, connection: PeerConnection, event: PeerEvent, now: c.Now) -> list[PeerEvent]:
        match event:
            case PeerAgreed():
                self._agreed(connection, event, now)
            case PeerRefused(text):
                connection.fault = connection.fault or (f"{SAID_NO}: {text}" if text else "")
            case PeerSaid(Side.PROVIDER, message):
                return self.exchange.asked_by(connection, message, now)
            case PeerSaid(_, message):
                self._brought(connection, message, now)
            case PeersAsked(amount):
                shared = self._governor.share(amount, connection.address, now.mono_s)
                return connection.session.tell_peers(shared, now.mono_s)
            case PeersTold(addresses):
                self._governor.told(connection.address, addresses, now.mono_s)
            case PeerAnswered(round_trip_s):
                connection.round_trip_s = round_trip_s
        return []

    def _agreed(self, connection: PeerConnection, event: PeerAgreed, now: c.Now) -> None:
        is_inbound = not connection.session.we_dialled
        is_new = self._governor.opened(connection.address, event.agreement, now.mono_s, is_inbound=is_inbound)
        if not is_new or connection.key in self._by_key:
            connection.is_left = True
            return
        self._by_key[connection.key] = connection
        self._away.agreed(connection.address)
        connection.provider = self.exchange.provider_for(connection)
        connection.has_begun = connection.version == 2

    def _brought(self, connection: PeerConnection, message: ms.Message, now: c.Now) -> None:
        """Take what a peer answers, or that it begins or ends; raise `RemoteProtocolError`."""
        match message:
            case ms.MsgInit():
                connection.has_begun = True
                self._pull_if_hot(connection)
            case ms.MsgDone():
                connection.has_begun = False
                self._fetching.end(connection.key)
            case _:
                if isinstance(message, ms.MsgReplySigs):
                    self.pace.answered(self._fetching.waited_s(connection.key, now.mono_s), now.mono_s)
                self.exchange.brought_by(connection, message, now)

    # -- verdicts ------------------------------------------------------------------------------------------

    def taken(self, row: Row, now: c.Now, by: str = "") -> None:
        """Record that a message is live here, whoever brought it; `by`: the peer that did."""
        self.pace.took(now.mono_s)
        first = self.exchange.taken(row, now, by)
        if by and first is not None:
            self._governor.was_first(first.address, now.mono_s)

    def rejected(self, message: SignedMessage, by: str, rejected: Rejected) -> None:
        """Record that a message of a peer was not taken."""
        if (connection := self.exchange.rejected(message, by, rejected)) is not None:
            self._changed[connection] = None

    # -- what is done --------------------------------------------------------------------------------------

    def due(self, now: c.Now) -> Iterator[c.Deed]:
        """Say and close what time demands, and dial whom the governor wants."""
        for connection in self._deadlines.due(now.mono_s):
            self._changed[connection] = None
            self._handle(connection, connection.go_on(now.mono_s), now)
            connection.fault = connection.fault or connection.session.overdue(now.mono_s)
        if now.mono_s >= self._governor.due_s:
            for act in self._governor.decide(now.mono_s):
                yield from self._carry_out(act, now)
        if now.mono_s >= self._forget_s:
            self._forget_s = now.mono_s + FORGET_S
            self.exchange.forget_spacings(now.mono_s)

    def _carry_out(self, act: Act, now: c.Now) -> Iterator[c.Deed]:
        if isinstance(act, Dial):
            door = DOORS[":" in act.address.ip]
            source = "" if act.initiator_only else self._terms.listens_at.get(door, "")
            yield c.Connect(door, f"tcp://{act.address}", f"{DIAL}{act.address}", source)
            return
        connection = self._by_key.get(str(act.address))
        if connection is None:
            return
        self._changed[connection] = None
        match act:
            case Heat():
                connection.session.keep_alive(now.mono_s)
                if connection.version == 1 and connection.session.may(Side.PROVIDER):
                    connection.session.begin(Side.PROVIDER, now.mono_s)
                self._pull_if_hot(connection)
            case Cool():
                self._fetching.stop(connection.key)
            case Hang(_, why):
                connection.session.finish(now.mono_s)
                connection.is_left = True
                self.endings.note(f"{connection.address}: {why}")
            case AskPeers(address, amount):
                if not connection.session.ask_peers(amount, now.mono_s):
                    self._governor.told(address, (), now.mono_s)

    def _pull_if_hot(self, connection: PeerConnection) -> None:
        """Begin to pull from a peer, if the governor wants that and the protocol allows it."""
        peer = self._governor.get(connection.address)
        may = connection.has_begun and connection.session.may(Side.CONSUMER)
        if not may or peer is None or peer.state is not PeerState.HOT:
            return
        if not self._fetching.resume(connection.key):
            self._fetching.begin(connection.key)

    def settled(self, now: c.Now, *, may_pull: bool) -> Iterator[c.Deed]:
        """Tell peers of what was taken, ask for what is wanted, and write all that was said. `may_pull`: whether
        messages can be judged, and there is room for them."""
        self._may_pull = may_pull
        moment, before, self._told_to = moment_of(now), self._told_to, self._mempool.last
        for connection in self._by_key.values():
            if connection.provider is None or connection.is_ending or not connection.provider.is_asked:
                continue
            if self._told_to == before and connection.provider.due_s > now.mono_s:
                continue
            self._changed[connection] = None
            if (found := connection.provider.wake(moment)) is not None:
                self._handle(connection, connection.announce(found, now.mono_s, has_waited=True), now)
        for connection in self._changed:
            if connection.is_ending and self._by_key.get(connection.key) is connection:
                self._fetching.end(connection.key)
        if may_pull:
            self._ask(now)
        changed, self._changed = list(self._changed), {}
        for connection in changed:
            yield from connection.written(now.mono_s, self._governor.get(connection.address))
            self._deadlines.set(connection, connection.due_s)

    def _ask(self, now: c.Now) -> None:
        for ask in self._fetching.requests(now.mono_s):
            connection = self._by_key[ask.peer]
            self._changed[connection] = None
            self._handle(connection, connection.say(Side.CONSUMER, request_of(ask), now.mono_s), now)
        for key, connection in self._by_key.items():
            if connection.version == 2 and self._fetching.is_finished(key):  # in version 1 a window lasts
                self._fetching.end(key)
                self._changed[connection] = None
                self._handle(connection, connection.say(Side.CONSUMER, ms.MsgDone(), now.mono_s), now)

    # -- the operator --------------------------------------------------------------------------------------

    def as_status(self) -> list[dict[str, Any]]:
        """Return what `router dmq peers` shows of each connection."""
        found = []
        for connection in self._connections.values():
            peer = self._governor.get(connection.address)
            state = peer.state.name.lower() if peer is not None and connection.key in self._by_key else "handshake"
            found.append(connection.as_status(state, *self.exchange.counts_of(connection.key)))
        return found

    def traffic(self) -> dict[str, int]:
        """Return the bytes that were read from other nodes, and written to them, since the start."""
        connections = self._connections.values()
        return {
            "bytes_in": self._past_bytes_in + sum(one.bytes_in for one in connections),
            "bytes_out": self._past_bytes_out + sum(one.bytes_out for one in connections),
        }

    def away(self) -> list[dict[str, Any]]:
        """Return what `router dmq peers` shows of the nodes that the topology names and that are not connected."""
        connected = {one.address for one in self._connections.values()}
        rejected = self.exchange.rejections
        return [as_row(str(at), one, rejected.of(str(at))) for at, one in self._away if at not in connected]

    def needed(self) -> list[dict[str, Any]]:
        """Return which of the nodes that are away, or do not agree, their group of the topology lacks, and why."""
        return list(self._away.lacking(self._governor.get))


def address_of(text: str) -> PeerAddress | None:
    """Return the address in IP:PORT; None if it is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5:
        return None
    try:
        return PeerAddress(str(ip_address(host.removeprefix("[").removesuffix("]"))), int(port))
    except ValueError:
        return None
