"""The bench of networks: its bad nodes are bad, its messages as long as a round's, and it sees what is read twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.actors.process import program
from router.cli import main
from router.cli.exits import Exit
from router.core.link.machine import Agency
from router.rig.process import RigFailed
from services.dmq.bench import traffic
from services.dmq.bench.bad_peers import Badness, BadPeer
from services.dmq.bench.fabric_rig import CountingRelay
from services.dmq.bench.network import BYTES_LEAST, BYTES_MOST
from services.dmq.bench.round_trip import check_once
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerAgreed, PeerSaid, PeerSession, Side

WIRES = traffic.spread(traffic.pools(3, 1), BYTES_LEAST, BYTES_MOST)


def test_a_round_has_messages_of_all_lengths() -> None:
    assert [len(wire) for wire in WIRES] == [1150, 1893, 2637]
    assert len({Dmq05().read(wire).certificate.pool for wire in WIRES}) == 3


def fetched(badness: Badness) -> tuple[dict[bytes, int], tuple[bytes, ...] | None]:
    """Return what a bad node announces, and what it brings; None if it says nothing."""
    data, bad = NodeData(MAGICS[traffic.NETWORK]), BadPeer(badness, WIRES)
    ours, theirs = PeerSession(Agency.INITIATOR, data, 0.0), PeerSession(Agency.RESPONDER, data, 0.0)
    announced, untold = dict[bytes, int](), [Dmq05().read(wire) for wire in WIRES]
    while True:
        for event in theirs.hear(b"".join(iter(lambda: ours.take(0), b"")), 0.0):
            bad.answer(theirs, untold, event, 0.0)
        if not (said := b"".join(iter(lambda: theirs.take(0), b""))):
            return announced, None
        for event in ours.hear(said, 0.0):
            match event:
                case PeerAgreed():
                    ours.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, 33), 0.0)
                case PeerSaid(_, ms.MsgReplySigIds(ids)):
                    announced = dict(ids)
                    ours.say(Side.CONSUMER, ms.MsgRequestSigs(tuple(announced)), 0.0)
                case PeerSaid(_, ms.MsgReplySigs(wires)):
                    return announced, wires


@pytest.mark.parametrize("badness", Badness)
def test_a_bad_node_announces_all_and_brings_nothing_right(badness: Badness) -> None:
    announced, brought = fetched(badness)
    assert announced.keys() == {Dmq05().read(wire).id for wire in WIRES}
    sizes = {Dmq05().read(wire).id: len(wire) for wire in WIRES}
    assert (announced == sizes) is (badness is not Badness.WRONG_SIZE)
    assert (brought is None) is (badness is Badness.SILENT)
    if brought is not None:
        assert (sorted(brought) == sorted(WIRES)) is (badness is Badness.WRONG_SIZE)


def test_what_is_missing_or_read_twice_fails_the_bench() -> None:
    check_once({"one": Counter(WIRES)}, WIRES)
    for found in (WIRES[:2], [*WIRES, WIRES[0]], [*WIRES[:2], b"another"]):
        with pytest.raises(RigFailed, match="the app has read"):
            check_once({"one": Counter(WIRES), "the app": Counter(found)}, WIRES)


async def test_the_relay_counts_bytes_by_direction() -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data * 2)

    relay = CountingRelay(free_port(), to := free_port())
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_tcp, echo, to)
        nursery.start_soon(relay.run)
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", relay._port)
                break
            except OSError:
                await trio.lowlevel.checkpoint()
        async with stream:
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"hellohello"
        assert (relay.up, relay.down) == (5, 10)
        nursery.cancel_scope.cancel()


def test_a_figure_of_the_other_kind_is_refused() -> None:
    for words in (["--network", "--only", "kept"], ["--only", "fabric"]):
        done = CliRunner().invoke(main, ["dmq", "bench", *words])
        assert done.exit_code == Exit.USAGE and "is measured with" in done.stderr


@pytest.mark.long
async def test_each_figure_is_reported_beside_its_goal(tmp_path: Path) -> None:
    """Those in bytes are met, however busy the machine is."""
    report = tmp_path / "report.md"
    words = [*program("router"), "dmq", "bench", "--network", "--messages", "64", "--report", str(report), "--json"]
    with trio.fail_after(10 * HANG_S):
        done = await trio.run_process(words, capture_stdout=True)
    found = {one["title"]: one["met"] for one in json.loads(done.stdout)}
    assert len(found) == 7 and all(met for title, met in found.items() if "bytes" in title and "alone" in title)
    assert "| 64 messages at one of ten nodes: bytes" in report.read_text()
