"""The findings of a DMQ node's doctor: each cause by its facts, and none where all is well."""

from __future__ import annotations

import re
import stat
from typing import Any

import pytest
from msgspec.structs import replace
from samples.dmq import POOLS, START_PERIOD

from services.dmq.core.diagnosis import LAG_MAX, Facts, Finding, findings
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import MAINNET

DEPLOYED = REVISIONS["dmq-0.5"]
WALL_S = MAINNET.anchor_s + START_PERIOD * MAINNET.slots_per_kes_period - MAINNET.anchor_slot + 5.0
STAKE = {"age_s": 5.0, "pools": 3, "is_of_epoch": True, "problem": ""}
CLIENTS = {"taken": 3, "places": 64}
FULL = {"stake": STAKE, "consumers": [], "clients": {"taken": 64, "places": 64}}
CONSUMER = {"name": "one", "lag": 3, "set_aside": 0, "connected": True}
WELL = Facts(
    "dmq", stat.S_IFSOCK | 0o660, "", "", tuple(DEPLOYED.encoding.write(pool.draft()) for pool in POOLS),
    {"stake": STAKE, "consumers": [CONSUMER], "clients": CLIENTS}, {"state": "trusted", "problem": None}, None,
    start="`router serve`",
)  # fmt: skip


def found(facts: Facts, later_s: float = 0.0) -> dict[str, Finding]:
    all_of_them = findings(facts, DEPLOYED, MAINNET, WALL_S + later_s)
    assert [one.check for one in all_of_them] == [
        "settings", "clock", "socket", "magic", "genesis", "stake", "certificates", "consumers", "nodes", "topology",
        "doors", "spacing",
    ]  # fmt: skip
    return {one.check: one for one in all_of_them}


def test_all_is_well() -> None:
    assert [(one.ok, one.remedy) for one in found(WELL).values()] == [(True, "")] * 12
    said = "1 named, none lags: at most 3 messages to read; one lags from 1,001 messages on"
    assert found(WELL)["consumers"].found == said
    edge = replace(WELL, status={"stake": STAKE, "consumers": [{**CONSUMER, "lag": LAG_MAX}]})
    assert found(edge)["consumers"].ok is True
    unnamed = replace(WELL, status={"stake": STAKE, "consumers": []})
    assert found(unnamed)["consumers"] == Finding("consumers", True, "none is named")


PERIOD_S = MAINNET.slots_per_kes_period
WRONG: list[tuple[dict[str, Any], float, str, str, str]] = [
    ({"clock": {"state": "doubted", "problem": "it jumped"}}, 0, "clock", "it jumped", "set the clock"),
    ({"problems": ("line 1: no",)}, 0, "settings", "line 1: no; what runs is as it was started", "`router config"),
    ({"problems": ("line 1: no", "two"), "status": None}, 0, "settings", "^line 1: no; and 1 more$", "correct it"),
    ({"mode": None}, 0, "socket", "there is no dmq", "the node makes it again within seconds"),
    ({"status": None, "mode": None, "start": ""}, 0, "socket", "there is no dmq", "start the node"),
    (
        {"status": None, "mode": None, "start": "`router serve`"}, 0, "socket", "there is no",
        "start it with `router serve`, or",
    ),
    ({"mode": stat.S_IFREG | 0o600}, 0, "socket", "dmq is no socket", "name the node's socket"),
    ({"mode": stat.S_IFSOCK | 0o666}, 0, "socket", "every user of this machine", "?mode=660&group=NAME"),
    ({"silence": "nobody listens"}, 0, "socket", "nobody listens", "start it with `router serve`; a socket file"),
    ({"refusal": "the magic is 1"}, 0, "magic", "asked as a client of mainnet: the magic is 1", "need the same"),
    ({}, 2 * PERIOD_S, "genesis", "KES period 1432 by clock and genesis, and 1430 of 3 of 3", "own Shelley genesis"),
    ({"status": {"stake": {**STAKE, "age_s": None, "problem": "none"}, "consumers": []}}, 0, "stake", "none", "anew"),
    ({"status": {"stake": {**STAKE, "is_of_epoch": False}, "consumers": []}}, 0, "stake", "of another epoch", "anew"),
    (
        {"status": {"stake": {**STAKE, "age_s": -2557.0}, "consumers": []}}, 0, "stake",
        "^3 pools, from 42 min ahead of this clock$", "set this machine's clock",
    ),
    ({"stake_file": b"{"}, 0, "stake", "the stake file", "anew"),
    ({"stake_file": stake_file(POOLS[0].id)}, 0, "stake", "1 pool, .* d .* h old; of another epoch", "anew"),
    ({}, 59 * PERIOD_S, "certificates", "3 of 3 end within 4 KES periods: pool1.* in 3", "tell the pools"),
    (
        {"status": {"stake": STAKE, "consumers": [{**CONSUMER, "lag": LAG_MAX + 1}]}}, 0, "consumers",
        "^one: 1,001 to read, 0 set aside; one lags from 1,001 messages on$", "see to the aggregator's log",
    ),
    (
        {"status": {"stake": STAKE, "consumers": [{**CONSUMER, "set_aside": 2, "connected": False}]}}, 0, "consumers",
        "one: 3 to read, 2 set aside, not connected; one lags from 1,001", "`router dmq again CONSUMER` gives",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "later_s", "check", "text", "remedy"), WRONG)
def test_what_is_wrong(facts: dict[str, Any], later_s: float, check: str, text: str, remedy: str) -> None:
    finding = found(replace(WELL, **facts), later_s)[check]
    assert finding.ok is False and remedy in finding.remedy
    assert re.search(text, finding.found)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"status": FULL, "fullness": "no place: clients_max (64) are connected"},
            "all 64 places are taken (clients_max)",
        ),
        ({"status": FULL, "silence": "it closed the connection"}, "all 64 places are taken (clients_max)"),
        ({"status": None, "fullness": "no place: all in use"}, "its places are taken (no place: all in use)"),
    ],
)
def test_a_node_that_is_full_runs(facts: dict[str, Any], text: str) -> None:
    full = found(replace(WELL, messages=(), **facts))
    remedy = "raise that setting of it, or look who holds them, as with `ss -xp`"
    assert full["socket"] == Finding("socket", False, f"the node runs, and {text}", remedy)
    said = "not checked: the node could not be asked for its messages"
    assert full["certificates"] == Finding("certificates", None, said, "see to the socket first")
    assert full["genesis"].found.startswith(f"{said}; by the clock the KES period is 1430")


NODES = {
    "listens_at": [], "initiator_only": False, "topology": "t.json", "problem": "", "hot": 3, "fetch_from_us": 2,
    "causes": {}, "away": [], "ledger": None, "missing": [], "only_itself": "", "accepted": 3,
    "rejections": {"dmq:expired": 3, "dmq:bad-signature": 9},
}  # fmt: skip
AWAY = {"address": "1.2.3.4:1", "since": int(WALL_S) - 120, "cause": "it cannot be reached: refused"}


@pytest.mark.parametrize(
    ("nodes", "ok", "text", "remedy"),
    [
        ({"topology": ""}, True, "no other node is named, and none is let in", ""),
        ({}, True, "3 nodes are fetched from, 2 fetch from this one", ""),
        ({"hot": 1}, True, "1 node is fetched from.*; with that one gone there is none", ""),
        ({"problem": "t.json: no JSON"}, False, "t.json: no JSON", "correct that file"),
        ({"hot": 0}, False, "0 nodes.*; none was named, and none has dialled in", "--topology-file"),
        ({"hot": 0, "causes": {"1.2.3.4:1: refused": 3}}, False, "; 1.2.3.4:1: refused", "--topology-file"),
        (
            {"away": [AWAY, {**AWAY, "address": "1.2.3.5:1"}]},
            False,
            "^3 nodes.*; 1.2.3.4:1 is away for 2 min: it cannot be reached: refused; 1.2.3.5:1 is",
            "see that it runs and that its port is open",
        ),
        ({"away": [{**AWAY, "cause": "it does not agree: magic"}]}, False, "does not agree", "one network (--network)"),
        (
            {"rejections": {"dmq:expired": 3, "dmq:expiry-too-far": 1}, "away": [AWAY]},
            False,
            "4 messages of other nodes refused by their times, 3 taken: the clocks differ",
            "this machine's clock",
        ),
        (
            {"missing": [{"point": "pool.example:1", "cause": "no address is known for it"}]},
            False,
            "^3 nodes.*; pool.example:1: no address is known for it$",
            "getent hosts",
        ),
        (
            {"topology": "", "hot": 0, "ledger": {"standing": {"private": 2, "failed": 1}}},
            False,
            "of the ledger's relays; 2 not dialled: the address is not public; 1 not reached",
            "--topology-file",
        ),
        ({"only_itself": "1.2.3.4:1"}, False, "names this node itself alone, at 1.2.3.4:1", "name another node in it"),
        ({"fetch_from_us": 0}, False, "what is handed in here reaches nobody", "version_1_peers"),
        ({"fetch_from_us": 0, "initiator_only": True}, False, "diffusion_mode is InitiatorOnly", "out of router.toml"),
    ],
)
def test_whether_messages_reach_other_nodes_is_judged(nodes: dict[str, Any], ok: bool, text: str, remedy: str) -> None:
    status = {"stake": STAKE, "consumers": [CONSUMER], "clients": CLIENTS, "nodes": {**NODES, **nodes}}
    finding = found(replace(WELL, status=status))["nodes"]
    assert finding.ok is ok and remedy in finding.remedy and bool(remedy) is not ok
    assert re.search(text, finding.found)


def test_a_key_of_the_topology_without_effect_is_named() -> None:
    nodes = {**NODES, "unknown_keys": ["localRoots[0].warmValncy"]}
    status = {"stake": STAKE, "consumers": [], "clients": CLIENTS, "nodes": nodes}
    said = "localRoots[0].warmValncy of t.json is unknown, and without effect"
    finding = Finding("topology", True, said, "correct the spelling of it, or take it out")
    assert found(replace(WELL, status=status))["topology"] == finding


DOOR = {
    "listens_at": "0.0.0.0:1", "connections": 413, "strangers": 411, "prefixes": 3, "most_from": "203.0.113.0/24",
    "of_most": 400,
}  # fmt: skip


@pytest.mark.parametrize(
    ("connections", "ok", "text", "remedy"),
    [
        (383, True, "^383 connections of others at 0.0.0.0:1$", ""),
        (
            413,
            True,
            r"^413 connections of others at 0.0.0.0:1, 411 of strangers from 3 address prefixes, most \(400\) from "
            "203.0.113.0/24: from 384 on those of a crowded prefix are let in slowly, and at 512 a stranger gives way",
            "in the machine's firewall",
        ),
        (512, False, "^512 connections", "keep their place"),
    ],
)
def test_a_door_crowded_with_strangers_is_named(connections: int, ok: bool, text: str, remedy: str) -> None:
    doors = [{**DOOR, "connections": 2}, {**DOOR, "connections": connections}]
    status = {"stake": STAKE, "consumers": [], "clients": CLIENTS, "nodes": {**NODES, "doors": doors}}
    finding = found(replace(WELL, status=status, crowd_from=384, places=512))["doors"]
    assert finding.ok is ok and remedy in finding.remedy and bool(remedy) is (connections >= 384)
    assert re.search(text, finding.found)


def test_a_group_for_reading_only_that_carries_alone_is_a_fault() -> None:
    alone = {**NODES, "listens_at": [], "topology": ""}
    group = {"name": "dmq-preview", "problem": "", "joined": True, "may_publish": True}
    status = {"stake": STAKE, "consumers": [CONSUMER], "clients": CLIENTS, "nodes": alone, "group": group}
    assert found(replace(WELL, status=status))["nodes"].ok is True
    reads = found(replace(WELL, status={**status, "group": {**group, "may_publish": False}}))["nodes"]
    assert reads.ok is False and "for reading only: what is handed in reaches nobody" in reads.found
    assert "router group add" in reads.remedy


def test_a_silent_node_with_places_left_is_not_full() -> None:
    silent = found(replace(WELL, silence="it closed the connection"))["socket"]
    assert (silent.ok, silent.found) == (False, "it closed the connection") and "start it with" in silent.remedy


def test_what_is_not_known_is_not_judged() -> None:
    other = Facts("dmq", stat.S_IFSOCK | 0o660)
    assert {check: one.ok for check, one in found(other).items()} == {
        "settings": None, "clock": None, "socket": True, "magic": True, "genesis": None, "stake": None,
        "certificates": None, "consumers": None, "nodes": None, "topology": None, "doors": None, "spacing": None,
    }  # fmt: skip
    assert found(other)["clock"] == Finding(
        "clock", None, "not checked: there is no node in this home", "name the node's home with --home"
    )
    stopped = found(replace(other, start="`router dmq serve`"))["consumers"]
    said = "not checked: the node of this home does not run"
    assert stopped == Finding("consumers", None, said, "start it with `router dmq serve`")
    away = found(replace(other, start="`router dmq serve`", away="the service dmq is not running: no room"))["clock"]
    assert away == Finding("clock", None, "not checked: the service is away", "see to the socket first")
    fresh = replace(other, stake_file=stake_file(POOLS[0].id), stake_at_s=WALL_S)
    assert found(fresh)["stake"] == Finding("stake", True, "1 pool, 0 s old")
