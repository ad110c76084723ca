"""Play a node to one that dials, and judge what it says: its turn, its encoding, its window, and the messages it gives.

In version 2 the other side asks, and gets messages of a pool that it does not know; in version 1 it provides, and is
asked for what it announces. Nothing is begun here but what version 1 has the listener say.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from itertools import cycle
from math import inf
from typing import Any

import trio
from msgspec.structs import replace

from router.cli.conformance import CheckResult
from router.core.link.machine import Agency, Machine, RemoteProtocolError
from router.core.wire.codec import Malformed
from services.dmq.core.conformance.judging import NOT_AS_WRITTEN, pieces, said
from services.dmq.core.conformance.node_checks import NodeTrial, describe
from services.dmq.core.mempool import Mempool, MempoolLimits
from services.dmq.core.messages.authentication import Moment, Topic
from services.dmq.core.messages.trial_messages import BODY
from services.dmq.core.messages.verdict import ACCEPT, Judge
from services.dmq.core.peers.provider import Provider, Spacing
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols import peer_sharing as ps
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import HANDSHAKE, IDLE_S, KEEP_ALIVE, SHARING
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import ChainTime

from .listener import Ended, Listener, Quiet, Said
from .node_probe import LIMITS

HEARD_S = 15.0
"""Seconds for which one connection is judged: two keep-alives, and less than a request that blocks may wait."""
HELD_MAX = 3
"""Most messages that one connection is told of."""
PIECE_BYTES = 100
ASKED = 10
REVISION = REVISIONS["dmq-0.5"]
_CODECS = {protocol.number: protocol for protocol in (HANDSHAKE, KEEP_ALIVE, SHARING)}
_END = ("end", "-", "a connection that stays open, or is closed when no answer is awaited")


class AsPeer:
    """A node that judges those that dial it."""

    def __init__(self, trial: NodeTrial, chain: ChainTime) -> None:
        self._trial = trial
        self._chain = chain

    def __repr__(self) -> str:
        return f"<AsPeer of magic {self._trial.magic}>"

    async def outcomes(self, listener: trio.SocketListener, connections: int) -> AsyncIterator[CheckResult]:
        """Serve that many connections, one after another, and yield the findings in each."""
        for _ in range(connections):
            async with await listener.accept() as stream:
                talk = _Talks(self._trial, self._chain, Listener(stream, Agency.INITIATOR, LIMITS))
                async for outcome in talk.judged():
                    yield outcome


class _Talks:
    """One connection: the state of each protocol, and what the other side was told."""

    def __init__(self, trial: NodeTrial, chain: ChainTime, listener: Listener) -> None:
        self._trial = trial
        self._listener = listener
        self._judge = Judge(REVISION, Topic(chain=chain))
        self._version = 2
        self._machines = {h.NUMBER: Machine(nh.TABLE, we=Agency.RESPONDER)}
        self._mempool = Mempool(MempoolLimits(pause_s=0))
        self._wires = dict[int, bytes]()
        self._lengths = cycle((1, 2))
        self._provider = Provider(self._mempool, Spacing(0))
        self._announced = dict[bytes, int]()
        self._has_begun = False
        self._message: Any = None
        self._replies: list[ms.Message] = []

    async def judged(self) -> AsyncIterator[CheckResult]:
        """Yield the outcome of each message and of the end; stop at the first that is wrong."""
        with trio.move_on_after(HEARD_S) as heard_s:
            while True:
                state, is_to_begin = self._states, len(self._machines) > 1 and not self._has_begun
                try:
                    heard = await self._listener.next(IDLE_S if is_to_begin else inf)
                except Quiet:
                    text = f"nothing within {IDLE_S:g} s of the handshake, after which a node closes the connection"
                    yield CheckResult("silence", state, "-", "keep-alive, or another protocol", text, False)
                    return
                except Ended:
                    yield CheckResult(_END[0], state, _END[1], _END[2], "closed", self._is_at_rest)
                    return
                name, expected, got, ok = self._verdict(heard)
                answers = self._answers(heard) if ok else []
                sent = ", ".join(type(one).__name__ for one in answers) or "-"
                yield CheckResult(name, state, sent, expected, got, ok)
                if not ok:
                    return
                for one in answers:
                    await self._say(heard.number, one)
        if heard_s.cancelled_caught:
            yield CheckResult(_END[0], self._states, _END[1], _END[2], "open", True)

    @property
    def _states(self) -> str:
        running = {number: one for number, one in self._machines.items() if number or not one.done}
        return "/".join(str(one.state.value) for one in running.values())

    @property
    def _is_at_rest(self) -> bool:
        return all(
            one.agency is not Agency.RESPONDER or one.state is ms.St.SIG_IDS_BLOCKING for one in self._machines.values()
        )

    def _verdict(self, heard: Said) -> tuple[str, str, str, bool]:
        """Return the name of a check, the expected and the actual message, and whether that is right."""
        self._has_begun |= heard.number != h.NUMBER
        fault = heard.fault or self._step(heard)
        if fault:
            return "turn", "a message whose turn it is", fault, False
        words = describe(heard.number, heard.wire, self._version)
        if words.endswith(NOT_AS_WRITTEN):
            return "form", "the form in which dmq-node writes it", words, False
        match self._message:
            case h.MsgProposeVersions() as offer:
                answer = nh.answer(offer, NodeData(self._trial.magic, peer_sharing=True))
                ok = isinstance(answer, h.MsgAcceptVersion)
                got = words if ok else f"{words}, to be answered {type(answer).__name__}: {answer}"
                return "propose", f"version 1 or 2, magic {self._trial.magic}", got, ok
            case ms.MsgReplySigs(wires):
                return self._given(wires, words)
            case ms.MsgReplySigIds(announced):
                self._announced |= dict(announced)
                ok = len(announced) <= ASKED
                return "announced", f"at most {ASKED} ids", f"{len(announced)} ids", ok
            case ms.MsgRequestSigIdsBlocking() | ms.MsgRequestSigIdsNonBlocking() | ms.MsgRequestSigs():
                return self._requested(words)
        return "message", "any message in its turn", words, True

    def _given(self, wires: tuple[bytes, ...], words: str) -> tuple[str, str, str, bool]:
        """Judge the messages that a provider gives."""
        expected = "messages that were announced with their sizes, and that a node takes"
        for wire in wires:
            try:
                message = REVISION.encoding.read(wire)
            except Malformed as error:
                return "given", expected, f"wrong bytes: {error}", False
            if (size := self._announced.get(message.id)) != len(wire):
                return "given", expected, f"{len(wire)} bytes, announced as {size}", False
            verdict = self._judge.judge(wire, time.time())
            if verdict.verdict != ACCEPT:
                return "given", expected, verdict.sentence, False
        return "given", expected, words, True

    def _requested(self, words: str) -> tuple[str, str, str, bool]:
        """Judge a request by the window of a provider."""
        try:
            self._replies = [reply] if (reply := self._reply()) is not None else []
        except RemoteProtocolError as error:
            return "window", "a request that the window allows", error.text, False
        return "request", "a request that the window allows", words, True

    def _reply(self) -> ms.Message | None:
        now = Moment(time.time(), trio.current_time())
        match self._message:
            case ms.MsgRequestSigs(ids):
                found = self._provider.request_bodies(ids, now)
                return ms.MsgReplySigs(tuple(self._wires[row.number] for row in found))
            case ms.MsgRequestSigIdsBlocking(acknowledged, requested):
                if len(self._wires) < HELD_MAX:
                    self._hold(next(self._lengths), now)
                told = self._provider.request_ids(True, acknowledged, requested, now) or ()
                if not told:
                    return None
            case ms.MsgRequestSigIdsNonBlocking(acknowledged, requested):
                told = self._provider.request_ids(False, acknowledged, requested, now) or ()
        return ms.MsgReplySigIds(tuple((one.id, one.size) for one in told))

    def _hold(self, count: int, now: Moment) -> None:
        """Hold new messages, which live for ten minutes from now, however long this has run."""
        stranger = replace(self._trial.stranger, wall_s=int(now.wall_s))
        for number in range(count):
            body = BODY + f"{time.time_ns()}-{number}".encode()
            message = REVISION.encoding.read(stranger.message(REVISION, body))
            row = self._mempool.take(message, float(message.expires_at or 0), now)
            self._wires[row.number] = message.wire

    def _answers(self, heard: Said) -> list[Any]:
        match self._message:
            case h.MsgProposeVersions() as offer:
                return [nh.answer(offer, NodeData(self._trial.magic, peer_sharing=True))]
            case ka.MsgKeepAlive(cookie):
                return [ka.MsgKeepAliveResponse(cookie)]
            case ps.MsgShareRequest():
                return [ps.MsgSharePeers(())]
            case ms.MsgInit():
                return [ms.MsgRequestSigIdsBlocking(0, ASKED)]
            case ms.MsgReplySigIds(announced) if announced:
                return [ms.MsgRequestSigs(tuple(own_id for own_id, _ in announced))]
            case ms.MsgReplySigs():
                acknowledged, self._announced = len(self._announced), {}
                return [ms.MsgRequestSigIdsBlocking(acknowledged, ASKED)]
            case ms.MsgRequestSigIdsBlocking() | ms.MsgRequestSigIdsNonBlocking() | ms.MsgRequestSigs():
                return self._replies
        return []

    def _step(self, heard: Said) -> str:
        """Take a message of the other side; return why it is out of turn, or no message at all."""
        machine = self._machines.get(heard.number)
        if machine is None:
            return f"protocol {heard.number} before the handshake, or without an agreement on it"
        try:
            self._message = self._decoded(heard)
            if heard.number == ms.NUMBER:
                ms.check_in(machine.state, self._message)
            machine.step(Agency.INITIATOR, self._message)
        except Malformed as error:
            return f"wrong bytes: {error}"
        except RemoteProtocolError as error:
            return error.text
        if machine.done and heard.number != h.NUMBER:
            self._machines[heard.number] = Machine(machine.table, we=Agency.RESPONDER)
        return ""

    async def _say(self, number: int, message: Any) -> None:
        """Answer in SDUs of a few bytes; if the other side has gone, the next read will show it."""
        self._machines[number].step(Agency.RESPONDER, message)
        if isinstance(message, h.MsgAcceptVersion):
            self._agree(message)
        wire = self._encoded(number, message)
        try:
            await self._listener.stream.send_all(said(number, *pieces(wire, PIECE_BYTES), by=Agency.RESPONDER))
        except trio.BrokenResourceError:
            return

    def _agree(self, answer: h.MsgAcceptVersion) -> None:
        agreed = nh.agreement(answer, NodeData(self._trial.magic, peer_sharing=True))
        self._version = agreed.version
        tables = {ms.NUMBER: ms.VERSIONS[agreed.version].table, ka.NUMBER: ka.TABLE}
        tables |= {ps.NUMBER: ps.TABLE} if agreed.shares_peers else {}
        self._machines |= {number: Machine(table, we=Agency.RESPONDER) for number, table in tables.items()}

    def _decoded(self, heard: Said) -> Any:
        submission = ms.VERSIONS[self._version]
        return (submission if heard.number == ms.NUMBER else _CODECS[heard.number]).decode(heard.wire)

    def _encoded(self, number: int, message: Any) -> bytes:
        submission = ms.VERSIONS[self._version]
        return (submission if number == ms.NUMBER else _CODECS[number]).encode(message)
