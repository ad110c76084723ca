"""The checks between nodes find nothing in a right node, and each deliberate fault in others; so do those of AsPeer."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest
import trio
from click.testing import CliRunner, Result
from msgspec.structs import replace
from rigs.faulty_peer_nodes import FaultyPeer, faults
from rigs.patience import HANG_S
from rigs.plain_peer_node import MAGIC, PlainPeer
from samples.dmq import POOLS, Pool

from router.cli import main
from router.cli.conformance import CheckResult
from router.core.link.machine import Agency
from services.dmq.client.connection import Unreachable
from services.dmq.conform.as_peer import AsPeer
from services.dmq.conform.node_probe import EMPTY, NodeProbe
from services.dmq.conform.probe_connection import ProbeLimits
from services.dmq.core.conformance.node_checks import NodeTrial, node_checks
from services.dmq.core.messages.pool_keys import PoolKeys
from services.dmq.core.messages.signed_message import SignedMessage
from services.dmq.core.messages.trial_messages import Signer
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerSaid, PeerSession, Side
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import MAINNET

PATIENT = ProbeLimits(HANG_S, 0.01)
REVISION = REVISIONS["dmq-0.5"]


def signer(pool: Pool) -> Signer:
    return Signer(PoolKeys(pool.kes, pool.certificate), pool.certificate.start_period, int(time.time()))


TRIAL = NodeTrial(MAGIC, signer(Pool(9)))
FAULTS = faults(TRIAL)


def held() -> list[SignedMessage]:
    wires = [signer(POOLS[1]).message(REVISION, body) for body in (bytes(100), bytes(101))]
    return [REVISION.encoding.read(wire) for wire in wires]


async def outcomes(port: int, *only: str) -> list[CheckResult]:
    return [one async for one in NodeProbe("127.0.0.1", port, TRIAL, PATIENT, only).outcomes()]


async def test_right_nodes() -> None:
    async with PlainPeer(held()).listening() as port, PlainPeer().listening() as empty:
        with_messages, without = await outcomes(port), await outcomes(empty)
    assert [one for one in with_messages if not one.ok] == []
    assert {one.got for one in without if not one.ok} == {EMPTY}
    assert len(with_messages) == len({one.check for one in with_messages}) == len(node_checks(TRIAL)) > 60


@pytest.mark.parametrize("name", FAULTS)
async def test_each_fault_is_found(name: str) -> None:
    faulty: FaultyPeer = FAULTS[name]
    node = PlainPeer(held())
    faulty.put(node)
    with trio.fail_after(HANG_S):
        async with node.listening() as port:
            [found] = await outcomes(port, faulty.check)
    assert not found.ok, found


def test_there_are_many() -> None:
    assert len(FAULTS) >= 40


async def test_a_node_that_follows_the_cips_text_is_named() -> None:
    node = PlainPeer(held())
    FAULTS["answers bodies by the CIP's text"].put(node)
    async with node.listening() as port:
        [found] = await outcomes(port, "no-bodies")
    assert "by the CIP's text, whose numbers 3, 4 and 5 no deployed node has" in found.got


async def test_nobody_listens() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(Unreachable, match=r"nobody listens at 127.0.0.1:\d+: connection refused; start the node"):
        await outcomes(port)


async def test_a_node_of_another_network_is_told_in_one_sentence_and_no_check_is_made() -> None:
    async with PlainPeer(held()).listening() as port:
        words = ["dmq", "conform", f"tcp://127.0.0.1:{port}", "--network", "preview"]
        done = await trio.to_thread.run_sync(partial(CliRunner().invoke, main, words))
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1 and "network magic" in done.stderr and "with --network" in done.stderr


async def test_the_command() -> None:
    def conform(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["dmq", "conform", *arguments, "--network", "preprod", "--json"])

    faulty = PlainPeer()
    FAULTS["answers its own mode"].put(faulty)
    async with PlainPeer().listening() as port, faulty.listening() as other:
        run = trio.to_thread.run_sync
        right = await run(partial(conform, f"tcp://127.0.0.1:{port}", "--only", "accept"))
        wrong = await run(partial(conform, f"tcp://127.0.0.1:{other}", "--only", "accept"))
    assert right.exit_code == 0 and wrong.exit_code == 1
    assert json.loads(wrong.stdout)["got"] == f"MsgAcceptVersion 2 magic {MAGIC} duplex sharing"
    assert (await trio.to_thread.run_sync(partial(conform, "tcp://nowhere"))).exit_code == 2


# -- playing a node ------------------------------------------------------------------------------------------------


class Dialler:
    """One that dials the node that is played, and says what a test has it say."""

    def __init__(self, port: int, **data: bool) -> None:
        self.port = port
        self.session = PeerSession(Agency.INITIATOR, NodeData(MAGIC, **data), trio.current_time())

    async def run(self, first: ms.Message | None, side: Side, then: object = None, raw: bytes = b"") -> None:
        """Do the handshake, say the first message, and answer each reply by `then`, until that says nothing."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await self._write(stream)
            said = False
            async for data in stream:
                for event in self.session.hear(bytes(data), trio.current_time()):
                    if isinstance(event, PeerSaid) and callable(then):
                        if (answer := then(event.message)) is None:
                            return
                        self.session.say(side, answer, trio.current_time())
                if self.session.agreement and not said:
                    said = True
                    if raw:
                        await stream.send_all(raw)
                    if first is not None:
                        self.session.say(side, first, trio.current_time())
                await self._write(stream)

    async def _write(self, stream: trio.SocketStream) -> None:
        while data := self.session.take(0):
            await stream.send_all(data)


async def played(
    first: ms.Message | None, side: Side, then: object = None, raw: bytes = b"", **data: bool
) -> list[CheckResult]:
    """Return what AsPeer finds in one that dials it."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found: list[CheckResult] = []
    trial = NodeTrial(MAGIC, replace(signer(Pool(9)), wall_s=int(time.time()) - 3600))  # it has run for an hour
    with trio.fail_after(HANG_S):
        async with listener, trio.open_nursery() as nursery:
            dialler = Dialler(listener.socket.getsockname()[1], **data)
            nursery.start_soon(dialler.run, first, side, then, raw)
            found += [one async for one in AsPeer(trial, MAINNET).outcomes(listener, 1)]
            nursery.cancel_scope.cancel()
    return found


async def test_a_right_consumer_is_given_messages() -> None:
    def then(answer: ms.Message) -> ms.Message | None:
        match answer:
            case ms.MsgReplySigIds(announced):
                return ms.MsgRequestSigs(tuple(own_id for own_id, _ in announced))
            case ms.MsgReplySigs(messages):
                assert messages and all(REVISION.encoding.read(wire) for wire in messages)
        return None

    found = await played(ms.MsgRequestSigIdsBlocking(0, 33), Side.CONSUMER, then)
    assert [one.check for one in found] == ["propose", "message", "request", "request", "end"]
    assert all(one.ok for one in found), found


@pytest.mark.parametrize(
    ("first", "check", "cause"),
    (
        (ms.MsgRequestSigIdsBlocking(0, 133), "window", "RequestedTooManySigIds"),
        (ms.MsgRequestSigIdsNonBlocking(0, 1), "window", "RequestNonBlocking"),
        (ms.MsgRequestSigs((bytes(32),)), "window", "RequestedUnavailableSig"),
    ),
)
async def test_a_request_that_breaks_the_window_is_found(first: ms.Message, check: str, cause: str) -> None:
    found = await played(first, Side.CONSUMER)
    assert (found[-1].check, found[-1].ok) == (check, False) and cause in found[-1].got


@pytest.mark.parametrize(
    ("raw", "check", "cause"),
    (
        (sdu((11, Agency.INITIATOR), b"\x82\x04\x80", 0), "form", "not as dmq-node writes it"),
        (sdu((11, Agency.INITIATOR), b"\x81\x03", 0), "turn", "MsgReplyNoSigIds in StIdle"),
        (sdu((13, Agency.INITIATOR), b"\x82\x00\x01", 0), "turn", "protocol 13 before the handshake, or without"),
        (sdu((11, Agency.INITIATOR), b"\xff", 0), "turn", "a break stands"),
    ),
)
async def test_wrong_bytes_are_found(raw: bytes, check: str, cause: str) -> None:
    found = await played(None, Side.CONSUMER, raw=raw)
    assert (found[-1].check, found[-1].ok) == (check, False) and cause in found[-1].got
