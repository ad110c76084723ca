"""`router why` over real nodes: messages that were delivered, wait or met a kill, and the answers that the next router
may give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio
from raw_link import linked, multicast
from rig import NodeProcess, Tiers, new_key, rig, three_tiers
from rigs.patience import HANG_S

from router import connect
from router.cli.ask import ask
from router.core.why.report import NeighbourReport, decode_report
from router.core.wire.crypto import PublicKey
from router.core.wire.message import message_id
from router.core.wire.text import key_text
from router.rig.process import until
from router.settings.config_peers import Grant
from router.why.questions import NO_ANSWER, NOT_CONNECTED, NOT_PERMITTED, NOT_YOURS


async def why(node: NodeProcess, identity: str, *more: str) -> dict[str, Any]:
    done = await node.run("why", identity, "--json", *more)
    assert done.code == 0, done.stderr
    return dict(done.json)


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {one["recipient"]: one["state"] for one in answer["recipients"]}


def events(one: dict[str, Any]) -> list[str]:
    return [hop["event"] for hop in one["hops"]]


async def test_before_and_after_kill_9_and_with_the_node_stopped(tmp_path: Path) -> None:
    """Alice publishes while Bob is away: the message is queued, also in the log of a node that was killed, and then
    delivered."""
    group, bob_key = new_key(), new_key()
    async with rig(tmp_path) as found:
        node = found.node("core", "core")
        await node.start()
        async with connect(home=node.home, key=bob_key) as bob:
            await bob.join(group.public, timeout_s=HANG_S)
        async with connect(home=node.home) as alice:
            identity = (await alice.group(group).publish(b"hello", ttl_s=3600)).hex()
        answer = await why(node, identity)
        assert (answer["message"], answer["kind"], answer["group"]) == (identity, "multicast", group.public.hex())
        assert states(answer) == {bob_key.public.hex(): "queued"} and answer["complete"]
        [one] = answer["recipients"]
        assert (one["attempts"], one["hops"]) == (0, []) and "is away" in one["next"] and one["until"]
        await node.kill()
        stopped = await why(node, identity[:12])
        assert states(stopped) == states(answer) and stopped["accepted_ns"] == answer["accepted_ns"]
        assert "which is stopped" in stopped["recipients"][0]["next"]
        await node.start()
        async with connect(home=node.home, key=bob_key) as bob:
            async for message in await bob.join(group.public, timeout_s=HANG_S):
                assert message.body == b"hello"
                await message.settle()
                break
        await node.until_drained()
        assert states(await why(node, identity)) == {bob_key.public.hex(): "delivered"}
        text = key_text("msg", bytes.fromhex(identity))
        for spelling in (identity.upper(), text, text[:12], f"{identity[:9]}…"):
            [one] = (await why(node, spelling))["recipients"]
            assert events(one) == ["forwarded", "delivered"] and one["attempts"] == 1
        assert await node.stop() == 0
        assert (await why(node, text))["recipients"] == [one]
        people = await node.run("why", text)
        assert people.code == 0 and "delivered, 1 attempt" in people.stdout and text in people.stdout


async def test_what_is_not_there_and_what_is_no_id(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node = found.node("core", "core")
        await node.start()
        done = await node.run("why", "ab" * 32)
        assert done.code == 1 and "no message whose id begins with abababab" in done.stderr
        assert "reaches back to 20" in done.stderr
        assert (await node.run("why", "abc")).code == (await node.run("why", "xyz1")).code == 2


async def published_on_a(tiers: Tiers) -> tuple[str, str]:
    """Publish a message on A that an app on B receives; return its id and the core's key."""
    group = new_key()
    async with connect(home=tiers.edge_b.home) as bob, connect(home=tiers.edge_a.home) as alice:
        listening = await bob.join(group.public, timeout_s=HANG_S)
        await tiers.core.until_joined(group.public, tiers.edge_b.address)
        identity = (await alice.group(group).publish(b"hello")).hex()
        async for message in listening:
            await message.settle()
            break
    for node in (tiers.edge_b, tiers.core, tiers.edge_a):
        await node.until_drained()
    return identity, tiers.core.address.hex()


async def test_the_next_routers_are_asked_where_they_permit_it(tmp_path: Path) -> None:
    async with three_tiers(tmp_path) as tiers:
        identity, core = await published_on_a(tiers)
        [one] = (await why(tiers.edge_a, identity, "--follow"))["recipients"]
        assert (one["recipient"], one["state"], events(one)) == (core, "acked", ["forwarded", "acked", "unknown"])
        assert "has not granted us" in one["hops"][-1]["reason"]
        for node, asker in ((tiers.core, "edge-a"), (tiers.edge_b, "core")):
            grants = "why" if asker == "core" else "join,store,relay,why"
            key = tiers.core.address if asker == "core" else tiers.edge_a.address
            assert (await node.run("peer", "add", key.hex(), "--grant", grants)).code == 0
        [one] = (await why(tiers.edge_a, identity, "--follow"))["recipients"]
        assert events(one) == ["forwarded", "acked", "accepted", "delivered"]
        assert [hop["router"] for hop in one["hops"][2:]] == [core, None], "who is behind the core is not told"
        said = f"{core[:8]}… has taken custody; of those at routers behind it: 1 delivered"
        assert one["next"] == f"nothing here: {said}"
        people = (await tiers.edge_a.run("why", identity, "--follow")).stdout
        assert "next: nothing here: core has taken custody; of those" in people and core[:8] not in people
        name = f"core ({key_text('addr', tiers.core.address)[:16]}…)"
        assert [line.strip() for line in people.splitlines() if line.endswith("clock:")] == [
            "here, by this router's clock:", f"at {name}, by its own clock:",
            "at routers behind it, each by its own clock:",
        ]  # fmt: skip
        [one] = (await why(tiers.core, identity, "--follow"))["recipients"]
        assert [hop["router"] for hop in one["hops"][2:]] == [tiers.edge_b.address.hex()] * 2
        await tiers.core.freeze()
        [one] = (await why(tiers.edge_a, identity, "--follow"))["recipients"]
        assert (events(one), one["hops"][-1]["reason"]) == (["forwarded", "acked", "unknown"], NO_ANSWER)
        await tiers.core.kill()
        await tiers.edge_a.until_connected(tiers.core.address, up=False)
        [one] = (await why(tiers.edge_a, identity, "--follow"))["recipients"]
        assert (events(one), one["hops"][-1]["reason"]) == (["forwarded", "acked", "unknown"], NOT_CONNECTED)


async def test_a_router_is_told_only_of_what_it_handed_over_and_only_with_the_grant(tmp_path: Path) -> None:
    """A neighbour gets no answer about other messages, whatever it asks."""
    asker, other, unpermitted, stranger = (new_key() for _ in range(4))
    async with rig(tmp_path) as found:
        core = found.node("core", "core")
        rights: dict[PublicKey, tuple[Grant, ...]] = {
            asker.public: ("join", "why"), other.public: ("join", "why"), unpermitted.public: ("join",),
        }  # fmt: skip
        for key, grants in rights.items():
            core.knows(key, grants=grants)
        await core.start()
        group = new_key()
        async with (
            connect(home=core.home) as bob,
            linked(core, asker, tls=True, role="router") as one,
            linked(core, other, tls=True, role="router") as two,
            linked(core, unpermitted, tls=True, role="router") as three,
            linked(core, stranger, tls=True, role="router") as four,
        ):
            await bob.join(group.public, timeout_s=HANG_S)
            wire = multicast(group, b"hello")
            assert await one.publish(wire) == [None]
            identity = message_id(wire).hex()

            def told(answer: bytes | None) -> NeighbourReport:
                report = None if answer is None else decode_report(answer)
                assert report is not None and report.message == identity[: len(report.message)]
                return report

            good = told(await one.ask("why", f"{identity} 3"))
            assert good.accepted_ns and [outcome.count for outcome in good.outcomes] == [1] and not good.problem
            assert told(await two.ask("why", f"{identity} 3")).problem == NOT_YOURS
            assert told(await three.ask("why", f"{identity} 3")).problem == NOT_PERMITTED
            assert await four.ask("why", f"{identity} 3") is None
            assert await two.publish(wire) == [None], "a copy is a duplicate, and that is all it is told"

            async def is_told() -> bool:
                found = told(await two.ask("why", f"{identity} 3"))
                return not found.accepted_ns and [one.state for one in found.outcomes] == ["duplicate"]

            await until("the sum of duplicates that names it is written", is_told)
            assert told(await one.ask("why", f"{identity[:40]} 3")).problem == NOT_YOURS, "a beginning will not do"
            for word in ("status", "peers", "log", "drop"):
                assert await one.ask(word, "0") is None


async def test_limits_and_the_neighbour_s_clock_are_in_the_log(tmp_path: Path) -> None:
    """An inquiry for events that no segment holds yet finds the configured limits and the neighbour's clock."""
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core", {"link.ping_s": 1}), found.node("edge")
        core.serves(edge)
        await core.start()
        await edge.start()

        async def lines(after: int = 0) -> list[dict[str, Any]]:
            answer = await trio.to_thread.run_sync(ask, core.home, "log", str(after))
            told = [json.loads(line) for line in answer["lines"]]
            assert (answer["sealed_seq"], answer["more"]) == (0, False)
            assert answer["next_seq"] == (told[-1]["seq"] + told[-1]["n"] if told else after + 1)
            return told

        async def has_heard() -> bool:
            return any(line["event"] == "link" for line in await lines())

        await until("a pong is written down", has_heard)
        told = await lines()
        assert [line["seq"] for line in told[:2]] == [1, 2] and told[1]["event"] == "config"
        assert told[1]["fields"] == {
            "queue_messages_max": 1_000_000, "queue_bytes_max": 1 << 30, "group_percent": 25,
            "group_messages_max": 5_000_000, "group_bytes_max": 8 << 30,
            "neighbour_messages_max": 5_000_000, "neighbour_bytes_max": 8 << 30,
            "node_messages_max": 10_000_000, "node_bytes_max": 16 << 30, "met_percent": 5, "strangers_percent": 1,
            "ttl_s_max": 604_800,
            "clock_moves_s_max": 600, "history_open_max": 4096, "groups_per_client_max": 1000,
        }  # fmt: skip
        [heard] = [line for line in told if line["event"] == "link"]
        assert heard["fields"]["peer"] == edge.address.hex() and 0 < heard["fields"]["rtt_ns"] < 60 * 10**9
        assert [line["seq"] for line in await lines(3)][:1] == [4]
