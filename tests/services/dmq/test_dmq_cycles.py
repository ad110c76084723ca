"""The cycles of a DMQ node with peers: what waits for the next words of other nodes, what does not, and its ticks."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from samples.dmq import POOLS
from samples.dmq_network import Network, submit
from samples.dmq_node import host, wire

from router.core.link.machine import Agency
from router.core.wire.crypto import SigningKey
from router.service import contract as c
from services.dmq.core.admission import AT_ONCE_MAX, FromPeer, FromUnicast, Source
from services.dmq.core.messages.signatures import SignatureCheck
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import notification
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.submission import MsgAcceptMessage
from services.dmq.core.stake.source import moment_of
from services.dmq.signature_job import verify_batch


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_node_with_peers_lets_them_wait_for_a_moment_and_nobody_else(network: Network) -> None:
    node, other = network.add(1), network.add(2)
    assert node.rules.batch_delay_s(node.now) == 0
    network.name_roots(node, 2)
    network.pass_time(3)
    assert node.rules.batch_delay_s(node.now) > 0
    signer, consumer = node.connect(), node.connect()
    assert submit(network, other, wire()) == MsgAcceptMessage() and consumer.request() == (wire(),)
    request = sdu((notification.NUMBER, Agency.INITIATOR), b"\x82\x00\xf5", 0)
    came = {who: c.Came("local", who.peer, request) for who in (signer, consumer)}
    urgent = [c.Asked(1, "status"), came[signer], c.Opened("local", "new"), c.Computed("signatures 1")]
    patient = [c.Tick(), c.Came("peers", "1", b"more"), c.Opened("peers", "2"), came[consumer]]
    assert all(node.rules.is_urgent(heard, node.now) for heard in urgent)
    assert not any(node.rules.is_urgent(heard, node.now) for heard in patient)
    network.pass_time(1)
    assert not node.rules.is_urgent(came[consumer], node.now), "there is nothing that it has not got"
    assert node.rules.is_urgent(c.Came("local", consumer.peer, b"other words"), node.now)
    assert submit(network, other, wire(1, b"more")) == MsgAcceptMessage()
    network.pass_time(3)
    assert node.rules.is_urgent(came[consumer], node.now), "there is a message for it, and its last reply is long past"


def test_a_tick_is_asked_for_no_sooner_than_the_next_cycle_with_other_nodes(network: Network) -> None:
    node, _ = network.add(1), network.add(2)
    network.name_roots(node, 2)
    network.pass_time(3)
    consumer, node.gathers = node.connect(), True
    for number in range(3):
        before_s = node.wake_s
        assert submit(network, node, wire(number)) == MsgAcceptMessage()
        if consumer.heard or not number:
            consumer.request()
        next_s = node.now.wall_s + node.rules.batch_delay_s(node.now)
        assert node.wake_s >= min(before_s, next_s) - 0.001, "one that was asked for before still stands"


def test_ticks_come_while_a_client_hands_in_without_a_pause(network: Network) -> None:
    """Each cycle that follows from a client asks anew for the tick that is due."""
    node, _ = network.add(1), network.add(2)
    network.name_roots(node, 2)
    network.pass_time(3)
    assert submit(network, node, wire(0, expires_at=int(node.now.wall_s) + 5)) == MsgAcceptMessage()
    signer, late, node.gathers, ticks = node.connect(), wire(1, expires_at=int(node.now.wall_s) - 100), True, 0
    for _ in range(1000):
        node.now = c.Now(node.now.wall_s + 0.01, node.now.mono_s + 0.01)
        if node.wake_s <= node.now.wall_s:
            node.wake_s, ticks = inf, ticks + 1
            node.hear(c.Tick())
        signer.submit(late)
    assert ticks >= 9 and not len(node.rules._holdings.mempool)


@pytest.mark.parametrize("for_client", (False, True))
@pytest.mark.parametrize("behind", (False, True))
def test_what_is_verified_for_other_nodes_alone_waits_for_their_next_words(for_client: bool, behind: bool) -> None:
    """`behind`: the second message comes when the batch is under way, and waits for its end."""
    node = host()
    admission, moment, peer = node.rules._admission, moment_of(node.now), FromPeer("127.0.0.1:2")
    sources = peer, FromUnicast(SigningKey(bytes(32)).public) if for_client else peer
    jobs = list[c.Deed]()
    for number, source in enumerate(sources):
        assert admission.judge(source, Dmq05().read(wire(number)), moment) is None
        if behind or number:
            jobs += admission.batches(moment)
    [job] = jobs
    assert isinstance(job, c.Compute)
    assert node.rules.is_urgent(c.Computed(job.tag, verify_batch(job.argument)), node.now) is for_client


def test_a_certificate_is_verified_by_one_process_of_a_node_alone() -> None:
    node = host()
    admission, moment = node.rules._admission, moment_of(node.now)

    def sent(body: bytes) -> SignatureCheck:
        assert admission.judge(FromPeer("127.0.0.1:2"), Dmq05().read(wire(0, body)), moment) is None
        [job] = admission.batches(moment)
        assert isinstance(job, c.Compute)
        [verdict] = admission.verified(c.Computed(job.tag, verify_batch(job.argument)), moment)
        assert verdict.row is not None
        [check] = msgspec.msgpack.decode(job.argument, type=list[SignatureCheck])
        return check

    assert [sent(bytes(90 + number)).is_certified for number in range(3)] == [False, True, True]


@pytest.mark.parametrize("for_client", (False, True))
def test_more_is_verified_at_once_where_no_client_waits(for_client: bool) -> None:
    node = host(pause_s=0.0)
    admission, moment = node.rules._admission, moment_of(node.now)
    sources: list[Source] = [FromPeer("127.0.0.1:2")] * (AT_ONCE_MAX + 1)
    if for_client:
        sources[0] = FromUnicast(SigningKey(bytes(32)).public)
    for number, source in enumerate(sources):
        message = Dmq05().read(wire(number % len(POOLS), b"%d" % number))
        assert admission.judge(source, message, moment) is None
    found = admission.at_once(moment)
    assert len(found) == (0 if for_client else AT_ONCE_MAX + 1)
    assert len(admission.batches(moment)) == for_client, "another process verifies them"
