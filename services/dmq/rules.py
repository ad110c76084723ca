"""A DMQ node (CIP-137): signers hand messages in, consumers ask for them; a message answered `[1]` is on disk.

ClientSessions   connections at the doors: their number and their duration
Admission        the admission of a message: checks, signatures in batches elsewhere, the mempool
Consumers        the messages that each gets, and has acknowledged
StakeSource      the pools that may send
Holdings         the kept state of all this
NodePeers        the other nodes
TopicGroup       the group of routers that carries the topic
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from router.service import contract as c
from router.service.pages import Pages
from services.dmq.core import notes
from services.dmq.core.admission import TAG, Admission, AdmissionVerdict, FromGroup, FromPeer, FromUnicast
from services.dmq.core.clients.connection import ClientSession
from services.dmq.core.clients.connections import LOCAL, ClientSessions, Places, door_of
from services.dmq.core.clients.consumers import Consumers
from services.dmq.core.holdings import Holdings
from services.dmq.core.mempool import MempoolLimits, Row
from services.dmq.core.messages.authentication import Topic
from services.dmq.core.messages.fault import Fault, Rejected
from services.dmq.core.messages.signed_message import SignedMessage
from services.dmq.core.networks import consumers_of, network_of
from services.dmq.core.peers.exchange import PeerTerms
from services.dmq.core.peers.governor import Governor
from services.dmq.core.peers.hot_places import Targets
from services.dmq.core.peers.node_peers import NodePeers
from services.dmq.core.peers.peers import DOORS, Peers, address_of
from services.dmq.core.peers.topology_source import TopologySource
from services.dmq.core.protocols import handshake, submission
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols.client_session import Heard
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.revision import REVISIONS, Revision
from services.dmq.core.questions import Questions
from services.dmq.core.stake.chain_time import MAINNET
from services.dmq.core.stake.source import Sources, StakeSource, moment_of
from services.dmq.core.topic_group import TopicGroup, source_text
from services.dmq.core.turned_away import TurnedAway
from services.dmq.metrics import Metrics, page_of
from services.dmq.settings import Settings

TICK_S = 1.0
DOUBT_GATHER_S = 0.01
RELAYED_SLACK = 8
"""Messages of a pool that may be live, when a peer brings one, beyond those that its pause allows in their life."""
METRICS = "metrics"
DISK_FULL = "its disk is nearly full: messages are refused until there is room; free some space, or move the home"


class DmqNode:
    """A DMQ node for the clients of one machine."""

    def __init__(self, setup: c.Setup) -> None:
        settings: Settings = setup.settings
        revision, terms = REVISIONS[settings.revision], network_of(settings.network)
        topic = Topic(pause_s=0 if settings.rate == "pace" else settings.pause_s, chain=terms.chain or MAINNET)
        self._name = setup.name
        self._magic, self._encoding = terms.magic, revision.encoding
        self._urls = {LOCAL: settings.local_socket}
        self._named = consumers_of(settings.consumers)
        self._kept = setup.kept
        self._holdings = Holdings(setup.kept, revision.encoding, terms.magic, topic, _limits(settings, topic))
        self._clients = ClientSessions(revision, Places(settings.clients_max, settings.consumer_clients_max))
        self._admission = Admission(self._holdings)
        self._consumers = Consumers(self._holdings)
        self._turned_away = TurnedAway()
        self._group = TopicGroup(settings.group, revision.encoding, self._admission, self._holdings, self._turned_away)
        self._taken: list[Row] = []
        self._tick_s = 0.0
        self._wakes_at_s = inf
        self._is_full = False
        self._urls[METRICS] = settings.metrics
        self._metrics = Metrics(settings.metrics_prefix, has_suffix=settings.metrics_suffix)
        self._pages = Pages(METRICS, {"/metrics": self._page})
        self._nodes = self._node_peers(setup, revision)
        self._urls |= {door: f"{url}?shared=yes" if url else "" for door, url in _listens(settings).items()}
        sources = Sources(settings.stake_file, settings.stake_command, settings.genesis)
        self._stake = StakeSource(sources, self._holdings)
        shown = {"socket": settings.local_socket, "genesis": settings.genesis}
        self._questions = Questions(
            self._holdings,
            self._clients,
            self._consumers,
            self._stake,
            self._admission,
            shown,
            self._nodes,
            self._group,
        )

    def _node_peers(self, setup: c.Setup, revision: Revision) -> NodePeers:
        settings: Settings = setup.settings
        targets = Targets(
            known=settings.known_peers,
            established=settings.established_peers,
            active=settings.active_peers,
            churn_s=settings.churn_s,
        )
        listens = {door: url.removeprefix("tcp://") for door, url in _listens(settings).items() if url}
        own = filter(None, map(address_of, listens.values()))
        governor = Governor(targets, setup.chance, own, shares=settings.peer_sharing)
        data = NodeData(self._magic, settings.diffusion_mode == "InitiatorOnly", settings.peer_sharing)
        first = frozenset(filter(None, map(address_of, settings.version_1_peers)))
        terms = PeerTerms(data, revision.encoding, settings.pause_s, listens, first, revision.submissions)
        peers = Peers(terms, self._holdings, governor, setup.chance)
        return NodePeers(
            peers,
            TopologySource(settings.topology_file, settings.ledger_snapshot, listens.values(), settings.srv_services),
            self._admission,
            self._holdings,
            self._turned_away,
        )

    def doors(self) -> dict[str, str]:
        return {**self._urls, **{door_of(name): url for name, url in self._named.items()}}

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        return list(self._heard(heard, now))

    def batch_delay_s(self, now: c.Now) -> float:
        """Return how far apart cycles are: while wrongly signed messages come, so far that many are refused at once;
        with other nodes, so far that what several of them say is dealt with at once."""
        if self._admission.is_in_doubt(now.mono_s):
            return DOUBT_GATHER_S
        peers = self._nodes.peers
        return peers.pace.distance_s(now.mono_s) if len(peers) else 0.0

    def is_urgent(self, heard: c.Heard, now: c.Now) -> bool:
        """Whether a client or an operator waits for what follows from this; the next words of other nodes, what was
        verified for them alone, and the words of a consumer that has just got a reply, may wait for others."""
        if isinstance(heard, c.Tick) or self._nodes.hears(heard) or self._admission.is_in_doubt(now.mono_s):
            return False
        if isinstance(heard, c.Computed) and self._admission.is_of_others(heard.tag):
            return False
        if not isinstance(heard, c.Came):
            return True
        client = self._clients.get(heard.door, heard.peer)
        return client is None or not self._consumers.may_wait(client, heard.data, now.mono_s)

    def patient_doors(self) -> tuple[str, ...]:
        """Return the doors of other nodes: what these say is read once for each cycle."""
        return DOORS

    def settled(self, now: c.Now) -> list[c.Deed]:
        """Verify what has come, give consumers that wait what was taken, and tell the log of all that at once."""
        deeds = [*self._nodes.judge(now)]
        for verdict in self._admission.at_once(moment_of(now)):
            deeds += self._decided(verdict, now)
        for client in self._consumers.wake(now.mono_s):
            deeds += self._go_on(client, now)
        deeds += self._admission.batches(moment_of(now))
        deeds += self._nodes.settled(now, may_pull=self._stake.is_ready and self._holdings.can_take)
        deeds += self._wake(now)
        deeds += self._logged()
        deeds += self._holdings.settled()
        return deeds

    def _logged(self) -> Iterator[c.Deed]:
        """Tell the log of what was taken, and of what the router has for the topic's group."""
        if not self._taken and not self._group.has_news:
            return
        taken, self._taken = self._taken, []
        owed, others, events = self._group.settled(taken)
        named, giver = sorted(self._named), self._nodes.peers.exchange.trail.giver
        yield from notes.accepted(owed, [*named, source_text(self._group.name)], giver)
        yield from notes.accepted(others, named, giver)
        yield from events

    def _heard(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        if self._nodes.hears(heard):
            yield from self._nodes.hear(heard, now)
            return
        match heard:
            case c.Came(door, peer, data) if door != METRICS:
                yield from self._came(door, peer, data, now)
            case c.Started():
                yield from self._holdings.restore(self._named, moment_of(now))
                yield from self._stake.started(now)
                yield from self._group.started(self._kept)
                self._tick_s = now.mono_s + TICK_S
            case c.Opened(door, peer) if door == METRICS:
                yield from self._pages.opened(peer, now)
            case c.Came(_, peer, data):
                yield from self._pages.came(peer, data, now)
            case c.Opened(door, peer):
                yield from self._clients.opened(door, peer, heard.user, now.mono_s)
            case c.Computed(tag) if tag.startswith(TAG):
                for verdict in self._admission.verified(heard, moment_of(now)):
                    yield from self._decided(verdict, now)
            case c.Computed():
                yield from self._stake.computed(heard, now)
                yield from self._judge_held(now)
            case c.Message():
                taken = yield from self._group.came(heard, now, may_judge=self._stake.is_ready)
                if taken is not None:
                    yield from self._decided(taken, now)
            case c.Sent():
                yield from self._group.sent(heard)
            case c.Joined():
                yield from self._group.joined(heard)
            case c.Asked():
                yield from self._questions.answer(heard, now)
            case c.Tick():
                self._wakes_at_s = inf
                if now.mono_s >= self._tick_s:
                    yield from self._tick(now)

    def _wake(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask for a tick when something is due next, unless that is asked for; not before the next cycle, for which a
        tick waits, but no later than was asked for before: what is overdue must not wait for a pause of the clients."""
        due_s = min(self._tick_s, self._consumers.due_s, self._nodes.due_s, self._admission.due_s)
        due_s = max(due_s, min(self._wakes_at_s, now.mono_s + self.batch_delay_s(now)))
        if due_s != self._wakes_at_s:
            self._wakes_at_s = due_s
            yield c.Wake(now.wall_s + due_s - now.mono_s)

    def _tick(self, now: c.Now) -> Iterator[c.Deed]:
        self._tick_s = now.mono_s + TICK_S
        gone = []
        for row, deeds in self._holdings.expire(now.wall_s):
            gone.append(row)
            yield from deeds
        yield from notes.expired(gone)
        yield from self._nodes.expired(gone, now)
        yield from self._holdings.forget(now.wall_s)
        for client in self._clients.overdue(now.mono_s):
            yield from client.written(now.mono_s)
        yield from self._stake.due(now)
        yield from self._nodes.tick(now)
        for cause in self._clients.causes():
            self._turned_away.broken_off(cause)
        yield from self._turned_away.due(now)
        yield from self._consumers.warnings.due(now.mono_s)
        for text in self._clients.warnings.due(self._name, now.mono_s):
            yield c.Warn(text)
        yield from self._holdings.counted()
        self._is_full = self._is_full and not self._holdings.has_room
        yield from self._pages.overdue(now)

    def _page(self, now: c.Now) -> tuple[str, bytes]:
        return page_of(self._metrics, self._questions.status(now), self._holdings, now)

    # -- connections ---------------------------------------------------------------------------------------

    def _came(self, door: str, peer: str, data: bytes, now: c.Now) -> Iterator[c.Deed]:
        client = self._clients.get(door, peer)
        if client is None:
            return
        if not data:
            self._clients.closed(client)
            yield from self._consumers.closed(client)
        elif not client.fault:
            client.feed(data, now.mono_s)
            yield from self._go_on(client, now)

    def _go_on(self, client: ClientSession, now: c.Now) -> Iterator[c.Deed]:
        """Handle a client's messages, including those that waited for an answer."""
        while client.heard:
            yield from self._said(client, client.heard.popleft(), now)
        yield from client.written(now.mono_s)

    def _said(self, client: ClientSession, heard: Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard.message:
            case handshake.MsgProposeVersions():
                answer = handshake.answer(heard.message, self._magic)
                if isinstance(answer, handshake.MsgAcceptVersion):
                    cause = yield from self._clients.make_place(client, now.mono_s)
                    answer = handshake.no_place(cause) if cause else answer
                client.say(handshake.NUMBER, answer)
                if client.is_open:
                    self._clients.greeted(client)
                    yield c.MarkKnown(client.door, client.peer)
            case SignedMessage() as message:
                yield from self._submitted(client, message, now)
            case n.MsgClientDone() | n.MsgDone():
                self._consumers.ended(client)
            case _ if heard.number == n.NUMBER:
                yield from self._consumers.requested(client, heard.message, now.mono_s)

    # -- messages ------------------------------------------------------------------------------------------

    def _submitted(self, client: ClientSession, message: SignedMessage, now: c.Now) -> Iterator[c.Deed]:
        if not self._stake.is_ready:
            self._admission.hold(client, message)
        elif (rejected := self._admission.judge(client, message, moment_of(now))) is not None:
            yield from self._rejected(client, message, rejected, now)

    def _judge_held(self, now: c.Now) -> Iterator[c.Deed]:
        if self._stake.is_ready:
            for client, message in self._admission.held():
                yield from self._submitted(client, message, now)
                yield from self._go_on(client, now)

    def _decided(self, verdict: AdmissionVerdict, now: c.Now) -> Iterator[c.Deed]:
        """Answer a message whose signatures were verified."""
        source, message = verdict.source, verdict.message
        if verdict.row is not None:
            yield from verdict.deeds
            self._taken.append(verdict.row)
            yield from self._group.publish(verdict)
        if isinstance(source, FromPeer):
            yield from self._nodes.decided(verdict, now)
            return
        if isinstance(source, FromGroup | FromUnicast):
            assert verdict.row is not None
            by = source_text(source.name) if isinstance(source, FromGroup) else ""
            self._nodes.taken(verdict.row, now, by)
            return
        if verdict.rejected is not None:
            yield from self._rejected(source, message, verdict.rejected, now)
        elif verdict.row is not None:
            self._nodes.taken(verdict.row, now)
            source.say(submission.NUMBER, submission.MsgAcceptMessage())
        yield from self._go_on(source, now)

    def _rejected(
        self, client: ClientSession, message: SignedMessage, rejected: Rejected, now: c.Now
    ) -> Iterator[c.Deed]:
        self._holdings.counts[rejected.fault.reason.word] += 1
        if noted := self._turned_away.rejected(message, rejected, now):
            yield from (*noted, *self._holdings.counted())
        if rejected.fault is Fault.DISK_FULL and not self._is_full:
            self._is_full = True
            yield c.Warn(DISK_FULL)
        client.say(submission.NUMBER, submission.rejection(rejected, self._encoding.name))


def _listens(settings: Settings) -> dict[str, str]:
    """Return where other nodes connect, by door; "" for nowhere, as on a node that only dials."""
    if settings.diffusion_mode == "InitiatorOnly":
        return dict.fromkeys(DOORS, "")
    return dict(zip(DOORS, (settings.listen, settings.listen_ipv6), strict=True))


def _limits(settings: Settings, topic: Topic) -> MempoolLimits:
    return MempoolLimits(
        settings.messages_max,
        settings.bytes_max,
        settings.pool_messages_max,
        settings.pool_bytes_max,
        pause_s=settings.pause_s if settings.rate == "pace" else 0,
        pool_relayed_max=_relayed_max(topic.ttl_max_s, settings),
    )


def _relayed_max(ttl_s: float, settings: Settings) -> int:
    """Return how many messages of one pool may be live when a peer brings another: more cannot be honest."""
    if not settings.pause_s:
        return settings.pool_messages_max
    return min(settings.pool_messages_max, int(ttl_s / settings.pause_s) + RELAYED_SLACK)
