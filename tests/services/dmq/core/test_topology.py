"""The topology: the stored files as they are read, what is wrong with others, the ledger's relays, and its schedule."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BETWEEN_NODES

from router.service import contract as c
from services.dmq import topology_job
from services.dmq.core.peers.known import RootGroup
from services.dmq.core.peers.topology import (
    UNKNOWN_MAX,
    AccessPoint,
    BadTopology,
    LocalRoots,
    read_snapshot,
    read_topology,
)
from services.dmq.core.peers.topology_source import (
    FILE_S,
    TAG,
    WAITING_MAX,
    Roots,
    SnapshotReport,
    TopologyRequest,
    TopologySource,
)
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.name_lookup import FoundName, NameLookup
from services.dmq.topology_job import topology

EMPTY: dict[str, Any] = {"localRoots": [], "publicRoots": []}
ROOT: dict[str, Any] = {"accessPoints": [{"address": "192.168.1.30", "port": 6161}], "valency": 1}


def of(**parts: Any) -> bytes:
    return json.dumps(EMPTY | parts).encode()


@pytest.mark.parametrize("case", BETWEEN_NODES["topologies"], ids=lambda one: one["name"])
def test_a_stored_topology_is_read_as_a_dmq_node_reads_it(case: dict[str, Any]) -> None:
    data = json.dumps(case["json"]).encode()
    if "fails" in case:
        with pytest.raises(BadTopology) as raised:
            read_topology(data)
        words = case["fails"].split()
        assert len([word for word in words if word in str(raised.value)]) >= len(words) / 2, str(raised.value)
        return
    found = read_topology(data)
    assert [as_vector(one) for one in found.local] == case["local"]
    assert found.public == () and case["public"] == []
    assert ("never" if found.ledger_after_slot is None else "always") == case["ledger"]


def as_vector(group: LocalRoots) -> dict[str, Any]:
    return {
        "points": [str(point) for point in group.points],
        "hot": group.hot,
        "warm": group.warm,
        "advertise": group.advertise,
        "behind_firewall": group.behind_firewall,
        "mode": "InitiatorOnly" if group.initiator_only else "InitiatorAndResponder",
    }


def test_an_ipv4_address_in_the_form_of_ipv6_is_that_of_ipv4() -> None:
    found = read_topology(of(localRoots=[ROOT | {"accessPoints": [{"address": "::ffff:1.2.3.4", "port": 1}]}]))
    assert found.points == (AccessPoint("1.2.3.4", 1),)


def test_keys_without_effect_are_named_with_their_place_and_are_no_fault() -> None:
    group = {**ROOT, "accessPoints": [{"address": "192.0.2.1", "port": 1, "valency": 1, "prt": 2}], "warmValncy": 3}
    data = of(localRoots=[ROOT | {"trustable": True, "extraFlags": {}}, group], publicRoots=[ROOT | {"x": 1}], slot=1)
    unknown = ("slot", "localRoots[1].warmValncy", "localRoots[1].accessPoints[0].prt", "publicRoots[0].x")
    assert read_topology(data).unknown == unknown
    assert len(read_topology(of(**dict.fromkeys("abcdefgh", 1))).unknown) == UNKNOWN_MAX
    for case in BETWEEN_NODES["topologies"]:
        if "fails" not in case:
            assert not read_topology(json.dumps(case["json"]).encode()).unknown


def test_bootstrap_peers_count_as_public_roots() -> None:
    found = read_topology(of(bootstrapPeers=[{"address": "1.2.3.4", "port": 6161}]))
    assert [str(point) for point in found.points] == ["1.2.3.4:6161"] and not found.local


@pytest.mark.parametrize(
    ("data", "said"),
    (
        (b"[]", "no JSON object"),
        (b"{", "no JSON: line 1"),
        (b"\xff", "no text"),
        (of(localRoots={}), "no list"),
        (of(localRoots=[1]), r"localRoots\[0\] is no object"),
        (of(localRoots=[{"valency": 1}]), "accessPoints"),
        (of(localRoots=[ROOT | {"valency": True}]), "whole number"),
        (of(localRoots=[ROOT | {"valency": 2, "warmValency": 1}]), "below the 2"),
        (of(localRoots=[ROOT | {"advertise": "yes"}]), "true or false"),
        (of(localRoots=[ROOT | {"accessPoints": [{"address": "1.2.3.4"}]}]), "no port"),
        (of(localRoots=[ROOT | {"accessPoints": [{"address": "a b", "port": 1}]}]), "neither an address nor a name"),
        (of(localRoots=[ROOT | {"accessPoints": [{"address": "x", "port": 65536}]}]), "1 to 65535"),
        (of(localRoots=[ROOT | {"accessPoints": [{"address": "::", "port": 1}]}]), "not a valid destination"),
        *(
            (of(localRoots=[ROOT | {"accessPoints": [{"address": host, "port": 1}]}]), f"{host}, which is not a valid")
            for host in ("0.0.0.0", "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:0.0.0.0")
        ),
        (of(localRoots=[ROOT | {"accessPoints": [{"address": "fe80::1", "port": 1}]}]), "of one link alone"),
        (of(localRoots=[ROOT | {"accessPoints": ROOT["accessPoints"] * 1001}]), "1000 at most"),
        (of(useLedgerAfterSlot="0"), "whole number"),
    ),
)
def test_what_is_no_topology_is_named_with_its_place_and_remedy(data: bytes, said: str) -> None:
    with pytest.raises(BadTopology, match=said):
        read_topology(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: (
            st.lists(one, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["localRoots", "publicRoots", "accessPoints", "address", "port", "valency", "bootstrapPeers"]
                ),
                one,
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_a_topology_or_a_bad_one(found: Any) -> None:
    try:
        read_topology(json.dumps(found).encode())
    except BadTopology:
        return


def test_relays_of_the_ledger_are_read_and_odd_ones_left_out() -> None:
    relays = [{"address": "1.2.3.4", "port": 3001}, {"domain": "relay.example.org", "port": 3001}, {"domain": "x.org"},
              {"port": 1}, 7, {"address": "0.0.0.0", "port": 1}]  # fmt: skip
    data = json.dumps({"version": 2, "bigLedgerPools": [{"accumulatedStake": 0.1, "relays": relays}]}).encode()
    snapshot = read_snapshot(data)
    assert [str(point) for point in snapshot.points] == [
        "1.2.3.4:3001", "relay.example.org.:3001", "SRV _dmq._mithril._cardano._tcp.x.org.",
    ]  # fmt: skip
    assert [point.shown for point in snapshot.points] == ["1.2.3.4:3001", "relay.example.org:3001", "x.org (SRV)"]
    assert (snapshot.unreadable, snapshot.beyond) == (3, 0)
    with pytest.raises(BadTopology, match="names no pool"):
        read_snapshot(b"{}")


def read(path: Path | str, known: bytes = b"", snapshot: str = "", *listens: str) -> bytes:
    return topology(msgspec.msgpack.encode(TopologyRequest(str(path), snapshot, known, listens, ())))


def test_the_job_reads_a_file_once_and_again_when_it_says_something_new(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(of(localRoots=[ROOT]))
    found = msgspec.msgpack.decode(read(path), type=Roots)
    assert found.groups == (RootGroup((PeerAddress("192.168.1.30", 6161),)),) and not found.missing
    assert read(path, found.digest) == b""
    path.write_bytes(of())
    assert msgspec.msgpack.decode(read(path, found.digest), type=Roots).groups == ()
    path.unlink()
    with pytest.raises(BadTopology, match="cannot be read"):
        read(path, found.digest)


def test_the_job_reads_the_ledgers_relays_from_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    relays = [{"address": f"1.2.3.{number}", "port": 3001} for number in range(1, 4)]
    path.write_text(json.dumps({"bigLedgerPools": [{"relays": relays}]}))
    found = msgspec.msgpack.decode(read("", snapshot=str(path)), type=Roots)
    assert found.groups == () and found.ledger == tuple(PeerAddress(f"1.2.3.{number}", 3001) for number in (1, 2, 3))
    path.write_text("{")
    with pytest.raises(BadTopology, match=r"snapshot.json: .* is no JSON"):
        read("", snapshot=str(path))


def test_the_job_counts_the_relays_of_a_snapshot_that_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology_job, "NAMES_MAX", 2)
    monkeypatch.setattr(topology_job, "RELAYS_MAX", 3)
    path = tmp_path / "snapshot.json"
    relays: list[Any] = [{"address": f"1.2.3.{number}", "port": 3001} for number in range(1, 6)]
    relays += [{"domain": f"pool{number}.invalid", "port": 3001} for number in range(5)]
    relays += [7, {"address": "127.0.0.1", "port": 6161}]
    path.write_text(json.dumps({"bigLedgerPools": [{"relays": relays}]}))
    found = msgspec.msgpack.decode(read("", b"", str(path), "127.0.0.1:6161"), type=Roots)
    assert len(found.ledger) == 3
    names = ("pool0.invalid:3001", "pool1.invalid:3001")
    assert found.snapshot == SnapshotReport(12, names, not_looked_up=3, own=1, beyond=2, unreadable=1)


def test_a_name_without_an_address_is_named_with_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(of(localRoots=[ROOT | {"accessPoints": [{"address": "nobody.invalid", "port": 6161}]}]))
    found = msgspec.msgpack.decode(read(path), type=Roots)
    assert [one.point for one in found.missing] == ["nobody.invalid:6161"]
    while found.missing[0].cause == "it is being looked up":
        if again := read(path, found.digest):
            found = msgspec.msgpack.decode(again, type=Roots)
    assert re.fullmatch(
        r"no address is known for it \(.+\); it is looked up again within 5 minutes", found.missing[0].cause
    )


def test_a_name_is_looked_up_beside_and_missing_until_then(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    point = {"address": "localhost", "port": 6161}
    path.write_bytes(of(localRoots=[ROOT | {"accessPoints": [point]}]))
    found = msgspec.msgpack.decode(read(path), type=Roots)
    while found.missing:
        if again := read(path, found.digest):
            found = msgspec.msgpack.decode(again, type=Roots)
    assert PeerAddress("127.0.0.1", 6161) in found.groups[0].addresses


def test_names_that_left_the_files_are_forgotten(tmp_path: Path) -> None:
    file, snapshot = tmp_path / "t.json", tmp_path / "s.json"
    names = [f"pool{number}.invalid" for number in range(3)]
    snapshot.write_text(json.dumps({"bigLedgerPools": [{"relays": [{"domain": "relay.invalid", "port": 1}]}]}))
    request = TopologyRequest(str(file), str(snapshot), b"", (), ())
    for name in names:
        root = ROOT | {"accessPoints": [{"address": name, "port": 1}]}
        file.write_bytes(of(localRoots=[root]))
        topology(msgspec.msgpack.encode(request))
    assert repr(topology_job._lookups[str(file), str(snapshot), ()]) == "<NameLookup of 2 names>"


def test_a_lookup_that_ends_in_the_midst_of_a_read_leaves_no_name_neither_known_nor_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(NameLookup):
        def find(self, point: AccessPoint) -> FoundName:
            """Return nothing before the second question."""
            self.asked = getattr(self, "asked", 0) + 1
            return FoundName((PeerAddress("127.0.0.1", 6161),) if self.asked > 1 else ())

    path = tmp_path / "topology.json"
    monkeypatch.setitem(topology_job._lookups, (str(path), "", ()), Ending(()))
    path.write_bytes(of(localRoots=[ROOT | {"accessPoints": [{"address": "localhost", "port": 6161}]}]))
    found = msgspec.msgpack.decode(read(path), type=Roots)
    assert bool(found.missing) is not bool(found.groups[0].addresses)


@pytest.mark.parametrize("listens", ["0.0.0.0:6161", "127.0.0.1:6161"])
def test_the_job_leaves_out_the_places_at_which_this_node_itself_listens(listens: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    points = [{"address": "127.0.0.1", "port": port} for port in (6161, 6162)]
    path.write_bytes(of(localRoots=[ROOT | {"accessPoints": points}]))
    found = msgspec.msgpack.decode(read(path, b"", "", listens), type=Roots)
    assert found.groups[0].addresses == (PeerAddress("127.0.0.1", 6162),) and found.own == ("127.0.0.1:6161",)
    assert msgspec.msgpack.decode(read(path, b"", "", "192.0.2.1:6161"), type=Roots).own == ()


def test_the_job_is_told_where_this_node_listens_and_under_which_services_names_are_looked_up() -> None:
    source = TopologySource("topology.json", "", ["0.0.0.0:6161"], ["_dmq._tcp"])
    [asked] = source.due(c.Now(1000.0, 5.0))
    assert isinstance(asked, c.Compute)
    request = msgspec.msgpack.decode(asked.argument, type=TopologyRequest)
    assert request == TopologyRequest("topology.json", "", b"", ("0.0.0.0:6161",), ("_dmq._tcp",))


def test_a_topology_that_names_this_node_alone_is_told() -> None:
    source, now = TopologySource("topology.json", listens=["0.0.0.0:6161"]), c.Now(1000.0, 5.0)
    assert source.due(now)
    alone = Roots(b"1", (RootGroup(()),), own=("127.0.0.1:6161",))
    _, [said] = source.computed(c.Computed(TAG, msgspec.msgpack.encode(alone)), now)
    assert isinstance(said, c.Warn) and said.text == (
        "the topology topology.json names this node itself alone, at 127.0.0.1:6161: name another node in it, and this "
        "node in that one's"
    )
    assert source.only_itself == "127.0.0.1:6161"
    beside = Roots(b"2", (RootGroup((PeerAddress("1.2.3.4", 1),)),), own=("127.0.0.1:6161",))
    _, [said] = source.computed(c.Computed(TAG, msgspec.msgpack.encode(beside)), now)
    assert isinstance(said, c.Inform) and said.text.endswith("127.0.0.1:6161 is this node itself")
    assert not source.only_itself


def test_a_topology_that_cannot_be_read_changes_nothing_and_is_named_once() -> None:
    source, now = TopologySource("topology.json"), c.Now(1000.0, 5.0)
    [asked] = source.due(now)
    assert isinstance(asked, c.Compute) and source.due(now) == [], "one question at a time"
    roots = Roots(b"1", (RootGroup((PeerAddress("1.2.3.4", 1),)),))
    found, said = source.computed(c.Computed(asked.tag, msgspec.msgpack.encode(roots)), now)
    assert found == roots and isinstance(said[0], c.Inform) and "1 address" in said[0].text
    later = c.Now(1000.0 + FILE_S, 5.0 + FILE_S)
    assert source.due(c.Now(1001.0, 6.0)) == [] and len(source.due(later)) == 1
    found, said = source.computed(c.Computed(asked.tag, error="BadTopology: topology.json: it is half a file"), later)
    assert found is None and source.roots == roots and source.problem == "topology.json: it is half a file"
    assert isinstance(said[0], c.Warn) and said[0].text.endswith("the one that was read before stays")
    assert source.computed(c.Computed(asked.tag, error=f"BadTopology: {source.problem}"), later) == (None, [])
    [asked] = source.reload(7, later)
    assert isinstance(asked, c.Compute)
    found, said = source.computed(c.Computed(asked.tag), later)
    assert found is None and not source.problem and isinstance(said[0], c.Inform)
    read = "the topology names 1 address of peers"
    assert said[1:] == [c.Answer(7, {"topology": "topology.json", "snapshot": "", "read": read, "problem": ""})]


def test_a_snapshot_alone_is_read_again_and_the_operator_told_what_was_read() -> None:
    source, now = TopologySource("", "snapshot.json"), c.Now(1000.0, 5.0)
    [asked] = source.due(now)
    assert list(source.reload(1, now)) == [], "a read that began before may not have what was written since"
    relays = (PeerAddress("1.2.3.4", 1), PeerAddress("1.2.3.5", 1))
    roots = Roots(b"1", (), ledger=relays, snapshot=SnapshotReport(3, unreadable=1))
    _, said = source.computed(c.Computed(TAG, msgspec.msgpack.encode(roots)), now)
    assert said == [c.Inform("the ledger peer snapshot names 3 relays, with 2 addresses")]
    [asked] = source.due(now)
    assert isinstance(asked, c.Compute) and msgspec.msgpack.decode(asked.argument, type=TopologyRequest).is_afresh
    _, said = source.computed(c.Computed(TAG), now)
    read = "the ledger peer snapshot names 3 relays, with 2 addresses"
    assert said == [c.Answer(1, {"topology": "", "snapshot": "snapshot.json", "read": read, "problem": ""})]


def test_keys_without_effect_are_logged_once_when_the_file_is_read() -> None:
    source, now = TopologySource("t.json", "", ()), c.Now(1e9, 0.0)
    list(source.due(now))
    roots = Roots(b"1", (RootGroup(()),), unknown=("localRoots[0].warmValncy",))
    _, [inform] = source.computed(c.Computed(TAG, msgspec.msgpack.encode(roots)), now)
    assert isinstance(inform, c.Inform)
    assert inform.text.endswith("; without effect, since unknown: localRoots[0].warmValncy")
    assert source.computed(c.Computed(TAG, b""), now) == (None, [])


def test_questions_that_wait_for_a_read_are_bounded_and_without_files_none_waits() -> None:
    source, now = TopologySource("topology.json"), c.Now(1000.0, 5.0)
    assert source.due(now)
    for number in range(WAITING_MAX):
        assert list(source.reload(number, now)) == []
    [said] = source.reload(WAITING_MAX, now)
    assert isinstance(said, c.Answer) and "ask again" in said.value["error"]
    [said] = TopologySource("").reload(1, now)
    assert said == c.Answer(1, {"topology": "", "snapshot": "", "read": "", "problem": ""})
