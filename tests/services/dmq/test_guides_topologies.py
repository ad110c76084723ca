"""The topologies of mithril's guide: a relay that names the bootstrap peer alone, a producer that lets nobody in."""

from __future__ import annotations

import json

import msgspec
from samples.dmq import BETWEEN_NODES, POOLS
from samples.dmq_network import Network, submit
from samples.dmq_node import Host, wire

from router.service import contract as c
from services.dmq.core.peers.topology import read_topology
from services.dmq.core.peers.topology_source import TAG, Roots
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.core.protocols.submission import MsgAcceptMessage
from services.dmq.settings import Settings


def read(network: Network, host: Host, name: str, port: int) -> None:
    """Let a node read a topology of the guide, whose one peer is at this port."""
    [file] = [one["json"] for one in BETWEEN_NODES["topologies"] if one["name"] == name]
    topology = read_topology(json.dumps(file).encode())
    roots = Roots(bytes(4), topology.groups(lambda point: [PeerAddress("127.0.0.1", port)]))
    network.hear(host, c.Computed(TAG, msgspec.msgpack.encode(roots)))


def test_what_a_producers_signer_hands_in_is_out_within_five_seconds() -> None:
    network = Network()
    bootstrap, relay = network.add(1), network.add(2)
    producer = Host(Settings(stake_file="stake", peer_sharing=False), *[pool.id for pool in POOLS])
    network.hosts["127.0.0.1:3"] = producer
    read(network, relay, "the guide's relay", 1)
    read(network, producer, "the guide's producer", 2)
    network.pass_time(3)
    assert submit(network, producer, wire()) == MsgAcceptMessage()
    network.pass_time(5)
    assert bootstrap.connect().request() == relay.connect().request() == (wire(),)
    assert ("127.0.0.1:2", "127.0.0.1:3") not in network.dials
    assert not producer.ask("status")["nodes"]["away"]
