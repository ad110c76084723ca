"""The nodes that the topology names and that are away, as an operator is told of them."""

from __future__ import annotations

import msgspec
from samples.dmq_network import Network

from router.service import contract as c
from services.dmq.core.peers.away import AwayPeer, as_row
from services.dmq.core.peers.known import RootGroup
from services.dmq.core.peers.topology_source import TAG, MissingName, Roots, SnapshotReport
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.node_commands import peers_table


def test_a_named_peer_that_is_away_is_told_with_since_when_and_why() -> None:
    network = Network()
    node = network.add(1)
    network.name_roots(node, 2)
    network.pass_time(3)
    [away] = node.ask("peers")["peers"]
    began_s = away["since"]
    assert (away["address"], away["state"]) == ("127.0.0.1:2", "cold")
    assert away["problem"] == "it cannot be reached: nobody listens there"
    network.pass_time(60)
    [away] = node.ask("status")["nodes"]["away"]
    assert away == {"address": "127.0.0.1:2", "since": began_s, "cause": "it cannot be reached: nobody listens there"}
    other = network.add(2)
    network.pass_time(161)
    assert [one["problem"] for one in node.ask("peers")["peers"]] == [""] and not node.ask("status")["nodes"]["away"]
    network.crash(other)
    [away] = node.ask("status")["nodes"]["away"]
    assert away["cause"] == "it has closed the connection" and away["since"] > began_s
    network.name_roots(node)
    assert node.ask("peers")["peers"] == [] and not node.ask("status")["nodes"]["away"]


def test_who_has_dialled_in_is_counted_by_door_and_prefix() -> None:
    node = Network().add(1)
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(Roots(b"1", (RootGroup((PeerAddress("45.1.1.1", 7),)),)))))
    assert node.ask("status")["nodes"]["doors"] == []
    for number, ip in enumerate(("45.1.1.1", "45.2.2.2", "45.2.2.3", "45.3.3.3")):
        node.hear(c.Opened("peers", str(number), f"{ip}:7"))
    assert node.ask("status")["nodes"]["doors"] == [{
        "listens_at": "127.0.0.1:1", "connections": 4, "strangers": 3, "prefixes": 2, "most_from": "45.2.2.0/24",
        "of_most": 2,
    }]  # fmt: skip


def test_a_named_peer_without_an_address_is_told_with_since_when_and_why() -> None:
    node = Network().add(1)
    missing = (MissingName("pool.example:6161", "no address is known for it"),)
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(Roots(b"1", (RootGroup(()),), missing))))
    began_s = node.now.wall_s
    node.pass_time(60)
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(Roots(b"2", (RootGroup(()),), missing))))
    [away] = node.ask("peers")["peers"]
    assert (away["address"], away["state"], away["since"]) == ("pool.example:6161", "cold", int(began_s))
    assert away["problem"] == "no address is known for it"
    assert node.ask("status")["nodes"]["missing"] == [missing[0]._asdict()]


def test_the_relays_of_a_snapshot_are_counted_and_listed_by_how_they_stand() -> None:
    node = Network().add(1, ledger_snapshot="snapshot.json")
    assert node.ask("status")["nodes"]["ledger"] == {"snapshot": "snapshot.json", "relays": 0, "standing": {}}
    relays = (PeerAddress("45.1.1.1", 1), PeerAddress("10.0.0.1", 1))
    report = SnapshotReport(7, ("pool.example:1",), not_looked_up=2, own=1, unreadable=1)
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(Roots(b"1", (), ledger=relays, snapshot=report))))
    assert node.ask("status")["nodes"]["ledger"]["standing"] == {
        "dialling": 1, "private": 1, "unresolved": 1, "not-looked-up": 2, "own": 1, "unreadable": 1,
    }  # fmt: skip
    assert node.ask("relays") == {
        "relays": [
            {"relay": "45.1.1.1:1", "standing": "dialling"},
            {"relay": "10.0.0.1:1", "standing": "private"},
            {"relay": "pool.example:1", "standing": "unresolved"},
        ],
        "next": 0,
    }


def test_the_time_of_a_peer_that_is_away_for_days_has_a_date() -> None:
    away = as_row("pool.example:1", AwayPeer(1_776_894_296.0, "no address is known for it"))
    heads, [row] = peers_table([away], 1_776_894_300.0)
    assert row[heads.index("SINCE (UTC)")] == "21:44:56" and row[heads.index("PROBLEM")] == away["problem"]
    heads, [row] = peers_table([away], 1_776_994_300.0)
    assert row[heads.index("SINCE (UTC)")] == "2026-04-22 21:44:56"
    _, [row] = peers_table([as_row("1.2.3.4:1", AwayPeer(0, ""))], 1_776_994_300.0)
    assert row[-1] == "-"
