"""A client's connection to a node on a real socket: submission, requests, and each way to fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.plain_dmq_node import DEPLOYED, MAGIC, PlainNode
from samples.dmq import POOLS, STAKE

from router.core.link.machine import Agency
from services.dmq.client.connection import (
    Broken,
    ClientLimits,
    HandshakeRefused,
    Reply,
    Silent,
    Unreachable,
    connect,
    query,
)
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import mux
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.revision import REVISIONS, Revision


def message(number: int = 0, revision: Revision = DEPLOYED, body: bytes = bytes(400)) -> bytes:
    return revision.encoding.write(POOLS[number].draft(body, expires_at=int(time.time()) + 600, ttl_s=600))


@pytest.mark.parametrize("name", ("dmq-0.5", "dmq-0.4"))
async def test_submit_and_ask(name: str, tmp_path: Path) -> None:
    revision, path = REVISIONS[name], tmp_path / "node"
    wires = [message(number, revision, bytes(400 + number)) for number in range(3)]
    with trio.fail_after(HANG_S):
        async with PlainNode(STAKE, revision).listening(path), connect(path, MAGIC, revision) as node:
            assert await node.request(blocking=False) == Reply(())
            assert [await node.submit(wire) for wire in wires] == [s.MsgAcceptMessage()] * 3
            assert await node.submit(wires[0]) == s.MsgRejectMessage(s.RejectKind.ALREADY_RECEIVED)
            assert await node.request(blocking=True) == Reply(tuple(wires))
            await node.finish()
            await node.finish()
            assert "14 in StIdle, 15 in StIdle" in repr(node)


@pytest.mark.parametrize("name", ("cip-29ffe0e", "overview-2025-04"))
async def test_the_revisions_of_the_seeds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of the seeds is signed in the KES period of the clock, so this clock is that of the pools."""
    revision, path = REVISIONS[name], tmp_path / "node"
    node_here = PlainNode(STAKE, revision)
    monkeypatch.setattr(node_here, "judges", lambda _: None)
    wire = message(0, revision)
    with trio.fail_after(HANG_S):
        async with node_here.listening(path), connect(path, MAGIC, revision) as node:
            assert await node.request(blocking=False) == Reply(())
            assert await node.submit(wire) == s.MsgAcceptMessage()
            [given] = (await node.request(blocking=False, acknowledged=())).messages
            assert revision.encoding.read_notified(given).id == revision.encoding.read(wire).id
            await node.finish()


async def test_a_blocking_request_waits_for_a_message(tmp_path: Path) -> None:
    path, got = tmp_path / "node", []

    async def consume(task_status: trio.TaskStatus[None]) -> None:
        async with connect(path, MAGIC) as node:
            assert await node.request(blocking=False) == Reply(())
            task_status.started()
            got.append(await node.request(blocking=True))

    with trio.fail_after(HANG_S):
        async with PlainNode(STAKE).listening(path) as node, trio.open_nursery() as nursery:
            await nursery.start(consume)
            async with connect(path, MAGIC) as signer:
                assert await signer.submit(message()) == s.MsgAcceptMessage()
    assert got == [Reply((node.held[0].wire,))]


async def test_more_than_a_reply_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "node"
    node_here = PlainNode(STAKE)
    node_here.held = [DEPLOYED.encoding.read(message(0, body=bytes(2000)))] * 150
    async with node_here.listening(path), connect(path, MAGIC) as node:
        first, second = [await node.request(blocking=False) for _ in range(2)]
    assert [(len(one.messages), one.has_more) for one in (first, second)] == [(100, True), (50, False)]


async def test_a_query(tmp_path: Path) -> None:
    async with PlainNode(STAKE).listening(tmp_path / "node"):
        found = await query(tmp_path / "node", MAGIC)
        assert {version: h.read_client_data(data) for version, data in found.items()} == {4097: h.ClientData(MAGIC)}


class Faulty(PlainNode):
    """A node whose answers are changed by a function."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__(STAKE)
        self._change = change

    def says(self, number: int, message: Any) -> Any:
        return self._change(message)


def silent_after_handshake(message: Any) -> Any:
    return message if isinstance(message, h.MsgAcceptVersion) else None


REFUSALS: list[tuple[Any, str]] = [
    (h.MsgRefuse(h.VersionMismatch((32784,))), "it speaks the versions 32784 with clients, not 4097; name a DMQ node"),
    (h.MsgRefuse(h.HandshakeDecodeError(4097, "no list")), "no list; name its network with --network"),
    (h.no_place("no place: all in use"), "refused: no place: all in use; try again when one has gone"),
    (h.MsgQueryReply({}), "MsgQueryReply is no answer to this"),
]


@pytest.mark.parametrize(("answer", "text"), REFUSALS)
async def test_a_node_that_refuses(answer: Any, text: str, tmp_path: Path) -> None:
    async with Faulty(lambda _: answer).listening(tmp_path / "node"):
        with pytest.raises(HandshakeRefused, match=text):
            async with connect(tmp_path / "node", MAGIC):
                pass
    async with PlainNode(STAKE).listening(tmp_path / "other"):
        with pytest.raises(HandshakeRefused, match="the network magic is 1, and 2147483649 on this node; name its net"):
            async with connect(tmp_path / "other", 1):
                pass
        with pytest.raises(HandshakeRefused, match=r"did not answer the query: .* the network magic is 1"):
            await query(tmp_path / "other", 1)


async def test_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, cause in (("none", "No such file"), ("file", "it is no socket"), ("x" * 200, "too long")):
        with pytest.raises(Unreachable, match=rf"no node listens on .*: .*{cause}.*; start the node, or name its soc"):
            async with connect(tmp_path / path, MAGIC):
                pass


async def test_a_node_that_does_not_answer(tmp_path: Path) -> None:
    limits = ClientLimits(answer_s=0.01)
    quiet = Faulty(silent_after_handshake)
    async with quiet.listening(tmp_path / "node"), connect(tmp_path / "node", MAGIC, limits=limits) as node:
        with pytest.raises(Silent, match=r"did not answer MsgSubmitMessage within 0\.01 s; see its log"):
            await node.submit(message())
    async with Faulty(lambda _: None).listening(tmp_path / "mute"):
        with pytest.raises(Silent, match="did not answer MsgProposeVersions"):
            async with connect(tmp_path / "mute", MAGIC, limits=ClientLimits(handshake_s=0.01)):
                pass


class CutsOff(PlainNode):
    """A node that closes the connection in the middle of its `nth` SDU, or stops there for good."""

    def __init__(self, nth: int) -> None:
        super().__init__(STAKE)
        self._left = nth

    def writes(self, sdu: bytes) -> bytes:
        self._left -= 1
        return sdu if self._left else sdu[:5]


async def test_a_node_that_closes(tmp_path: Path) -> None:
    async with PlainNode(STAKE).listening(tmp_path / "node"), connect(tmp_path / "node", MAGIC) as node:
        with pytest.raises(
            Broken, match="closed the connection instead of answering MsgSubmitMessage; `router dmq status` or"
        ):
            await node.submit(b"\x80")


async def test_a_node_that_stops_in_the_middle_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.dmq.core.protocols.client_session.SDU_S", 0.01)
    async with CutsOff(2).listening(tmp_path / "node"), connect(tmp_path / "node", MAGIC) as node:
        with pytest.raises(Broken, match="stopped in the middle of an answer to MsgSubmitMessage; see its log"):
            await node.submit(message())


class OfAnotherRevision(PlainNode):
    """A node that replies as in seed 000."""

    def writes(self, sdu: bytes) -> bytes:
        channel = (n.NUMBER, Agency.RESPONDER)
        return mux.sdu(channel, b"\x81\x02", 0) if sdu[4:6] == b"\x80\x0f" else sdu


async def test_a_node_of_another_revision(tmp_path: Path) -> None:
    async with OfAnotherRevision(STAKE).listening(tmp_path / "node"), connect(tmp_path / "node", MAGIC) as node:
        with pytest.raises(Broken, match=r"does not speak dmq-0\.5: message 2 of 1 items is not one of"):
            await node.request(blocking=False)
