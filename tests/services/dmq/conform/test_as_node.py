"""A node that judges its clients: our signer and consumer pass, and each fault is named."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.plain_dmq_node import MAGIC
from samples.dmq import POOLS, START_PERIOD, Pool

from router.cli.conformance import CheckResult
from services.dmq.client.connection import connect
from services.dmq.conform.as_node import ANSWERS, AsNode, ListensAlready, listening
from services.dmq.core.conformance.client_checks import Trial, request, submit
from services.dmq.core.conformance.judging import said
from services.dmq.core.messages.pool_keys import PoolKeys
from services.dmq.core.messages.trial_messages import Signer
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import MAINNET

DEPLOYED = REVISIONS["dmq-0.5"]
HELLO = said(h.NUMBER, h.encode_message(h.propose(MAGIC)))


def signer(pool: Pool) -> Signer:
    return Signer(PoolKeys(pool.kes, pool.certificate), START_PERIOD, int(time.time()))


@asynccontextmanager
async def played(path: Path, name: str = "dmq-0.5", connections: int = 1) -> AsyncIterator[list[CheckResult]]:
    """Play a node until its connections have ended, and return its findings."""
    node, found = AsNode(Trial(REVISIONS[name], MAGIC, signer(Pool(9))), MAINNET), list[CheckResult]()

    async def gather(listener: trio.socket.SocketType) -> None:
        async for one in node.outcomes(listener, connections):
            found.append(one)

    with trio.fail_after(HANG_S):
        async with listening(path) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(gather, listener)
            yield found


def checks(found: list[CheckResult]) -> list[tuple[str, bool | None]]:
    return [(one.check, one.ok) for one in found]


async def test_a_signer_and_a_consumer(tmp_path: Path) -> None:
    async with played(tmp_path / "node", connections=2) as found:
        async with connect(tmp_path / "node", MAGIC) as node:
            answers = [
                await node.submit(signer(POOLS[0]).message(DEPLOYED, bytes(100 + number)))
                for number in range(len(ANSWERS))
            ]
            await node.finish()
        async with connect(tmp_path / "node", MAGIC) as node:
            replies = [await node.request(blocking=blocks) for blocks in (False, True, True)]
            await node.finish()
    assert answers == list(ANSWERS)
    assert [len(one.messages) for one in replies] == [0, 1, 2]
    assert all(DEPLOYED.encoding.read(wire) for one in replies for wire in one.messages)
    signed = [("propose", True), *[("message", True)] * 5, ("done", True), ("end", True)]
    assert checks(found) == [*signed, ("propose", True), *[("request", True)] * 4, ("end", True)]
    assert not (tmp_path / "node").exists()


async def test_the_revisions_of_the_seeds_ask(tmp_path: Path) -> None:
    path = tmp_path / "node"
    for name in ("cip-29ffe0e", "overview-2025-04"):
        async with played(path, name) as found, connect(path, MAGIC, REVISIONS[name]) as node:
            assert len((await node.request(blocking=True)).messages) == 1
        assert checks(found) == [("propose", True), ("request", True), ("end", True)]


def right(left_s: int = 600) -> bytes:
    """Return a message handed in that expires in that many seconds from now."""
    return submit(signer(POOLS[0]).message(DEPLOYED, left_s=left_s))


WRONG: list[tuple[Callable[[], bytes], str, str]] = [
    (lambda: said(h.NUMBER, h.encode_message(h.propose(1))), "propose", "the network magic is 1"),
    (lambda: said(h.NUMBER, h.encode_message(h.propose(MAGIC, query=True))), "propose", "to be answered MsgQueryReply"),
    (lambda: said(h.NUMBER, h.encode_message(h.MsgProposeVersions({4096: b"\x80"}))), "propose", "answered MsgRefuse"),
    (lambda: said(s.NUMBER, right()), "turn", "protocol 14 before the handshake"),
    (lambda: HELLO + said(s.NUMBER, b"\x81\x01"), "turn", "initiator sent MsgAcceptMessage in StIdle"),
    (lambda: HELLO + said(s.NUMBER, right() + right()[:100] + b"\xff"), "end", "closed"),
    (lambda: HELLO + said(n.NUMBER, b"\x82\x00\x01"), "turn", "wrong bytes: isBlocking is neither true nor false"),
    (lambda: HELLO + said(n.NUMBER, b"\x82\x18\x00\xf4"), "form", "not as dmq-node writes it"),
    (lambda: HELLO + said(99, b"\x80"), "turn", "protocol 99 is unknown"),
    (lambda: HELLO + said(s.NUMBER, right(-9)), "message", "expiry has passed"),
    (lambda: HELLO + said(s.NUMBER, right(1900)), "message", "further ahead"),
    (lambda: HELLO + said(s.NUMBER, submit(b"\x80")), "message", "This is no message of dmq-0.5"),
    (lambda: HELLO + said(n.NUMBER, request(DEPLOYED) * 2)[:-1], "end", "closed"),
]


async def until_closed(stream: trio.SocketStream) -> None:
    try:
        while await stream.receive_some(1 << 16):
            pass
    except trio.BrokenResourceError:
        return


@pytest.mark.parametrize(("data", "check", "text"), WRONG, ids=lambda one: one if isinstance(one, str) else "")
async def test_what_a_client_says_wrongly(data: Callable[[], bytes], check: str, text: str, tmp_path: Path) -> None:
    async with played(tmp_path / "node") as found, await trio.open_unix_socket(tmp_path / "node") as stream:
        await stream.send_all(data())
        await stream.send_eof()
        await until_closed(stream)
    last = found[-1]
    assert last.check == check and text in last.got
    assert last.ok is (check == "end")


async def cause_at(path: Path) -> str:
    """Return why no node can be played there, "" if one can."""
    try:
        async with listening(path):
            return ""
    except ListensAlready as error:
        return str(error)


async def test_a_path_that_is_taken_and_a_socket_that_was_left(tmp_path: Path) -> None:
    file, node = tmp_path / "file", tmp_path / "node"
    file.touch()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(node))
        other.listen()
        assert await cause_at(node) == f"cannot listen on {node}: Address already in use; name a path that is free"
    assert node.is_socket(), "as one leaves it that is killed"
    assert await cause_at(node) == "" and not node.exists()
    assert await cause_at(file) == f"cannot listen on {file}: File exists; name a path that is free"
    assert "a socket's may have 107" in await cause_at(tmp_path / ("x" * 120))
