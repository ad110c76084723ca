"""Peers of a DMQ node that withhold, replay, send a byte a second, or have a wrong clock, and a partition."""

from __future__ import annotations

import pytest
from samples.dmq import BODY, POOLS
from samples.dmq_network import Network, submit
from samples.dmq_node import Host, wire
from test_dmq_between_nodes import Liar, spoilt

from router.core.link.machine import Agency
from router.service import contract as c
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.submission import MsgAcceptMessage
from services.dmq.settings import Settings


@pytest.fixture
def node() -> Host:
    return Host(Settings(stake_file="stake", listen="tcp://127.0.0.1:1"), *[pool.id for pool in POOLS])


def test_ids_without_bodies_are_forgotten_and_keep_nobodys_messages_out(node: Host) -> None:
    """As many as a peer likes: it is counted, and what it withholds is kept nowhere."""
    liar, honest = Liar(node), Liar(node, "46.1.1.1:3141", "honest")
    for number in range(20):
        ids = [(bytes((number, at)) * 16, 1150) for at in range(20)]
        liar.say(ms.MsgReplySigIds(tuple(ids)))
        liar.say(ms.MsgReplySigs(()))
    fetching = node.rules._nodes.peers.exchange.fetching
    assert fetching.counts("45.1.1.1:3141") == (400, 400) and repr(fetching).endswith(" 0 messages wanted>")
    honest.announce(wire())
    honest.say(ms.MsgReplySigs((wire(),)))
    assert node.connect().request() == (wire(),) and not honest.is_closed


def test_what_was_taken_before_a_restart_is_not_fetched_again_nor_taken_of_a_client(node: Host) -> None:
    before = Liar(node)
    before.announce(wire())
    before.say(ms.MsgReplySigs((wire(),)))
    node.crash()
    again = Liar(node, name="again")
    assert again.asked() == [ms.MsgRequestSigIdsBlocking(0, 33)]
    again.announce(wire())
    assert again.asked() == [ms.MsgRequestSigIdsBlocking(1, 33)], "it is acknowledged, and no body is asked for"
    assert node.connect().submit(wire()) != MsgAcceptMessage()
    assert node.connect().request() == (wire(),)


@pytest.mark.parametrize(("hours", "word"), ((1, "dmq:expiry-too-far"), (-1, "dmq:expired")))
def test_a_peer_whose_clock_is_an_hour_off_is_counted_and_stays(node: Host, hours: int, word: str) -> None:
    now_s = int(node.now.wall_s)
    off, right = (Dmq05().write(POOLS[0].draft(BODY, expires_at=now_s + 900 + more)) for more in (hours * 3600, 0))
    peer = Liar(node)
    peer.announce(off, right)
    peer.say(ms.MsgReplySigs((off, right)))
    assert not peer.is_closed and node.connect().request() == (right,)
    assert node.ask("peers")["peers"][0]["rejected"] == {word: 1}


def test_what_a_peer_was_refused_counts_for_its_address_when_it_dials_again(node: Host) -> None:
    """A wrong signature ends the connection; the next one of that address shows what the metric counts."""
    peer = Liar(node)
    peer.announce(wire())
    peer.say(ms.MsgReplySigs((spoilt(),)))
    assert peer.is_closed
    answer = node.ask("peers")
    assert answer["peers"] == [] and answer["rejected_of_others"] == {"dmq:bad-signature": 1}
    Liar(node, name="again")
    answer = node.ask("peers")
    assert answer["peers"][0]["rejected"] == node.ask("status")["nodes"]["rejections"] == {"dmq:bad-signature": 1}
    assert not answer["rejected_of_others"]


@pytest.mark.parametrize(
    ("only_dials", "each_in_an_sdu", "limit_s", "cause"),
    (
        (False, True, 20, "StSigIdsBlocking of protocol 11 took 20 s"),
        (False, False, 20, "StSigIdsBlocking of protocol 11 took 20 s"),
        (True, True, 60, "a part of a message came, and the rest did not within 60 s"),
        (True, False, 30, "a part of an SDU came, and the rest did not in time"),
    ),
)
def test_a_peer_that_sends_a_byte_a_second_is_cut_off_in_time_and_keeps_nobodys_messages_waiting(
    node: Host, only_dials: bool, each_in_an_sdu: bool, limit_s: int, cause: str
) -> None:
    """One that is fetched from answers by a byte a second; one that only dials asks so."""
    slow, honest = Liar(node, only_dials=only_dials), Liar(node, "46.1.1.1:3141", "honest")
    channel = ms.NUMBER, Agency.INITIATOR if only_dials else Agency.RESPONDER
    payload = ms.VERSIONS[2].encode(ms.MsgRequestSigs((bytes(32),) * 3) if only_dials else ms.MsgReplySigs((wire(),)))
    pieces = [bytes((one,)) for one in (payload if each_in_an_sdu else sdu(channel, payload, 0))]
    taken: list[bytes] = []
    for second, piece in enumerate(pieces):
        node.hear(c.Came("peers", slow.name, sdu(channel, piece, 0) if each_in_an_sdu else piece))
        if second % 10 == 0:
            taken.append(wire(0, b"%d " % second))
            honest.announce(taken[-1])
            honest.say(ms.MsgReplySigs((taken[-1],)))
        node.pass_time(1)
        if c.Write("peers", slow.name, b"") in node.outward:
            node.hear(c.Came("peers", slow.name, b""))
            break
    assert second + 1 == limit_s and not honest.is_closed
    assert node.connect().request() == tuple(taken)
    node.pass_time(11)
    assert [str(one.fields["cause"]) for one in node.events("dmq_broken_off")] == [f"45.1.1.1:3141: {cause}"]


def test_an_id_that_another_pool_has_taken_is_no_way_to_keep_the_right_one_out(node: Host) -> None:
    """Another pool signs the same payload: the signer of the right one is told that it was taken, and consumers get
    both."""
    right, other = wire(), Dmq05().write(POOLS[1].draft(BODY))
    assert Dmq05().read(right).id == Dmq05().read(other).id
    peer = Liar(node)
    peer.announce(other)
    peer.say(ms.MsgReplySigs((other,)))
    assert node.connect().submit(right) == MsgAcceptMessage()
    assert node.connect().request() == (other, right)


def test_both_sides_of_a_partition_have_all_when_it_is_over() -> None:
    network = Network()
    nodes = [network.add(port) for port in range(1, 5)]
    for port, node in enumerate(nodes, 1):
        network.name_roots(node, *[other for other in range(1, 5) if other != port])
    network.pass_time(4)
    sides = nodes[:2], nodes[2:]
    network.divide(sides[0])
    network.pass_time(2)
    wires = wire(0, b"of one side"), wire(1, b"of the other")
    for side, one in zip(sides, wires, strict=True):
        assert submit(network, side[0], one) == MsgAcceptMessage()
    network.pass_time(3)
    assert [node.connect().request() for node in nodes] == [(wires[0],)] * 2 + [(wires[1],)] * 2
    network.divide(())
    network.pass_time(90)
    assert {tuple(sorted(node.connect().request() or ())) for node in nodes} == {tuple(sorted(wires))}
    assert not any(one["rejected"] for node in nodes for one in node.ask("peers")["peers"])
