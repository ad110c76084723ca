"""The nodes that the topology names and that are away, as an operator is told of them."""

from __future__ import annotations

from samples.dmq_network import Network


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
