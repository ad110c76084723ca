"""The metrics of a DMQ node: what a scraper reads of messages, rejections, consumers, stake and certificates."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from samples.dmq import BODY, POOLS, Pool
from samples.dmq_node import Host, wire
from test_dmq_between_nodes import Liar

from router.core.wire.crypto import MessageId, PublicKey, digest
from router.service import contract as c
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.peers.known import RootGroup
from services.dmq.core.peers.topology_source import TAG, Roots
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.peer_session import Side
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.settings import Settings

SETTINGS = Settings(
    local_socket="unix:x", consumers=("a=unix:a",), stake_file="stake", metrics="tcp://127.0.0.1:1",
    metrics_prefix="own_",
)  # fmt: skip


def scraped(node: Host) -> dict[tuple[str, str], float]:
    """Return the values by name and label."""
    node.hear(c.Opened("metrics", "1"))
    deeds = node.hear(c.Came("metrics", "1", b"GET /metrics HTTP/1.1\r\n\r\n"))
    [answer, end] = [one for one in deeds if isinstance(one, c.Write)]
    head, _, page = answer.data.decode().partition("\r\n\r\n")
    assert end.data == b"" and head.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain")
    families = text_string_to_metric_families(page)
    return {
        (one.name, next(iter(one.labels.values()), "")): one.value
        for family in families for one in family.samples if not one.name.endswith("_created")
    }  # fmt: skip


def test_what_is_held_and_was_rejected_is_told() -> None:
    node = Host(SETTINGS, *(pool.id for pool in POOLS))
    wires = [Dmq05().write(POOLS[number].draft(BODY)) for number in range(2)]
    for one in (*wires, wires[0], Dmq05().write(Pool(77).draft())):
        node.connect().submit(one)
    node.pass_time(2)
    found = scraped(node)
    assert found["own_submissions_submitted_counter", ""] == 4
    assert found["own_submissions_accepted_counter", ""] == 2
    assert found["own_submissions_rejected_counter", ""] == 2
    assert found["own_mempool_messages", ""] == 2 and found["own_mempool_bytes", ""] == sum(map(len, wires))
    assert found["own_rejections_total", "dmq:duplicate"] == found["own_rejections_total", "dmq:unknown-pool"] == 1
    assert found["own_consumer_lag", "a"] == 2 and found["own_consumer_connected", "a"] == 0
    assert found["own_pool_messages", POOLS[0].id.text] == 1
    assert found["own_stake_pools", ""] == 3 and found["own_stake_age_seconds", ""] == 2
    assert found["own_certificates_ending", ""] == 2, "they began 1430, and it is long after that on mainnet"
    assert found["own_certificate_periods_left", POOLS[1].id.text] == 0


def test_other_nodes_are_counted_under_the_names_of_a_dmq_node() -> None:
    node = Host(msgspec.structs.replace(SETTINGS, listen="tcp://127.0.0.1:1"), *(pool.id for pool in POOLS))
    roots = Roots(b"1", (RootGroup((PeerAddress("45.1.1.1", 1),), behind_firewall=True),))
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(roots)))
    node.pass_time(2)
    found = scraped(node)
    assert [found[f"own_peerSelection_{state}_int", ""] for state in ("Cold", "Warm", "Hot")] == [1, 0, 0]
    assert found["own_nodes_fetching", ""] == found["own_nodes_spaced_out_total", ""] == 0
    assert found["own_nodes_duplicates_total", ""] == 0


def test_who_has_dialled_in_and_what_waits_for_its_turn_is_counted() -> None:
    node = Host(msgspec.structs.replace(SETTINGS, listen="tcp://127.0.0.1:3141"), *(pool.id for pool in POOLS))
    peer = Liar(node)
    for text in (b"one", b"two"):
        node.connect().submit(wire(0, text))
    peer.session.begin(Side.CONSUMER, 0.0)
    peer.session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, 33), 0.0)
    peer.go_on()
    found = scraped(node)
    assert found["own_nodes_waiting_for_turns", ""] == found["own_nodes_waiting_messages", ""] == 1
    assert found["own_nodes_door_connections", "127.0.0.1:3141"] == 1
    assert found["own_nodes_door_strangers", "127.0.0.1:3141"] == 1


def test_requests_to_other_nodes_and_their_replies_are_counted_as_a_dmq_node_does() -> None:
    """One that fetches as well brings one of two messages; another one has not begun to provide."""
    node = Host(msgspec.structs.replace(SETTINGS, listen="tcp://127.0.0.1:1"), *(pool.id for pool in POOLS))
    both = Liar(node)
    both.session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, 33), 0.0)
    both.announce(wire(), wire(1, b"withheld"))
    both.say(ms.MsgReplySigs((wire(),)))
    Liar(node, "46.1.1.1:3141", "silent", versions=(1,))
    node.pass_time(2)
    found = {name.removeprefix("own_").removesuffix("_int"): value for (name, _), value in scraped(node).items()}
    ways = {name: found[f"connectionManager_{name}Conns"] for name in ("inbound", "duplex", "fullDuplex")}
    assert ways == {"inbound": 2, "duplex": 2, "fullDuplex": 1} and found["inboundGovernor_hot"] == 1
    assert [found[f"peerSelection_{name}Peers"] for name in ("Known", "Established", "Active")] == [2, 2, 2]
    made = {name.removeprefix("txSubmission_"): value for name, value in found.items() if "txSubmission" in name}
    assert made == {
        "txIdMessagesSent": 2, "txIdBlockingReqsSent": 2, "txIdPipelinedReqsSent": 0, "txIdsRequested": 66,
        "txIdRepliesReceived": 1, "txIdsReceived": 2, "txMessagesSent": 1, "txsRequested": 2, "txRepliesReceived": 1,
        "txsReceived": 1, "txsOmitted": 1, "txsAccepted": 1, "txsRejected": 0, "lateBodies": 0,
    }  # fmt: skip


def test_the_groups_messages_are_counted_if_there_is_a_group() -> None:
    node = Host(msgspec.structs.replace(SETTINGS, group="topic"), *(pool.id for pool in POOLS))
    for body in (Dmq05().write(POOLS[0].draft(BODY)), Dmq05().write(Pool(77).draft(BODY))):
        node.hear(c.Message(MessageId(digest(body)), body, group=PublicKey(b"g" * 32)))
    node.pass_time(2)
    found = scraped(node)
    assert found["own_group_heard_total", ""] == found["own_group_may_publish", ""] == 1
    assert found["own_group_rejections_total", "dmq:unknown-pool"] == 1
    assert found["own_group_published_total", ""] == found["own_group_duplicates_total", ""] == 0
    assert ("own_group_heard_total", "") not in scraped(Host(SETTINGS, POOLS[0].id))


def test_clients_without_a_place_and_those_that_gave_way_are_counted() -> None:
    node = Host(msgspec.structs.replace(SETTINGS, clients_max=2), POOLS[0].id)
    for _ in range(5):
        client = node.connect()
    node.connect().request()
    client.request()
    node.connect()
    node.pass_time(2)
    found = scraped(node)
    assert (found["own_clients", ""], found["own_clients_broken_off_total", ""]) == (2, 5)
    assert (found["own_clients_gave_way_total", ""], found["own_clients_without_place_total", ""]) == (4, 1)


def test_names_without_suffix_and_a_door_that_is_closed() -> None:
    node = Host(msgspec.structs.replace(SETTINGS, metrics_suffix=False), *(pool.id for pool in POOLS))
    assert scraped(node)["own_submissions_accepted", ""] == 0
    assert not Host(msgspec.structs.replace(SETTINGS, metrics=""), POOLS[0].id).rules.doors()["metrics"]
