"""The judgements of `router doctor`: each outcome of each check, with its remedy."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as with_settings

from router.core.control.node_copies import FoundCopy
from router.core.wire.address import parse_address
from router.core.wire.crypto import SigningKey
from router.core.wire.run_claim import RunPlace
from router.core.wire.text import key_text
from router.doctor import home_checks as of_home
from router.doctor import network_checks as of_network
from router.doctor.finding import (
    AdvertisedAddress,
    Descriptors,
    DialBackAnswer,
    DialResult,
    DiskFacts,
    Finding,
    InterfaceCheck,
    LanFacts,
    Running,
    SamplingFacts,
)
from router.doctor.network_probe import is_on_loopback
from router.settings.config import Config, by_role
from router.settings.config_backup import Backup
from router.settings.config_peers import Peer

GIB = 1 << 30
KEY, OTHER = bytes(32), b"\1" * 32
CONFIG = by_role(Config())
CORE = by_role(Config(node=with_settings(Config().node, role="core")))
DISK = DiskFacts("/home/ann/store", "ext4", 50 * GIB, syncs_s=(0.002, 0.004, 0.003))
UNSYNCED = with_settings(CONFIG, store=with_settings(CONFIG.store, durability="unsynced"))
URL = "tls://203.0.113.9:4100"


def seen(found: Finding | None) -> tuple[bool | None, str]:
    assert found is not None
    return found.ok, f"{found.found}; {found.remedy}"


@pytest.mark.parametrize(
    ("disk", "ok", "said"),
    [
        (DISK, True, "50.0 GiB free in /home/ann/store; "),
        (replace(DISK, timed_out=True), False, "did not answer in time"),
        (replace(DISK, filesystem="nfs4"), False, "lies on a network file system (nfs4)"),
        (replace(DISK, fault="No such device", free_bytes=0), False, "cannot be written: No such device; free some"),
        (replace(DISK, free_bytes=GIB // 8), False, "messages are refused with reason disk-full; free some space"),
        (replace(DISK, free_bytes=GIB // 4 + (1 << 20)), True, "log and database may grow by 64.0 MiB, and 1.0 MiB"),
    ],
)
def test_disk(disk: DiskFacts, ok: bool, said: str) -> None:
    found = seen(of_home.judge_disk(disk, CONFIG))
    assert found[0] is ok and said in found[1]


@pytest.mark.parametrize(
    ("disk", "config", "ok", "said"),
    [
        (DISK, CONFIG, True, "after 3 ms (median of 3, slowest 4 ms)"),
        (replace(DISK, syncs_s=(0.4, 0.3)), CONFIG, False, "each commit waits so long; move the home to a faster disk"),
        (replace(DISK, syncs_s=(0.4, 0.3)), UNSYNCED, True, "store.durability is unsynced"),
        (replace(DISK, syncs_s=()), CONFIG, None, "not measured"),
    ],
)
def test_sync(disk: DiskFacts, config: Config, ok: bool | None, said: str) -> None:
    found = seen(of_home.judge_sync(disk, config))
    assert found[0] is ok and said in found[1]


def test_limits() -> None:
    assert seen(of_home.judge_limits(Descriptors(1 << 20, 40), CONFIG, 2))[0] is True
    assert "enough for 187 connections a listener" in seen(of_home.judge_limits(Descriptors(500), CONFIG, 2))[1]
    assert "soon none is left" in seen(of_home.judge_limits(Descriptors(1000, 950), CONFIG, 1))[1]


def running(**more: Any) -> Running:
    status = {"address": KEY.hex(), "role": "core", "uptime_s": 70, "services": [], "clock": {"problem": ""}}
    return Running(status | more)


def with_peer(**more: Any) -> Running:
    one = {
        "address": OTHER.hex(), "name": "bob", "state": "connected", "learned": "config", "problem": None,
        "rtt_ms": 3.0, "offset_ms": 2.0, "last_contact_s": 0.0, "uplink": False,
    }  # fmt: skip
    return replace(running(), peers=(one | more,))


def test_key_and_node() -> None:
    assert seen(of_home.judge_key(KEY, "k", "", running()))[0] is True
    assert "not the key in k; stop the node" in seen(of_home.judge_key(OTHER, "k", "", running()))[1]
    assert seen(of_network.judge_node(running(), "", "0.1.0")) == (True, "runs as core since 1 min; ")
    assert seen(of_network.judge_node(None, "no node; start one", "0.1.0")) == (None, "no node; start one")
    away = running(services=[{"name": "dmq", "state": "away", "problem": "it failed"}])
    assert seen(of_network.judge_node(away, "", "0.1.0"))[1].startswith("its services do not all run: dmq (it failed)")
    replaced, said = seen(of_network.judge_node(running(version="0.1.0"), "", "0.2.0"))
    assert replaced is False and "version 0.1.0, and version 0.2.0" in said and "`router service restart`" in said


def test_a_copy() -> None:
    found = FoundCopy(RunPlace(0, 1_800_000_000_000, b""), 1, True)
    (one,) = of_network.judge_copy(running(copy={"problem": found.problem}))
    assert one.ok is False and "started on 2027-01-15 08:00:00 UTC" in one.found and "`router copy keep`" in one.remedy
    assert list(of_network.judge_copy(running(copy=None))) == []


def test_key_that_another_has_the_place_of() -> None:
    (one,) = of_network.judge_superseded(running(superseded={"problem": "renewed at hub; restore a snapshot"}))
    assert (one.ok, one.found, one.remedy) == (False, "renewed at hub", "restore a snapshot")
    assert list(of_network.judge_superseded(running(superseded=None))) == []


def test_alarms_of_the_node_about_itself() -> None:
    assert [one.ok for one in of_network.judge_alarms(running())] == [True]
    (one,) = of_network.judge_alarms(running(alarms=[{"text": "the queue of bob is full; bring that recipient back"}]))
    assert (one.ok, one.found, one.remedy) == (False, "the queue of bob is full", "bring that recipient back")


def test_a_node_that_a_copy_has_stopped_is_not_judged_by_its_services_and_links() -> None:
    down = [{"name": "pubsub", "state": "away", "problem": None}]
    stopped = replace(with_peer(state="away"), status=running(services=down, copy={"barred": True}).status)
    found = of_network.judge_node(stopped, "", "0.1.0")
    assert found.ok is False and "a copy of this home runs" in found.found
    assert list(of_network.judge_neighbours(stopped, 9)) == []


@pytest.mark.parametrize(
    ("found", "ok", "said"),
    [
        (with_peer(), True, "within 2 ms of its neighbours' (1 compared)"),
        (with_peer(offset_ms=None), None, "no neighbour is connected"),
        (with_peer(offset_ms=-7_200_000.0), False, "the clock of bob is 2.0 hours behind this one; see which"),
        (running(clock={"problem": "it jumped; set it"}), False, "it jumped; set it"),
    ],
)
def test_clock(found: Running, ok: bool | None, said: str) -> None:
    judged = seen(of_network.judge_clock(found, 60, 0, 0))
    assert judged[0] is ok and said in judged[1]


@pytest.mark.parametrize(
    ("peer", "ok", "said"),
    [
        ({}, True, "bob is connected, round trip 3 ms"),
        ({"problem": "its disk is full; wait"}, False, "bob is connected, and its disk is full; wait"),
        ({"state": "away", "last_contact_s": 7200.0}, None, "bob is away, heard 2 h ago"),
        ({"state": "away", "last_contact_s": None, "uplink": True, "problem": "refused; is it up?"}, False,
         "the uplink bob is away, not heard since this node started: refused; is it up?"),
        ({"state": "away", "last_contact_s": 9.0, "uplink": True, "urls": ["tls://old.example:1"], "problem": "nobody"},
         False, "nobody; if it has moved, and told nobody here: `router peer add bob URL`"),
        ({"state": "blocked"}, True, "bob is blocked on this node: nothing goes there or comes from there; if that is "
         "not wanted any more: `router peer unblock bob`"),
    ],
)  # fmt: skip
def test_neighbours(peer: dict[str, Any], ok: bool | None, said: str) -> None:
    [found] = of_network.judge_neighbours(with_peer(**peer), 20)
    assert found.ok is ok and said in f"{found.found}; {found.remedy}"


def test_many_neighbours_are_counted_and_only_the_bad_ones_named() -> None:
    row = with_peer().peers[0]
    many = replace(running(), peers=(*[row] * 5, {**row, "state": "away", "uplink": True}))
    found = list(of_network.judge_neighbours(many, 2))
    assert [one.ok for one in found] == [True, True, False, None] and "6 are known" in found[-1].found


def test_a_blocked_neighbour_is_named_among_many_and_while_no_node_runs() -> None:
    row = with_peer().peers[0]
    many = replace(running(), peers=(*[row] * 5, {**row, "name": "eve", "state": "blocked"}))
    assert [one.found[:14] for one in of_network.judge_neighbours(many, 2)][2] == "eve is blocked"
    eve, bob = (SigningKey(one * 32).public for one in (b"e", b"b"))
    config = Config(peers=(Peer(address=eve, blocked=True), Peer(address=bob)))
    [found] = of_network.judge_blocked_in_file(config)
    assert found.found.startswith(f"{key_text('addr', eve)} is blocked on this node")


def advertised(text: str = URL, ip: str = "203.0.113.9", **more: Any) -> AdvertisedAddress:
    return AdvertisedAddress(parse_address(text), (ip_address(ip),), **more)


@pytest.mark.parametrize(
    ("one", "ok", "said"),
    [
        (advertised(dial=DialResult(URL, KEY.hex())), True, f"{URL} leads to this node"),
        (advertised(dial=DialResult(URL)), None, "answers; only a link shows that it is this node"),
        (advertised(dial=DialResult(URL, OTHER.hex())), False, "not this node; name this node's own address"),
        (
            advertised(dial=DialResult(URL, why="refused; is it up?")),
            None,
            "(refused); the node itself listens on 4101",
        ),
        (advertised(), None, "was not dialled, as no node runs"),
        (advertised("tls://ann.org:4100", "10.0.0.3"), None, "(10.0.0.3), which only its own network reaches,"),
        (advertised("tls://ann.org:4100", "127.0.1.1"), False, "leads to 127.0.1.1, which leads back to the machine"),
        (advertised("tls://0.0.0.0:4100"), False, "names no host"),
    ],
)
def test_addresses(one: AdvertisedAddress, ok: bool | None, said: str) -> None:
    found = seen(of_network.judge_address(one, KEY, frozenset((4101,))))
    assert found[0] is ok and said in found[1], found


def test_a_node_that_names_no_address() -> None:
    ports = frozenset((4100,))
    [core] = of_network.judge_addresses((), CORE, KEY, ports)
    assert core.ok is None and core.found.startswith("it names no address to others, so it has no link")
    assert core.remedy == "for others to reach it, name an address in node.advertise: tls://node.example.org:4100"
    local = (advertised("tls://127.0.0.1:4100", "127.0.0.1"),)
    [edge] = of_network.judge_addresses(local, CONFIG, KEY, ports)
    assert edge.ok is None and "only this machine reaches it" in edge.found
    assert list(of_network.judge_addresses((), CONFIG, KEY, frozenset())) == []


def test_a_node_that_listens_on_loopback_alone_may_advertise_that() -> None:
    url = "tls://127.0.0.1:4101"
    named = with_settings(CORE, node=with_settings(CORE.node, advertise=(url,)))

    def judged(key: bytes, *, alone: bool) -> tuple[bool | None, str]:
        here = [advertised(url, "127.0.0.1", dial=DialResult(url, key.hex()))]
        [found] = of_network.judge_addresses(here, named, KEY, frozenset((4101,)), on_loopback=alone)
        return seen(found)

    ok, said = judged(KEY, alone=True)
    assert ok and said.startswith(f"{url}, which only nodes on this machine reach, leads to this node; for others to")
    assert judged(OTHER, alone=True)[0] is False
    assert judged(KEY, alone=False)[0] is False


def test_loopback_is_told_by_the_hosts_listened_on() -> None:
    assert is_on_loopback(("tls://127.0.0.1:4101", "tls://localhost:1", "tls://[::1]:0"))
    assert not is_on_loopback(("tls://127.0.0.1:4101", "tls://0.0.0.0:4101"))
    assert not is_on_loopback(("tls://hub.example:4101",))
    assert not is_on_loopback(())


def test_port_and_tls() -> None:
    assert seen(of_network.judge_port(URL, "in use; stop it", None, False)) == (False, "in use; stop it")
    assert seen(of_network.judge_port(URL, "", DialResult(URL, why="refused; is it up?"), True))[0] is False
    assert seen(of_network.judge_port(URL, "", DialResult(URL, KEY.hex()), True))[0] is True
    assert (
        seen(of_network.judge_port("ws://127.0.0.1:1/link", "", DialResult("ws://127.0.0.1:1/link"), True))[0] is True
    )
    assert of_network.judge_tls("ws://127.0.0.1:1/link", DialResult("ws://127.0.0.1:1/link"), KEY) is None
    assert of_network.judge_tls(URL, DialResult(URL, why="refused"), KEY) is None
    assert seen(of_network.judge_tls(URL, DialResult(URL, OTHER.hex()), KEY))[0] is False
    assert seen(of_network.judge_nothing_listens(CORE))[0] is False
    assert seen(of_network.judge_nothing_listens(CONFIG))[0] is True


def test_reachability() -> None:
    failed, reached = DialBackAnswer("bob", URL, "no answer; is there a firewall?"), DialBackAnswer("ann", URL)
    assert seen(of_network.judge_reachability((), "no node runs")) == (None, "not checked: no node runs; ")
    assert seen(of_network.judge_reachability((failed, reached), ""))[0] is True
    unasked = DialBackAnswer("eve", "", "its discovery service is not known here")
    assert seen(of_network.judge_reachability((unasked,), "")) == (
        None, "not checked by eve: its discovery service is not known here; ",
    )  # fmt: skip
    ok, said = seen(of_network.judge_reachability((unasked, failed), ""))
    assert ok is False and f"bob did not reach this node at {URL}: no answer; let that TCP port in" in said


NETWORK = {"interface": "eth0", "network": "0a1b2c", "name": "home", "allowed": True, "heard": 0}
BACK, LOST = InterfaceCheck("eth0", True), InterfaceCheck("eth1", False, "a firewall may drop them")


@pytest.mark.parametrize(
    ("lan", "ok", "said"),
    [
        (LanFacts((BACK,), why="no node runs; start one"), None, "was not checked: no node runs; start one"),
        (
            LanFacts((BACK, LOST), why="x"),
            None,
            "does not come back on eth1 (a firewall may drop them), it does on eth0",
        ),
        (LanFacts((), "wg0", (), ""), None, "all other traffic goes through wg0, perhaps a VPN"),
        (
            LanFacts((BACK,), "", ({**NETWORK, "allowed": False},)),
            None,
            "off: no network is allowed (home); allow this one",
        ),
        (LanFacts((BACK,), "", (NETWORK,)), None, "nobody was heard; multicast works within this machine on eth0; if"),
        (LanFacts((LOST,), "", (NETWORK,)), False, "nobody was heard; multicast does not come back on eth1"),
        (LanFacts((BACK,), "", ({**NETWORK, "heard": 3},)), True, "3 nodes heard on eth0"),
        (LanFacts((BACK,), "", (NETWORK,), "", "the port is taken; stop that program"), False, "is taken; stop that"),
        (
            LanFacts((BACK,), "", ({**NETWORK, "heard": 256},), "", "", "all 256 places are taken, by 1 host; look"),
            False,
            "all 256 places are taken, by 1 host; look",
        ),
    ],
)
def test_lan(lan: LanFacts, ok: bool | None, said: str) -> None:
    found = seen(of_network.judge_lan(lan))
    assert found[0] is ok and said in found[1]


@pytest.mark.parametrize(
    ("sampling", "ok", "said"),
    [
        (SamplingFacts(), None, "has no address where others reach it, so it takes no part in"),
        (SamplingFacts(known=0), None, "knows no other core, and nobody to ask; `router peer add` of one"),
        (
            SamplingFacts(known=0, away=("hub", "lab", "sea", "far")),
            None,
            "knows no other core yet, and has no link with hub, lab, sea and others now; a minute after",
        ),
        (
            SamplingFacts(("hub",), known=0, is_private=True),
            None,
            "lie in a private network, where cores do not learn of each other by what others say of them; add",
        ),
        (SamplingFacts(("hub",), known=1, is_private=True), True, "exchanges 1 other core now"),
        (SamplingFacts(known=2), True, "from those it knows: it exchanges 2 other cores now"),
        (
            SamplingFacts(("hub", "lab"), ("hub", "far"), 1),
            True,
            "learns of other cores from hub (a neighbour), lab (a neighbour), far (of `seeds`); exchanges 1 other core",
        ),
    ],
)
def test_sampling_says_from_whom_a_core_learns_of_others(sampling: SamplingFacts, ok: bool | None, said: str) -> None:
    found = seen(of_network.judge_sampling(sampling))
    assert found[0] is ok and said in found[1]


def test_guests_that_the_file_does_not_name_and_those_without_room() -> None:
    facts: dict[str, Any] = {"unwritten": 0, "problem": "", "beside": 0, "full": None}
    problem = "/h/router.toml is read-only; allow its owner to write it, or write the blocks by hand"
    cases: tuple[tuple[dict[str, Any], list[tuple[bool | None, str]]], ...] = (
        ({}, []),
        ({"unwritten": 2}, []),
        ({"unwritten": 2, "problem": problem}, [(
            False, f"2 guests are let in by invitation, and not in router.toml: {problem}; `router peer remove` ends "
            "the rights of one all the same",
        )]),
        ({"full": 9}, [(
            False, "no further guest is let in: limits.guests_max allows 9 neighbours; raise it and start the node "
            "again, or remove some by `router peer remove`",
        )]),
        ({"beside": 1}, [(
            True, "1 guest has rights by invitation beside those in router.toml, because these end at another time; ",
        )]),
    )  # fmt: skip
    for more, expected in cases:
        found = of_network.judge_guests(Running({"guests": facts | more}))
        assert [seen(one) for one in found] == expected
    assert not [*of_network.judge_guests(None)]


BACKUP = {"directory": "/media/hub", "every_s": 86_400, "age_s": 3600, "problem": "", "overdue": False}


@pytest.mark.parametrize(
    ("changed", "ok", "said"),
    [
        ({}, True, "is 1 h old, and one is due every 1 d"),
        (
            {"problem": "there is no /media/hub: connect its disk"},
            None,
            "there is no /media/hub: connect its disk; it is",
        ),
        ({"age_s": 200_000, "overdue": True, "problem": "it is full"}, False, "it is full"),
        ({"age_s": None, "overdue": True}, False, "no snapshot whose age is known is in /media/hub"),
    ],
)
def test_snapshots_older_than_twice_their_time_are_a_finding(
    changed: dict[str, Any], ok: bool | None, said: str
) -> None:
    [found] = of_home.judge_backup(Running({"backup": {**BACKUP, **changed}}), CONFIG)
    assert found.ok is ok
    assert said in f"{found.found} {found.remedy}"


def test_where_no_snapshots_are_made_there_is_no_finding_and_without_a_node_nobody_makes_them() -> None:
    assert [*of_home.judge_backup(Running({"backup": None}), CONFIG), *of_home.judge_backup(None, CONFIG)] == []
    config = with_settings(CONFIG, backup=Backup(directory="/media/hub", plain=True))
    [found] = of_home.judge_backup(None, config)
    assert found.ok is None and "no node runs" in found.found
