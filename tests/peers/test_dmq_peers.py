"""A DMQ node of ours and the implementations of others, over real sockets: pallas (which Mithril's signers and
aggregators are made of), gouroboros, and the multiplexer of ouroboros-miniprotocols-ts.

They are fetched by name from their registries and built in a temporary directory; where a tool or its registry is not
there, the test is skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rigs.patience import HANG_S
from rigs.ports import free_port

from router.core.wire.codec import Malformed
from router.core.wire.crypto import SigningKey
from services.dmq.core.messages.certificate import issue
from services.dmq.core.messages.kes import KesSigningKey
from services.dmq.core.messages.pool_keys import PoolKeys, stake_file
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import handshake, node_handshake
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.message_submission import SEED, VERSIONS, MsgDone, MsgRequestSigs
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.stake.chain_time import NETWORKS

pytestmark = pytest.mark.long
HERE = Path(__file__).parent
NETWORK = "preview"
MAGIC = str(MAGICS[NETWORK])
ROUTER = [sys.executable, "-P", "-m", "router"]
OURS = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


@pytest.fixture(scope="module")
def pallas(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return built(tmp_path_factory, "pallas", ["cargo", "build", "-q"], ["target/debug/pallas-peer"])


@pytest.fixture(scope="module")
def gouroboros(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return built(tmp_path_factory, "gouroboros", ["sh", "-c", "go mod tidy && go build -o peer ."], ["peer"])


@pytest.fixture(scope="module")
def ouroboros_ts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    return built(tmp_path_factory, "ouroboros_ts", command, ["node", "peer.js"])


def built(factory: pytest.TempPathFactory, name: str, command: list[str], run: list[str]) -> list[str]:
    """Build a peer in a directory of its own, and return the command that runs it."""
    tool = {"sh": "go"}.get(command[0], command[0])
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this machine")
    place = factory.mktemp("peer") / name
    shutil.copytree(HERE / name, place)
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=4 * HANG_S, check=False)
    if done.returncode:
        pytest.skip(f"the peer {name} could not be fetched and built: {done.stderr.strip()[-300:]}")
    return [*run[:-1], str(place / run[-1])]


def said(*command: object) -> list[str]:
    """Run a command to its end, and return the lines that it prints."""
    words = [str(one) for one in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=False, env=OURS)
    assert done.returncode in (0, 4), (done.stdout, done.stderr)
    return done.stdout.splitlines()


class Written:
    """Three messages of three pools, as lines of hex, and the stake of these."""

    def __init__(self, place: Path) -> None:
        self.place = place
        now_s = time.time()
        period = NETWORKS[NETWORK].kes_period_at(now_s)
        kes = [KesSigningKey.from_seed(bytes((number,)) * 32) for number in range(3)]
        pools = [PoolKeys(one, issue(SigningKey(one.secret[:32]), one.public, 0, period)) for one in kes]
        drafts = [one.draft(os.urandom(200), period, expires_at=int(now_s) + 1500) for one in pools]
        self.messages = [Dmq05().write(one) for one in drafts]
        self.ids = [Dmq05().read(one).id.hex() for one in self.messages]
        self.stake = place / "stake.json"
        self.stake.write_bytes(stake_file(*(one.certificate.pool for one in pools)))

    def lines(self, *numbers: int) -> Path:
        path = self.place / f"messages-{'-'.join(map(str, numbers))}"
        path.write_text("".join(f"{self.messages[number].hex()}\n" for number in numbers))
        return path


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


@contextmanager
def ready(*command: object) -> Iterator[None]:
    """Run a process from the line in which it says that it is ready until the block ends."""
    words = [str(one) for one in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=OURS) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield
        finally:
            process.kill()


@contextmanager
def node(written: Written, *flags: str) -> Iterator[Path]:
    """A node of ours; its socket takes connections when it says that it is ready."""
    socket = written.place / "node.sock"
    serve = [*ROUTER, "--home", written.place / "home", "dmq", "serve", "--json", "--network", NETWORK]
    with ready(*serve, "--local-socket", socket, "--stake", written.stake, *flags):
        yield socket


def test_mithrils_clients_hand_in_and_read(pallas: list[str], written: Written) -> None:
    with node(written) as socket:
        answers = said(*pallas, "submit", socket, MAGIC, written.lines(0, 1, 0))
        assert answers == ["accepted", "accepted", "rejected Already received"]
        *read, last = said(*pallas, "watch", socket, MAGIC, 2)
        assert read == written.ids[:2] and last == "then 0 more, has more: false"


def test_our_clients_at_a_node_of_pallas_whose_reply_is_one_item_short(pallas: list[str], written: Written) -> None:
    socket = written.place / "pallas.sock"
    with ready(*pallas, "serve", socket, MAGIC, written.lines(1, 2)):
        network = ("--socket", socket, "--network", NETWORK)
        answers = said(*ROUTER, "dmq", "submit", *network, written.lines(0, 1))
        assert [one.split()[1:3] for one in answers] == [["accept", "-"], ["reject", "alreadyReceived"]]
        read = said(*ROUTER, "dmq", "watch", *network, "--count", 2)
        assert [one.split()[0] for one in read] == written.ids[1:]


def test_gouroboros_hands_in_and_reads(gouroboros: list[str], written: Written) -> None:
    with node(written) as socket:
        answers = said(*gouroboros, "submit", socket, MAGIC, written.lines(0, 1, 2, 0))
        assert answers == ["accepted"] * 3 + ["rejected common.AlreadyReceivedReason"]
        assert said(*gouroboros, "watch", socket, MAGIC, 3) == written.ids


def test_multiplexer_and_handshake_are_read_by_another_library(ouroboros_ts: list[str], written: Written) -> None:
    offers = [handshake.propose(MAGICS[NETWORK]), handshake.propose(1), handshake.propose(MAGICS[NETWORK], query=True)]
    proposals = [handshake.encode_message(one).hex() for one in offers]
    with node(written) as socket:
        found = [json.loads(line) for line in said(*ouroboros_ts, socket, *proposals)]
    assert [(one["agency"], one["protocol"]) for one in found] == [(True, 0)] * 3
    kinds = [one["message"] for one in found]
    assert kinds == ["HandshakeAcceptVersion", "HandshakeRefuse", "HandshakeQueryReply"]


def test_what_a_node_says_to_another_is_read_by_another_library(ouroboros_ts: list[str], written: Written) -> None:
    """Its proposal is given, and its keep-alive and its question for peers are the library's own."""
    offer = handshake.encode_message(node_handshake.propose(NodeData(MAGICS[NETWORK], peer_sharing=True))).hex()
    nodes = [*ouroboros_ts[:-1], ouroboros_ts[-1].replace("peer.js", "nodes.js")]
    port = free_port()
    with node(written, "--host-addr", "127.0.0.1", "--port", str(port)):
        found = [json.loads(line) for line in said(*nodes, "127.0.0.1", port, offer)]
    assert [(one["protocol"], one["message"]) for one in found] == [
        (0, "HandshakeAcceptVersion"), (12, "KeepAliveResponse"), (13, "PeerSharingResponse"),
    ]  # fmt: skip
    assert found[1]["cookie"] == 48_879 and found[2]["payload"] == "820180"


def test_gouroboros_follows_the_cips_text_between_nodes_and_not_what_is_deployed(gouroboros: list[str]) -> None:
    """So it reads no request for bodies and no end of version 2, and no deployed node reads its own."""
    deployed = VERSIONS[2]
    asks, ends = deployed.encode(MsgRequestSigs((bytes(32),))), deployed.encode(MsgDone())
    *wires, asks_read, ends_read = said(*gouroboros, "between", asks.hex(), ends.hex())
    assert [type(SEED.decode(bytes.fromhex(one))).__name__ for one in wires] == [
        "MsgInit", "MsgRequestSigIdsBlocking", "MsgReplySigIds", "MsgRequestSigs", "MsgReplySigs", "MsgDone",
    ]  # fmt: skip
    for wire in wires[3:4] + wires[5:]:
        with pytest.raises(Malformed):
            deployed.decode(bytes.fromhex(wire))
    assert isinstance(deployed.decode(bytes.fromhex(wires[4])), MsgRequestSigs), "its bodies are a request there"
    assert "MsgRequestMessages" not in asks_read and ends_read == "not read"
