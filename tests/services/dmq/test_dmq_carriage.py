"""What messages between nodes cost and how long they take, as operators are told; and what spacing lets expire."""

from __future__ import annotations

from samples.dmq import POOLS
from samples.dmq_network import Network, submit
from samples.dmq_node import Host, wire
from test_dmq_between_nodes import Liar
from test_dmq_metrics import SETTINGS, scraped

from services.dmq import reasons
from services.dmq.core.diagnosis import Facts, _turns
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.peers.hop_delay import HopDelay
from services.dmq.core.protocols import message_submission as ms
from services.dmq.events import SHOWN
from services.dmq.node_commands import about_nodes, mempool_table


def test_the_time_from_announcement_to_acceptance_and_the_bytes_for_it_are_told() -> None:
    node = Host(SETTINGS, *(pool.id for pool in POOLS))
    assert "announced" not in about_nodes(node.ask("status")["nodes"])
    liar = Liar(node)
    announced_s = node.now.mono_s
    liar.announce(wire())
    node.pass_time(0.3)
    took_s = round(node.now.mono_s - announced_s, 3)
    liar.say(ms.MsgReplySigs((wire(),)))
    status = node.ask("status")["nodes"]
    assert (status["hop_delay"]["median_s"], status["hop_delay"]["p95_s"]) == (took_s, took_s)
    assert status["accepted_bytes"] == len(wire()) < status["bytes_in"]
    assert f"a message is here {took_s:g} s after it was announced" in about_nodes(status)
    found = scraped(node)
    assert found["own_txSubmission_txsAccepted_int", ""] == found["own_connectionManager_duplexConns_int", ""] == 1
    assert found["own_connectionManager_inboundConns_int", ""] == 1
    assert found["own_connectionManager_unidirectionalConns_int", ""] == 0
    assert found["own_txSubmission_lateBodies_int", ""] == found["own_txSubmission_txsRejected_int", ""] == 0
    assert found["own_nodes_accepted_bytes_total", ""] == len(wire())
    assert found["own_nodes_bytes_in_total", ""] == status["bytes_in"] and found["own_nodes_bytes_out_total", ""] > 0
    assert found["own_nodes_bytes_per_accepted_byte", ""] == status["bytes_in"] / len(wire())
    buckets = [found["own_nodes_hop_delay_seconds_bucket", bound] for bound in ("0.25", "2.5", "+Inf")]
    assert buckets == [0, 1, 1] and round(found["own_nodes_hop_delay_seconds_sum", ""], 3) == took_s


def test_bytes_of_connections_that_have_ended_count() -> None:
    network = Network()
    node, other = network.add(1), network.add(2)
    network.name_roots(node, 2)
    network.pass_time(3)
    before = node.ask("status")["nodes"]["bytes_in"]
    network.crash(other)
    assert node.ask("status")["nodes"]["bytes_in"] >= before > 0


def test_quantiles_are_of_the_latest_and_buckets_of_all() -> None:
    delays = HopDelay()
    assert delays.as_status()["median_s"] is None
    for number in range(2000):
        delays.add(100.0 if number < 1000 else number / 1000 - 1)
    found = delays.as_status()
    assert (found["median_s"], found["p95_s"], sum(found["buckets"]), found["buckets"][-1]) == (0.5, 0.95, 2000, 1000)


def test_what_waits_for_its_turn_at_another_node_is_said_with_the_time() -> None:
    network = Network()
    node, _ = network.add(1), network.add(2)
    network.name_roots(node, 2)
    network.pass_time(3)
    for text in (b"first", b"second", b"third"):
        submit(network, node, wire(0, text))
    submit(network, node, wire(1))
    began_s = int(node.now.wall_s)
    first, second, third = (Dmq05().read(wire(0, text)).id.hex() for text in (b"first", b"second", b"third"))
    assert "to_be_announced" not in node.ask("why", first)
    turns = {one: node.ask("why", one)["to_be_announced"] for one in (second, third)}
    assert turns[second] == {"turns": {"127.0.0.1:2": began_s + 62}, "spacing_s": 62.0}
    assert turns[third]["turns"] == {"127.0.0.1:2": began_s + 124}
    assert SHOWN["to_be_announced"](turns[second]).endswith(" UTC: one message of a pool each 62 s")
    found = node.ask("mempool")["messages"]
    assert [one["turn_at"] for one in found] == [0, began_s + 62, began_s + 124, 0]
    heads, rows = mempool_table(found, node.now.wall_s)
    assert heads[-1] == "FOR ALL PEERS FROM (UTC)" and [bool(row[-1]) for row in rows] == [False, True, True, False]
    status = node.ask("status")
    assert "2 messages to be announced when the pool's turn comes" in about_nodes(status["nodes"])
    finding = _turns(Facts("socket", 0, status=status))
    said = "2 messages of 1 pool wait to be announced to 127.0.0.1:2: one of a pool each 62 s"
    assert finding.ok and finding.found.startswith(said) and "router why ID" in finding.remedy
    network.pass_time(130)
    assert not _turns(Facts("socket", 0, status=node.ask("status"))).remedy
    assert not any(one["turn_at"] for one in node.ask("mempool")["messages"])


def test_what_expires_before_a_node_would_take_it_is_logged_for_that_node() -> None:
    network = Network()
    node, other = network.add(1), network.add(2)
    network.name_roots(node, 2)
    network.pass_time(3)
    submit(network, node, wire(0, b"first"))
    late = wire(0, b"second", expires_at=int(node.now.wall_s) + 20)
    submit(network, node, late)
    network.pass_time(25)
    [note] = node.events("dmq_spaced_out")
    assert (note.reason, note.fields, note.each) == (reasons.SPACING, {"peer": "127.0.0.1:2"}, {"number": [2]})
    assert node.ask("status")["nodes"]["spaced_out"] == 1
    assert other.connect().request() == (wire(0, b"first"),) and "handover" not in note.fields
