"""Run the checks between nodes against one that listens at HOST:PORT, each over a connection of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

import trio

from router.cli.conformance import CheckResult
from router.core.link.machine import Agency
from router.service.unreached import why_unreached
from services.dmq.client.connection import OtherNetwork
from services.dmq.core.conformance.judging import CLOSED, in_words, said
from services.dmq.core.conformance.node_checks import (
    BY_THE_TEXT,
    COOKIE,
    IDS,
    NO_IDS,
    ONE,
    PONG,
    NodeCheck,
    NodeStage,
    NodeTrial,
    accepted,
    asks_ids,
    describe,
    node_checks,
    ping,
    proposal,
    refusal,
)
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols import peer_sharing as ps

from .listener import Ended, Listener, Quiet, Said
from .probe_connection import SILENT, Place, ProbeLimits, dialled, write

LIMITS = {
    h.NUMBER: h.MESSAGE_BYTES_MAX,
    ms.NUMBER: ms.BODIES_BYTES_MAX,
    ka.NUMBER: 1 << 16,
    ps.NUMBER: ps.INGRESS_BYTES_MAX,
}
EMPTY = "left out: the node announces no message; hand one in first"
NOT_ASKED = "left out: the node does not ask for messages; it may have no stake yet, or not be told to"
_ASKS = ("MsgRequestSigIdsBlocking", "MsgRequestSigIdsNonBlocking")


class NodeProbe:
    """Checks the node at HOST:PORT."""

    def __init__(
        self, host: str, port: int, trial: NodeTrial, limits: ProbeLimits | None = None, only: Collection[str] = ()
    ) -> None:
        """`only`: the names of the checks to make; without it, all."""
        self._place = ps.PeerAddress(host, port)
        self._trial = trial
        self._limits = limits or ProbeLimits()
        self._only = only
        self._left_out: dict[NodeStage, str] = {}

    def __repr__(self) -> str:
        return f"<NodeProbe of {self._place}>"

    @staticmethod
    def names(trial: NodeTrial) -> set[str]:
        """Return the names of all checks."""
        return {check.name for check in node_checks(trial)}

    async def check_network(self) -> None:
        """Raise `OtherNetwork` if the node is of another network, or `Unreachable`; what else is wrong with its
        handshake, the checks tell."""
        async with self._connected() as node:
            await self._send(node, proposal(self._trial, *nh.VERSIONS))
            try:
                one = await node.next(self._limits.answer_s)
            except (Ended, Quiet):
                return
        if (text := refusal(one.number, one.wire)) is not None:
            raise OtherNetwork(f"the node at {self._place} refused: {text}; name its network with --network")

    async def outcomes(self) -> AsyncIterator[CheckResult]:
        """Yield the outcome of each check; raise `Unreachable` if no node listens."""
        for check in node_checks(self._trial):
            if not self._only or check.name in self._only:
                yield await self._outcome(check)

    async def _outcome(self, check: NodeCheck) -> CheckResult:
        if why := self._left_out.get(check.stage):
            return CheckResult(check.name, check.state, check.sent, check.expectation, why, None)
        async with self._connected() as node:
            got: list[str] = []
            is_met = await self._is_met(node, check, got)
        if why := self._left_out.get(check.stage):
            return CheckResult(check.name, check.state, check.sent, check.expectation, why, None)
        return CheckResult(check.name, check.state, check.sent, check.expectation, in_words(got), is_met)

    async def _is_met(self, node: Listener, check: NodeCheck, got: list[str]) -> bool:
        """Make a check, and whether it is met; add the node's answers to `got`, in words."""
        version = 1 if check.stage is NodeStage.ASKED else 2
        try:
            if fault := await self._begin(node, check.stage):
                got.append(fault)
                return False
            for step in check.steps:
                await self._send(node, step.data)
                if step.expected:
                    got.append(await self._next(node, version))
                    if got[-1] not in step.expected:
                        return False
            return await self._is_at_end(node, check, got, version)
        except Ended:
            got.append(CLOSED)
            return check.then == CLOSED and len(got) > sum(bool(step.expected) for step in check.steps)
        except Quiet:
            got.append(SILENT)
            return False

    async def _is_at_end(self, node: Listener, check: NodeCheck, got: list[str], version: int) -> bool:
        """Whether the connection is closed, or still open, as it should be."""
        if check.then == CLOSED:
            got.append(await self._next(node, version))
            return False
        await self._send(node, ping())
        while (one := await self._next(node, version)) in _ASKS:
            continue  # a node that asks goes on asking meanwhile
        if one != f"{PONG} {COOKIE}":
            got.append(one)
            return False
        return True

    async def _begin(self, node: Listener, stage: NodeStage) -> str:
        """Bring a connection into a state; return the fault of the node if that fails."""
        if stage is NodeStage.CONNECTED:
            return ""
        version = 1 if stage is NodeStage.ASKED else 2
        await self._send(node, proposal(self._trial, version))
        try:
            answer = await self._next(node, version)
        except Ended:
            return "closed at the handshake"
        if answer != accepted(self._trial, version):
            return answer
        if stage is NodeStage.ANNOUNCED:
            return await self._announced(node)
        return await self._asked(node) if stage is NodeStage.ASKED else ""

    async def _announced(self, node: Listener) -> str:
        """Have the node announce one id; leave the checks of this stage out if it has none."""
        await self._send(node, said(ms.NUMBER, asks_ids(True, 0, 1)))
        try:
            answer = await self._next(node, 2, within_s=max(self._limits.answer_s, ms.BLOCKING_S))
        except Quiet:
            return SILENT
        if answer == NO_IDS:
            self._left_out[NodeStage.ANNOUNCED] = EMPTY
        return "" if answer == IDS else answer

    async def _asked(self, node: Listener) -> str:
        """Begin to provide, and have the node ask for ids; leave the checks of this stage out if it does not."""
        await self._send(node, said(ms.NUMBER, ONE.encode(ms.MsgInit())))
        try:
            answer = await self._next(node, 1)
        except Quiet:
            self._left_out[NodeStage.ASKED] = NOT_ASKED
            return SILENT
        return "" if answer == _ASKS[0] else answer

    async def _next(self, node: Listener, version: int, *, within_s: float = 0.0) -> str:
        one = await node.next(within_s or self._limits.answer_s)
        return one.fault or _with_hint(one, describe(one.number, one.wire, version), version)

    async def _send(self, node: Listener, data: bytes) -> None:
        await write(node, data, self._limits.answer_s)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Listener]:
        silent = f"nobody answers at {self._place}; start the node, or name its port"
        unreached = partial(why_unreached, place=str(self._place), remedy="start the node, or name its port")
        place = Place(partial(trio.open_tcp_stream, *self._place), silent, unreached)
        async with dialled(place, self._limits.answer_s) as stream:
            yield Listener(stream, Agency.RESPONDER, LIMITS, is_duplex=True)


def _with_hint(one: Said, words: str, version: int) -> str:
    """Return the description; of an answer in numbers that only the CIP's text has, say so."""
    if version == 2 and one.number == ms.NUMBER and one.wire[:2] in (b"\x82\x04", b"\x81\x05"):
        return words + BY_THE_TEXT
    return words
