"""A DMQ node (CIP-137): signers hand messages in, consumers ask for them; a message answered `[1]` is on disk.

ClientSessions   connections at the doors: their number and their duration
Admission        the admission of a message: checks, signatures in batches elsewhere, the mempool
Consumers        the messages that each gets, and has acknowledged
StakeSource      the pools that may send
Holdings         the kept state of all this
"""

from __future__ import annotations

from collections.abc import Iterator

from router.service import contract as c
from router.service.pages import Pages
from services.dmq.core import handshake, notes, submission
from services.dmq.core import notification as n
from services.dmq.core.admission import TAG, Admission, AdmissionVerdict
from services.dmq.core.authentication import Topic
from services.dmq.core.chain_time import MAINNET
from services.dmq.core.client_session import ClientSession
from services.dmq.core.client_sessions import LOCAL, ClientSessions, Places, door_of
from services.dmq.core.consumers import Consumers
from services.dmq.core.fault import Fault, Rejected
from services.dmq.core.holdings import Holdings
from services.dmq.core.mempool import MempoolLimits, Row
from services.dmq.core.networks import consumers_of, network_of
from services.dmq.core.questions import Questions
from services.dmq.core.revision import REVISIONS
from services.dmq.core.session import Heard
from services.dmq.core.signed_message import SignedMessage
from services.dmq.core.stake_source import Sources, StakeSource, moment_of
from services.dmq.core.turned_away import TurnedAway
from services.dmq.metrics import Metrics, page_of
from services.dmq.settings import Settings

TICK_S = 1.0
DOUBT_GATHER_S = 0.01
METRICS = "metrics"
DISK_FULL = "its disk is nearly full: messages are refused until there is room; free some space, or move the home"


class DmqNode:
    """A DMQ node for the clients of one machine."""

    def __init__(self, setup: c.Setup) -> None:
        settings: Settings = setup.settings
        revision, terms = REVISIONS[settings.revision], network_of(settings.network)
        paces = settings.rate == "pace"
        topic = Topic(pause_s=0 if paces else settings.pause_s, chain=terms.chain or MAINNET)
        limits = MempoolLimits(
            settings.messages_max,
            settings.bytes_max,
            settings.pool_messages_max,
            settings.pool_bytes_max,
            pause_s=settings.pause_s if paces else 0,
        )
        self._name = setup.name
        self._magic, self._encoding = terms.magic, revision.encoding
        self._urls = {LOCAL: settings.local_socket}
        self._named = consumers_of(settings.consumers)
        self._holdings = Holdings(setup.kept, revision.encoding, terms.magic, topic, limits)
        self._clients = ClientSessions(revision, Places(settings.clients_max, settings.consumer_clients_max))
        self._admission = Admission(self._holdings)
        self._consumers = Consumers(self._holdings)
        self._turned_away = TurnedAway()
        self._taken: list[Row] = []
        self._tick_s = 0.0
        self._is_woken_early = False
        self._is_full = False
        self._urls[METRICS] = settings.metrics
        self._metrics = Metrics(settings.metrics_prefix, has_suffix=settings.metrics_suffix)
        self._pages = Pages(METRICS, {"/metrics": self._page})
        sources = Sources(settings.stake_file, settings.stake_command, settings.genesis)
        self._stake = StakeSource(sources, self._holdings)
        shown = {"socket": settings.local_socket, "genesis": settings.genesis}
        self._questions = Questions(self._holdings, self._clients, self._consumers, self._stake, self._admission, shown)

    def doors(self) -> dict[str, str]:
        return {**self._urls, **{door_of(name): url for name, url in self._named.items()}}

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        return list(self._heard(heard, now))

    def batch_delay_s(self, now: c.Now) -> float:
        """Return how far apart cycles are: while wrongly signed messages come, so far that many are refused at once."""
        return DOUBT_GATHER_S if self._admission.is_in_doubt(now.mono_s) else 0.0

    def settled(self, now: c.Now) -> list[c.Deed]:
        """Verify what has come, give consumers that wait what was taken, and tell the log of all that at once."""
        return list(self._settled(now))

    def _settled(self, now: c.Now) -> Iterator[c.Deed]:
        for verdict in self._admission.at_once(moment_of(now)):
            yield from self._decided(verdict, now)
        for client in self._consumers.wake(now.mono_s):
            yield from self._go_on(client, now)
        yield from self._admission.batches()
        yield from self._woken_early(now)
        taken, self._taken = self._taken, []
        yield from notes.accepted(taken, sorted(self._named))
        yield from self._holdings.settled()

    def _heard(self, heard: c.Heard, now: c.Now) -> Iterator[c.Deed]:
        match heard:
            case c.Came(door, peer, data) if door != METRICS:
                yield from self._came(door, peer, data, now)
            case c.Started():
                yield from self._holdings.restore(self._named, moment_of(now))
                yield from self._stake.started(now)
                self._tick_s = now.mono_s + TICK_S
                yield self._wake_at(self._tick_s, now)
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
            case c.Asked():
                yield from self._questions.answer(heard, now)
            case c.Tick():
                self._is_woken_early = False
                if now.mono_s >= self._tick_s:
                    yield from self._tick(now)
                else:
                    yield self._wake_at(self._tick_s, now)

    def _woken_early(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask for a tick in between for what gathers, if none is asked for."""
        if self._consumers.due_s < self._tick_s and not self._is_woken_early:
            self._is_woken_early = True
            yield self._wake_at(self._consumers.due_s, now)

    def _wake_at(self, mono_s: float, now: c.Now) -> c.Wake:
        return c.Wake(now.wall_s + max(0.0, mono_s - now.mono_s))

    def _tick(self, now: c.Now) -> Iterator[c.Deed]:
        self._tick_s = now.mono_s + TICK_S
        yield self._wake_at(self._tick_s, now)
        gone = []
        for row, deeds in self._holdings.expire(now.wall_s):
            gone.append(row)
            yield from deeds
        yield from notes.expired(gone)
        yield from self._holdings.forget(now.wall_s)
        for client in self._clients.overdue(now.mono_s):
            yield from client.written(now.mono_s)
        yield from self._stake.due(now)
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
        client, message = verdict.client, verdict.message
        if verdict.rejected is not None:
            yield from self._rejected(client, message, verdict.rejected, now)
        elif verdict.row is not None:
            yield from verdict.deeds
            self._taken.append(verdict.row)
            client.say(submission.NUMBER, submission.MsgAcceptMessage())
        yield from self._go_on(client, now)

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
