"""What a live Nexa node answered, byte for byte: a `compat` pool answers each exchange as it did.

Left out are what the file's header names (the numbers of `capdinfo`, the node's own extversion, the place of
inventories and requests among the other packets), what we ask of ourselves when a connection is agreed, and, where a
query matches messages of the cases that the file does not hold, those messages and the total."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samples.capd import posted
from samples.capd_net import REGTEST, Pool, greeted

from router.service import contract as c
from services.capd.core.message import ID_BYTES
from services.capd.core.nexa import commands as n
from services.capd.core.nexa.envelope import Packet, Unpacker
from services.capd.core.nexa.greeting import EXTVERSION, Version
from services.capd.core.nexa.neighbours import DOOR
from services.capd.core.nexa.packets import ExtVersion, Ping, Verack, checksum, packet_of
from services.capd.settings import Settings

LIVE = Path(__file__).parents[4] / "vectors" / "capd" / "live"
EXCHANGES = json.loads((LIVE / "exchanges.json").read_text())
CASES = {case["name"]: case for case in EXCHANGES["cases"]}
BEGUN_S = EXCHANGES["source"]["create_time_of_messages"] + 5
CASE_S = 1.3
"""Seconds that a case took, about."""
PARTS = ("standing of 2, 4, 8, 16", "payload of 3, query of 2")
"""Cases whose queries match messages of the cases that are not in the file."""
OURS = ("version", "ping", "pong", "capdgetheld")
COMPAT = Settings(network="regtest", profile="compat")


class Wire:
    """A connection to a pool, whose packets are taken as they are."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._unpacker = Unpacker(REGTEST)
        self._packets: list[Packet] = []
        self.is_closed = False
        self.peer = ""
        pool.open(self, "127.0.0.1:4000")

    def written(self, data: bytes) -> None:
        self.is_closed |= not data
        self._packets += self._unpacker.feed(data)

    def send(self, data: bytes) -> list[Packet]:
        """Send bytes; return the packets that came since the last call."""
        self._pool.hear(c.Came(DOOR, self.peer, data))
        found, self._packets = self._packets, []
        return [one for one in found if one.command not in OURS]


@cache
def outcomes() -> dict[str, tuple[list[Packet], bool, frozenset[bytes]]]:
    """Make all exchanges with one pool, in their order; return for each what came, whether the connection was closed,
    and the ids that the pool holds."""
    pool, found = Pool(COMPAT), {}
    pool.now = c.Now(float(BEGUN_S), 1000.0)
    greeting = Version(BEGUN_S, 7, b"/live/"), ExtVersion(EXTVERSION), Verack()
    for name, case in CASES.items():
        wire = Wire(pool)
        if case["greeted"]:
            wire.send(b"".join(packet_of(one).encoded(REGTEST) for one in greeting))
        packets = wire.send(bytes.fromhex(case["sent"]) + packet_of(Ping(9)).encoded(REGTEST))
        held = frozenset(row.id for row in pool.rules._holdings.pool.rows())
        found[name] = packets, wire.is_closed, held
        pool.hear(c.Came(DOOR, wire.peer, b""))
        pool.now = c.Now(pool.now.wall_s + CASE_S, pool.now.mono_s + CASE_S)
    return found


def announced(packets: list[Packet]) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the ids that were announced, and those that were requested, each with the line."""
    invs, requests = list[bytes](), list[tuple[bytes, bytes]]()
    for one in packets:
        at = {"capdinv": 1, "capdgetmsg": 8}.get(one.command)
        if at is None:
            continue
        assert one.cookie == 0 and one.payload[at] < 0xFD
        ids = [one.payload[place : place + ID_BYTES] for place in range(at + 1, len(one.payload), ID_BYTES)]
        invs += ids if one.command == "capdinv" else []
        requests += [] if one.command == "capdinv" else [(one.payload[:8], own_id) for own_id in ids]
    return sorted(invs), sorted(requests)


def answered(packets: list[Packet], held: frozenset[bytes], *, is_part: bool) -> list[tuple[Any, ...]]:
    """Return the other packets as the file's header has them compared."""
    found: list[tuple[Any, ...]] = []
    for command, payload, cookie in packets:
        if command == "capdinfo":
            if cookie & 0xFFFF != 0xFFFF:
                assert cookie == checksum(payload), "to one that knows no cookies"
                cookie = 0
            found.append((command, len(payload), cookie))
        elif command == "extversion":
            found.append((command, cookie == checksum(payload)))
        elif command == "capdqreply" and is_part and payload[4] == n.IDS:
            ids = [payload[at : at + ID_BYTES] for at in range(10, len(payload), ID_BYTES)]
            found.append((command, payload[:5], [one for one in ids if one in held], cookie))
        elif command not in ("capdinv", "capdgetmsg"):
            found.append((command, payload, cookie))
    return found


def said(case: dict[str, Any]) -> list[Packet]:
    return [
        Packet(one["command"], bytes.fromhex(one["payload"]), int.from_bytes(bytes.fromhex(one["cookie"])))
        for one in case["replies"]
    ]


@pytest.mark.parametrize("name", CASES)
def test_exchange_is_that_of_the_live_node(name: str) -> None:
    packets, is_closed, held = outcomes()[name]
    packets = [one for one in packets if one.command != "capdgetinfo"]
    live, is_part = said(CASES[name]), name in PARTS
    assert is_closed is CASES[name]["closed"]
    assert announced(packets) == announced(live)
    ours = answered(packets, held, is_part=is_part)
    theirs = answered(live, held, is_part=is_part)
    if is_part:  # a page of ours goes on with older ones where the live node's holds some that are not in the file
        pairs = zip(ours, theirs, strict=True)
        ours = [(*one[:2], one[2][: len(other[2])], one[3]) if len(one) == 4 else one for one, other in pairs]
    assert ours == theirs


def test_message_at_or_above_the_line_on_arrival_is_announced_however_short_its_life() -> None:
    for row in json.loads((LIVE / "low_relay_life.json").read_text())["rows"]:
        for settings in (COMPAT, Settings(network="regtest")):
            pool = Pool(settings)
            client = greeted(pool)
            age_s = row["age_at_arrival_s"]
            message = posted(b"of a short life", row["initial_priority"], int(pool.now.wall_s) - age_s)
            assert message.initial_priority < row["initial_priority"] + 0.01
            assert (client.say(n.Msg((message,))) == [n.Inv((message.own_id(),))]) is row["announced"]
            assert client.say(n.GetMsg(2.0, (message.own_id(),))) == [n.Msg((message,))], "and sent at once"


def test_matches_come_in_the_order_of_the_live_node() -> None:
    order = json.loads((LIVE / "order.json").read_text())
    for settings in (COMPAT, Settings(network="regtest")):
        client = greeted(Pool(settings))
        messages = [posted(b"TKD\x0c%d" % number, 4.0) for number in range(30)]
        for one in messages:
            client.say(n.Msg((one,)))
        [ids] = client.say(n.PrefixQuery(1, n.IDS, 0, 2_000, b"TKD\x0c"))
        assert ids.ids == tuple(messages[number].own_id() for number in order["ids_all"])
        [page] = client.say(n.PrefixQuery(1, n.MESSAGES, 0, 3, b"TKD\x0c"))
        assert page.messages == tuple(messages[number] for number in order["messages_quantity_3"])
