"""Logs of simulated nodes, sealed as nodes seal them: the audit agrees with the world's ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from world.app import Habits
from world.node import Node
from world.readers import away, reader_at
from world.sealed_log import write_log
from world.test_world import disturb, readers_of, two_tiers
from world.world import World

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.wire.control import Carried, encode_control
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from spark_analytics.judgement.schema import STATES


def audited(world: World, directory: Path) -> dict[str, Any]:
    for node in world.nodes:
        write_log(node, directory / node.name)
    return audit(list_logs([directory]), AuditSpan(world.time.now().wall_ns))


def told(world: World, node: Node) -> dict[str, int]:
    """Return the counts of the node's ledger in the audit's words."""
    book = world.ledger(node)
    assert all(len(ends) < 2 for ends in book.ends.values())
    states = Counter(ends[0] if ends else "pending" for ends in book.ends.values())
    return {
        "accepted": len(book.ids), "owed": len(book.ends), **{state: states[state] for state in STATES},
        "redelivered": sum(count - 1 for count in book.handed.values() if count), "forwards": sum(book.handed.values()),
        "duplicates": 0, "contradictions": 0, "strays": 0,
    }  # fmt: skip


def agree(world: World, found: dict[str, Any]) -> None:
    by_router = {row["router"]: row for row in found["by_router"]}
    for node in world.nodes:
        row = by_router[node.address.hex()]
        expected = told(world, node)
        assert {name: row[name] for name in expected} == expected, node.name
    assert [row["text"] for row in found["findings"] if row["level"] == "bad"] == []
    assert found["overdue"] == found["pruned_open"] == found["early"] == found["claims"] == []
    assert found["residual"] == 0 and found["holes"] == found["problems"] == found["broken"] == found["lost"] == []


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 150))])
def test_in_the_midst_of_cuts_and_crashes_and_after_them(seed: int, tmp_path: Path) -> None:
    with World(seed) as world:
        cores, edges, cables = two_tiers(world)
        readers = readers_of(world, [*cores, *edges], Habits(die=0.03))
        writer = world.app(edges[0], "writer")
        ids: list[bytes] = []
        for _ in range(6):
            ids += writer.publish(world.group("news"), 15, size=world.time.random.choice((10, 200, 3000)))
            disturb(world, cables, [writer, *readers])
            world.run(world.time.random.random())
        midst = audited(world, tmp_path / "midst")
        agree(world, midst)
        world.run_until_quiet()
        found = audited(world, tmp_path / "after")
        agree(world, found)
        got = sum(len(reader.diary.handled) for reader in readers)
        assert found["delivered"] == got == len(ids) * len(readers) and found["pending"] == 0
        assert found["messages"] == len(ids) >= midst["messages"]
        assert all(row["acked"] == row["followed"] for row in found["custody"])


def test_every_kind_of_end(tmp_path: Path) -> None:
    """Delivered, expired, unconfirmed, refused because away, and pending."""
    with World(11) as world:
        node = world.node("node")
        here, gone, writer = reader_at(world, node), reader_at(world, node), world.app(node)
        away(world, gone)
        group = world.group("news")
        for ttl_s in (5, 3600, 0):
            writer.publish(group, 4, ttl_s=ttl_s)
            world.run(1)
        world.run(20)
        found = audited(world, tmp_path)
        agree(world, found)
        states = ("delivered", "expired", "pending", "unconfirmed", "refused")
        assert [found[state] for state in states] == [8, 4, 4, 4, 4]
        assert len(here.diary.handled) == 12


def test_what_a_router_was_sent_itself_is_at_its_goal(tmp_path: Path) -> None:
    """A carrier is accepted only where it was handed in; the router that took it is its destination."""
    with World(4) as world:
        core, edge = world.node("core"), world.node("edge")
        world.link(edge, core, uplink=True, grants="join store relay")
        app = world.app(edge)
        reader_at(world, core)
        expiry = expiry_min(world.time.now().wall_s + 7200)
        inner = seal_multicast(world.group("news"), b"hello", ttl_s=3600, expiry_min=expiry)
        carrier = encode_control(Carried(inner))
        app.put(seal_unicast(app.key, core.address, carrier, ttl_s=3600, expiry_min=expiry))
        world.run_until_quiet()
        found = audited(world, tmp_path)
        agree(world, found)
        assert (found["acked"], found["delivered"]) == (1, 1) and found["verdict"] == "good"
