"""DMQ nodes beside each other without sockets: what one is given reaches the consumers of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from samples.dmq import BODY, POOLS, Pool
from samples.dmq_network import Network, submit
from samples.dmq_node import Host, wire

from router.core.link.machine import Agency
from router.service import contract as c
from services.dmq.core.holdings import MESSAGE
from services.dmq.core.messages.signed_message import Cip29ffe0e, Dmq05
from services.dmq.core.networks import network_of
from services.dmq.core.peers.acts import Cool, Heat
from services.dmq.core.peers.known import RootGroup
from services.dmq.core.peers.peers import address_of
from services.dmq.core.peers.provider import Provider
from services.dmq.core.peers.topology_source import TAG, Roots
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.node_handshake import NodeData
from services.dmq.core.protocols.peer_session import PeerSaid, PeerSession, Side
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.core.protocols.submission import MsgAcceptMessage
from services.dmq.core.rows import key_of
from services.dmq.core.stake.chain_time import MAINNET
from services.dmq.settings import Settings


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_message_handed_in_at_one_node_reaches_a_consumer_of_the_other(network: Network) -> None:
    producer, relay = network.add(1), network.add(2)
    network.name_roots(producer, 2)
    network.pass_time(3)
    assert submit(network, producer, wire()) == MsgAcceptMessage()
    network.pass_time(2)
    assert relay.connect().request() == (wire(),)
    assert relay.ask("status")["accepted"] == 1
    [peer] = relay.ask("peers")["peers"]
    assert (peer["address"], peer["direction"], peer["state"]) == ("127.0.0.1:1", "inbound", "hot")
    assert (peer["announced"], peer["first"], peer["accepted"], peer["rejected"]) == (1, 1, 1, {})
    [note] = relay.events("dmq_accepted")
    assert note.each["from"] == ["127.0.0.1:1"] and "from" not in producer.events("dmq_accepted")[0].each
    own_id = Dmq05().read(wire()).id.hex()
    assert producer.ask("why", own_id)["taken_by"] == "127.0.0.1:2"
    assert {key: relay.ask("why", own_id)[key] for key in ("announced_by", "given_by")} == {
        "announced_by": "127.0.0.1:1", "given_by": "127.0.0.1:1",
    }  # fmt: skip
    [back] = producer.ask("peers")["peers"]
    assert back["announced"] == 0, "what a peer has announced itself is not announced to it"


def test_ten_nodes_give_each_other_all_messages_once(network: Network) -> None:
    """A ring with chords: each dials three."""
    nodes = [network.add(port) for port in range(10)]
    for port, node in enumerate(nodes):
        network.name_roots(node, *[(port + step) % 10 for step in (1, 2, 4)])
    network.pass_time(4)
    wires = [wire(number % 3, b"%d" % number) for number in range(9)]
    for number, one in enumerate(wires):
        assert submit(network, nodes[number], one) == MsgAcceptMessage()
    network.pass_time(140)
    for node in nodes:
        assert sorted(node.connect().request() or ()) == sorted(wires)
        told = node.ask("peers")["peers"]
        assert sum(one["accepted"] for one in told) == len(wires) - (node is not nodes[9]), told
        assert not any(one["rejected"] for one in told)
    bodies = sum(data.count(wires[0]) for _, _, data in network.wires)
    assert bodies == 9, "each of the others was given it once"


def test_a_node_that_was_away_gets_each_pools_newest_first_and_nothing_too_fast(network: Network) -> None:
    """As a dmq-node 0.7 has it: it would cut off who gives it two messages of one pool within a minute."""
    node, away = network.add(1), network.add(2)
    wires = [[wire(pool, b"%d of %d" % (number, pool)) for number in range(3)] for pool in range(3)]
    for some in zip(*wires, strict=True):
        for one in some:
            assert submit(network, node, one) == MsgAcceptMessage()
        network.pass_time(70)
    network.name_roots(away, 1)
    network.pass_time(3)
    assert sorted(away.connect().request() or ()) == sorted(some[2] for some in wires)
    network.pass_time(57)
    assert len(away.connect().request() or ()) == 3
    network.pass_time(5)
    assert len(away.connect().request() or ()) == 6
    network.pass_time(65)
    assert len(away.connect().request() or ()) == 9


def test_a_producer_that_lets_nobody_in_is_heard_in_both_versions(network: Network) -> None:
    for port, settings in ((1, {}), (3, {"version_1_peers": ("127.0.0.1:2",)})):
        relay = network.add(2)
        producer = network.add(port, **settings)
        network.name_roots(producer, 2)
        network.pass_time(3)
        assert submit(network, producer, wire(1, b"%d" % port)) == MsgAcceptMessage()
        network.pass_time(3)
        assert relay.connect().request() == (wire(1, b"%d" % port),)
        assert {one["version"] for one in relay.ask("peers")["peers"]} == {2 - bool(settings)}
        assert submit(network, relay, wire(2, b"back")) == MsgAcceptMessage()
        network.pass_time(3)
        assert wire(2, b"back") in (producer.connect().request() or ()), "and hears what its relay has"


def test_nodes_of_the_seeds_revision_speak_its_numbers_and_pass_on_what_is_left_of_a_ttl(network: Network) -> None:
    """A ring that is dialled one way: where a message has expired, another node would give it once more."""
    cip = Cip29ffe0e()
    nodes = [network.add(port, revision=cip.name) for port in range(4)]
    for port, node in enumerate(nodes):
        network.name_roots(node, (port + 1) % 4)
    network.pass_time(3)
    period = MAINNET.kes_period_at(nodes[0].now.wall_s)
    one = cip.write(Pool(0, start_period=period).draft(ttl_s=30))
    assert submit(network, nodes[2], one) == MsgAcceptMessage()
    network.pass_time(3)
    for node in nodes:
        assert node.kept[MESSAGE + key_of(1)] == cip.notified(cip.read(one))
        assert {peer["version"] for peer in node.ask("peers")["peers"]} == {1}
    given = [data for _, _, data in network.wires if cip.read(one).body in data]
    own_id = cip.read(one).id
    requests = [data for _, _, data in network.wires if ms.SEED.encode(ms.MsgRequestSigs((own_id,))) in data]
    assert len(given) == len(requests) == 3, "each of the others was given it once"
    ttls = [cip.read(data[data.index(b"\x86\x58\x20" + own_id) :]).ttl_s or 0 for data in given]
    assert max(ttls) <= 29 and min(ttls) <= 28, "a second is taken from it at each hop"
    network.pass_time(28)
    assert [node.ask("status")["mempool"]["messages"] for node in nodes] == [0, 0, 0, 0]
    assert not any(one["rejected"] for node in nodes for one in node.ask("peers")["peers"])


def test_a_message_of_the_seeds_that_lives_too_short_to_be_given_was_taken_by_nobody(network: Network) -> None:
    cip = Cip29ffe0e()
    node, other = (network.add(port, revision=cip.name) for port in range(2))
    network.name_roots(node, 1)
    network.pass_time(3)
    one = cip.write(Pool(0, start_period=MAINNET.kes_period_at(node.now.wall_s)).draft(ttl_s=1))
    assert submit(network, node, one) == MsgAcceptMessage()
    assert not any(cip.read(one).body in data for _, _, data in network.wires)
    assert "taken_by" not in node.ask("why", cip.read(one).id.hex())
    assert other.ask("status")["mempool"]["messages"] == 0


def test_a_root_to_which_the_topology_only_dials_may_not_fetch_over_that_connection(network: Network) -> None:
    node, other = network.add(1), network.add(2)
    addresses = (PeerAddress("127.0.0.1", 2),)
    roots = Roots(bytes(4), (RootGroup(addresses, initiator_only=True),))
    network.hear(node, c.Computed(TAG, msgspec.msgpack.encode(roots)))
    network.pass_time(3)
    submit(network, other, wire(0, b"theirs"))
    submit(network, node, wire(1, b"ours"))
    network.pass_time(3)
    assert sorted(node.connect().request() or ()) == sorted([wire(0, b"theirs"), wire(1, b"ours")])
    assert other.connect().request() == (wire(0, b"theirs"),)
    assert [one["state"] for one in other.ask("peers")["peers"]] == ["warm"]


def test_a_root_that_is_struck_out_of_the_topology_is_left_and_one_that_stays_is_not_cut(network: Network) -> None:
    node, *_ = (network.add(port) for port in range(1, 4))
    network.name_roots(node, 2, 3)
    network.pass_time(3)
    assert [one["state"] for one in node.ask("peers")["peers"]] == ["hot", "hot"]
    network.name_roots(node, 3)
    network.pass_time(7)
    [left] = node.ask("peers")["peers"]
    assert left["address"] == "127.0.0.1:3" and left["state"] == "hot" and len(network.dials) == 2
    assert node.ask("status")["nodes"]["cold"] == 0


def test_a_node_is_back_after_a_crash_with_what_it_had(network: Network) -> None:
    one, other = network.add(1), network.add(2)
    network.name_roots(one, 2)
    network.pass_time(3)
    submit(network, one, wire(0, b"before"))
    network.pass_time(2)
    network.crash(other)
    network.pass_time(1)
    submit(network, one, wire(1, b"meanwhile"))
    network.pass_time(30)
    assert sorted(other.connect().request() or ()) == sorted([wire(0, b"before"), wire(1, b"meanwhile")])
    assert not any(one["rejected"] for one in other.ask("peers")["peers"])


class Liar:
    """The other end of a connection that a node has accepted: a session that says what the test wants."""

    def __init__(
        self,
        host: Host,
        address: str = "45.1.1.1:3141",
        name: str = "liar",
        versions: tuple[int, ...] = (1, 2),
        *,
        only_dials: bool = False,
    ) -> None:
        self.host, self.name = host, name
        data = NodeData(network_of(host.settings.network).magic, only_dials)
        self.session = PeerSession(Agency.INITIATOR, data, 0.0, {one: ms.VERSIONS[one] for one in versions})
        self.events: list[Any] = []
        self.is_closed = False
        host.hear(c.Opened("peers", name, address))
        self.go_on()

    def go_on(self) -> None:
        """Pass on what both have said."""
        while True:
            while sdu := self.session.take(0):
                self.host.hear(c.Came("peers", self.name, sdu))
            outward = self.host.outward
            written = [one for one in outward if isinstance(one, c.Write) and one.peer == self.name]
            self.host.outward = [one for one in outward if one not in written]
            for deed in written:
                self.is_closed |= not deed.data
                self.events += self.session.hear(deed.data, 0.0) if deed.data else []
            if self.is_closed:
                self.host.hear(c.Came("peers", self.name, b""))
            if self.is_closed or not (written or self.session.has_to_write):
                return

    def asked(self) -> list[ms.Message]:
        """Return what the node has asked its provider since the last call."""
        found = [one.message for one in self.events if isinstance(one, PeerSaid) and one.side is Side.PROVIDER]
        self.events.clear()
        return found

    def say(self, message: ms.Message) -> None:
        self.session.say(Side.PROVIDER, message, 0.0)
        self.go_on()

    def announce(self, *wires: bytes, size: int = 0) -> None:
        ids = tuple((Dmq05().read(one).id, size or len(one)) for one in wires)
        self.say(ms.MsgReplySigIds(ids))


@pytest.fixture
def node() -> Host:
    return Host(Settings(stake_file="stake", listen="tcp://127.0.0.1:1"), *[pool.id for pool in POOLS])


def spoilt(number: int = 0) -> bytes:
    """Return a message whose KES signature is wrong."""
    found, message = bytearray(wire(number)), Dmq05().read(wire(number))
    found[found.index(message.kes_signature)] ^= 1
    return bytes(found)


def test_a_stranger_that_has_dialled_in_is_asked_at_once(node: Host) -> None:
    liar = Liar(node)
    assert liar.asked() == [ms.MsgRequestSigIdsBlocking(0, 33)]
    liar.announce(wire())
    assert liar.asked() == [ms.MsgRequestSigs((Dmq05().read(wire()).id,))]
    liar.say(ms.MsgReplySigs((wire(),)))
    assert liar.asked() == [ms.MsgRequestSigIdsBlocking(1, 33)] and node.connect().request() == (wire(),)


@pytest.mark.parametrize(
    ("bad", "cause"),
    (
        (spoilt(), "InvalidKESSignature"),
        (b"\x80", "malformed"),
        (wire(1, b"not asked for"), "SigNotRequested"),
        (wire() + b"\x00", "malformed"),
    ),
)
def test_a_peer_that_brings_what_is_wrong_by_itself_is_cut_off_and_named(node: Host, bad: bytes, cause: str) -> None:
    liar, other = Liar(node), Liar(node, "46.1.1.1:3141", "other")
    liar.announce(wire())
    other.announce(wire())
    liar.say(ms.MsgReplySigs((bad,)))
    assert liar.is_closed and not other.is_closed
    other.go_on()
    assert ms.MsgRequestSigs((Dmq05().read(wire()).id,)) in other.asked(), "another one is asked"
    other.say(ms.MsgReplySigs((wire(),)))
    while node.waiting:
        node.compute()
    assert node.connect().request() == (wire(),)
    node.pass_time(11)
    assert any(cause in str(one.fields["cause"]) for one in node.events("dmq_broken_off"))


@pytest.mark.parametrize("lives_s", (-5, 90_000))
def test_a_message_that_only_claims_an_id_keeps_nobody_from_bringing_the_right_one(node: Host, lives_s: int) -> None:
    """Expired or not, it says nothing of the message whose id it has."""
    right, false = wire(), Dmq05().write(POOLS[0].draft(BODY, expires_at=int(node.now.wall_s) + lives_s))
    claimed = false.replace(Dmq05().read(false).id, Dmq05().read(right).id, 1)
    liar, other = Liar(node), Liar(node, "46.1.1.1:3141", "other")
    liar.announce(claimed)
    other.announce(right)
    liar.say(ms.MsgReplySigs((claimed,)))
    assert liar.is_closed and not other.is_closed
    other.go_on()
    other.say(ms.MsgReplySigs((right,)))
    assert node.connect().request() == (right,)
    node.pass_time(11)
    assert any("InvalidSigId" in str(one.fields["cause"]) for one in node.events("dmq_broken_off"))


def test_a_peer_whose_announced_size_is_wrong_is_cut_off(node: Host) -> None:
    liar = Liar(node)
    liar.announce(wire(), size=len(wire()) + 33)
    liar.say(ms.MsgReplySigs((wire(),)))
    assert liar.is_closed and node.connect().request() is None


def test_what_honest_peers_bring_too_late_or_too_often_cuts_nobody_off(node: Host) -> None:
    """Expired ones, of a pool that is not known here, and more of a pool than its pause allows."""
    liar = Liar(node)
    late = Dmq05().write(POOLS[0].draft(BODY, expires_at=int(node.now.wall_s) - 5))
    stranger = Dmq05().write(Pool(77).draft())
    liar.announce(late, stranger)
    liar.say(ms.MsgReplySigs((late, stranger)))
    assert not liar.is_closed
    flood = [wire(0, b"%d" % number) for number in range(60)]
    for at in range(0, 60, 30):
        liar.asked()
        liar.announce(*flood[at : at + 30])
        [ids] = [one.ids for one in liar.asked() if isinstance(one, ms.MsgRequestSigs)]
        liar.say(ms.MsgReplySigs(tuple(one for one in flood if Dmq05().read(one).id in ids)))
        while node.waiting:
            node.compute()
        liar.go_on()
    assert not liar.is_closed and len(node.connect().request() or ()) == 38
    [peer] = node.ask("peers")["peers"]
    assert peer["accepted"] == 38
    assert peer["rejected"] == {"dmq:expired": 1, "dmq:too-frequent": 22, "dmq:unknown-pool": 1}


def test_bodies_that_a_peer_withholds_are_asked_of_another_within_a_second(node: Host) -> None:
    liar, other = Liar(node), Liar(node, "46.1.1.1:3141", "other")
    liar.announce(wire())
    other.announce(wire())
    other.asked()
    node.pass_time(0.7)
    other.go_on()
    assert [type(one) for one in other.asked()] == [ms.MsgRequestSigs]
    node.pass_time(10)
    liar.go_on()
    assert liar.is_closed and not other.is_closed, "ten seconds are all it has for an answer"


def test_a_peer_that_breaks_a_rule_of_the_window_is_cut_off_by_its_name(node: Host) -> None:
    liar = Liar(node)
    liar.session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, 133), 0.0)
    liar.go_on()
    node.pass_time(11)
    assert liar.is_closed
    assert any("RequestedTooManySigIds" in str(one.fields["cause"]) for one in node.events("dmq_broken_off"))


def test_nothing_is_fetched_before_messages_can_be_judged() -> None:
    node = Host(Settings(stake_file="stake", listen="tcp://127.0.0.1:1"), *[pool.id for pool in POOLS])
    node.computes = False
    node.kept.clear()
    node.start()
    liar = Liar(node)
    assert liar.asked() == []
    node.computes = True
    node.pass_time(1)
    while node.waiting:
        node.compute()
    liar.go_on()
    assert liar.asked() == [ms.MsgRequestSigIdsBlocking(0, 33)]


def test_nothing_is_fetched_without_stake_and_all_of_it_when_there_is_some() -> None:
    """Each message would be fetched from each peer, refused, and lost."""
    node = Host(Settings(stake_file="stake", listen="tcp://127.0.0.1:1"), has_stake=False)
    liar = Liar(node)
    node.pass_time(10)
    assert liar.asked() == [] and not liar.is_closed
    node.stake = Host(Settings(stake_file="stake"), *[pool.id for pool in POOLS]).stake
    for _ in range(7):
        node.pass_time(10)
        liar.go_on()
    assert liar.asked() == [ms.MsgRequestSigIdsBlocking(0, 33)]


def test_nothing_is_fetched_while_the_disk_is_full_and_all_of_it_afterwards(node: Host) -> None:
    liar, (first, second) = Liar(node), (wire(), wire(1, b"second"))
    liar.announce(first)
    node.kept.has_room = False
    liar.say(ms.MsgReplySigs((first,)))
    liar.asked()
    node.pass_time(5)
    liar.go_on()
    assert liar.asked() == [] and not liar.is_closed
    node.kept.has_room = True
    node.pass_time(1)
    liar.go_on()
    assert liar.asked() == [ms.MsgRequestSigs((Dmq05().read(first).id,))]
    liar.say(ms.MsgReplySigs((first,)))
    liar.announce(second)
    liar.say(ms.MsgReplySigs((second,)))
    assert node.connect().request() == (first, second)


@pytest.mark.parametrize(
    ("peer", "is_right"), (("10.0.0.2:6161", True), ("[2001:DB8::1]:1", True), ("relay:6161", False))
)
def test_a_peer_of_version_1_is_named_by_its_address_in_any_spelling(peer: str, is_right: bool) -> None:
    assert bool(list(Settings(version_1_peers=(peer,)).problems())) is not is_right
    assert address_of("[2001:DB8::1]:1") == PeerAddress("2001:db8::1", 1)


def test_a_peer_that_waits_for_ids_costs_nothing_until_there_is_one(
    node: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar, woken = Liar(node), list[float]()
    liar.session.say(Side.CONSUMER, ms.MsgRequestSigIdsBlocking(0, 33), 0.0)
    liar.go_on()
    node.pass_time(1)
    monkeypatch.setattr(Provider, "wake", lambda of, now: woken.append(now.mono_s))
    node.pass_time(3)
    liar.go_on()
    assert woken == []
    assert node.connect().submit(wire()) == MsgAcceptMessage() and len(woken) == 1


def test_a_dial_that_fails_since_the_other_node_has_dialled_meanwhile_is_no_cause(node: Host) -> None:
    for address in ("45.1.1.1:3141", "46.1.1.1:3141"):
        Liar(node, "45.1.1.1:3141", address)
        node.hear(c.ConnectionFailed("peers", f"dial {address}", "address already in use"))
    assert list(node.ask("status")["nodes"]["causes"]) == ["46.1.1.1:3141 cannot be reached: address already in use"]


def test_a_node_that_only_dials_lets_nobody_in() -> None:
    settings = Settings(listen="tcp://0.0.0.0:1", diffusion_mode="InitiatorOnly")
    assert (
        not Host(settings, POOLS[0].id).rules.doors()["peers"]
        and dict(settings.at_start(Path("/"))).get("nodes") is None
    )


def test_a_peer_of_version_1_that_gave_way_is_asked_on_where_its_window_stands(node: Host) -> None:
    liar = Liar(node, versions=(1,))
    liar.say(ms.MsgInit())
    assert liar.asked() == [ms.MsgRequestSigIdsBlocking(0, 33)]
    peers = node.rules._nodes.peers
    list(peers._carry_out(Cool(PeerAddress("45.1.1.1", 3141)), node.now))
    liar.announce(wire())
    assert liar.asked() == []
    list(peers._carry_out(Heat(PeerAddress("45.1.1.1", 3141)), node.now))
    node.pass_time(1)
    liar.go_on()
    assert liar.asked() == [ms.MsgRequestSigs((Dmq05().read(wire()).id,))], "one id is not acknowledged"


def test_a_peer_that_the_topology_names_keeps_its_place_at_the_door_and_strangers_do_not(node: Host) -> None:
    named = PeerAddress("45.1.1.1", 3141)
    roots = Roots(bytes(4), (RootGroup((named,), 1, 1),))
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(roots)))
    Liar(node, "46.1.1.1:3141", "stranger")
    Liar(node, str(named), "named")
    assert node.known == [("peers", "named")]


def test_a_peer_that_the_topology_comes_to_name_keeps_its_place_from_then_on(node: Host) -> None:
    address = PeerAddress("45.1.1.1", 3141)
    Liar(node, str(address), "peer")
    assert node.known == []
    node.hear(c.Computed(TAG, msgspec.msgpack.encode(Roots(bytes(4), (RootGroup((address,), 1, 1),)))))
    assert node.known == [("peers", "peer")]


def test_a_peer_that_has_dialled_in_and_is_pulled_from_is_asked_whether_it_is_alive(node: Host) -> None:
    Liar(node)
    assert [one["rtt_ms"] for one in node.ask("peers")["peers"]] == [0.0]
