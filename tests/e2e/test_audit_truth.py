"""`router audit` agrees with the messages that apps received over three real nodes, one of which is killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from rig import ROUTER, NodeProcess, Tiers, new_key, three_tiers
from rigs.patience import HANG_S

from router import Reason, connect
from router.core.wire.crypto import PublicKey, SigningKey
from router.rig.process import run_command, until

MESSAGES = 100
KILLED_AT = 40
NAP_S = 3  # each hop begins it anew, and takes less
LITTLE_SEGMENTS = {"log.segment_bytes": 64 * 1024, "log.segment_s": 1}
UNWANTED = b"no, thank you"


@dataclass
class Reader:
    """An app that records its messages, and refuses those it does not want."""

    node: NodeProcess
    key: SigningKey = field(default_factory=new_key)
    got: Counter[bytes] = field(default_factory=Counter)
    refused: set[bytes] = field(default_factory=set)

    async def run(self, group: SigningKey, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with connect(home=self.node.home, key=self.key, when_down="queue") as app:
            messages = await app.join(group.public, timeout_s=HANG_S)
            task_status.started()
            async for message in messages:
                if message.body == UNWANTED:
                    self.refused.add(bytes(message.id))
                    await message.refuse(Reason.PEER_REFUSED)
                else:
                    self.got[bytes(message.id)] += 1

    async def until_has(self, ids: list[bytes]) -> None:
        async def has_all() -> bool:
            return set(ids) <= set(self.got) | self.refused

        await until(f"{self.key.public.hex()[:8]} has everything", has_all)


@dataclass
class Story:
    """The messages sent, by group. Four fifths go to the big group, which is read at the core and behind it."""

    tiers: Tiers
    big: SigningKey = field(default_factory=new_key)
    small: SigningKey = field(default_factory=new_key)
    naps: SigningKey = field(default_factory=new_key)
    sleeper: SigningKey = field(default_factory=new_key)
    sent: dict[PublicKey, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _, self.a, self.core, self.b = self.tiers
        self.at_core, self.of_small, self.at_b = Reader(self.core), Reader(self.core), Reader(self.b)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for reader, group in ((self.at_core, self.big), (self.of_small, self.small), (self.at_b, self.big)):
                await nursery.start(reader.run, group)
            async with connect(home=self.b.home, key=self.sleeper) as app:
                await app.join(self.naps.public, timeout_s=HANG_S)
            for group in (self.big, self.naps):
                await self.core.until_joined(group.public, self.b.address)
            await self._publish()
            for reader, group in ((self.at_core, self.big), (self.of_small, self.small), (self.at_b, self.big)):
                await reader.until_has(self.sent[group.public])
            for node in (self.a, self.core, self.b):
                await node.until_drained()
            nursery.cancel_scope.cancel()

    async def _publish(self) -> None:
        """Publish, and kill the core meanwhile; publish messages that expire or are refused when all nodes are up
        again."""
        async with connect(home=self.a.home) as app:
            async with trio.open_nursery() as nursery:
                for n in range(MESSAGES):
                    if n == KILLED_AT:
                        await self.core.kill()
                        nursery.start_soon(self.core.start)
                    await self._say(app, self.small if n % 5 == 4 else self.big, b"%d" % n)
            await self.core.until_connected(self.b.address)
            await self.a.until_drained()
            for _ in range(2):
                await self._say(app, self.big, UNWANTED)
            for _ in range(3):
                await self._say(app, self.naps, b"wake up", ttl_s=NAP_S)
            await self._say(app, new_key(), b"is anybody here?")

    async def _say(self, app: Any, group: SigningKey, body: bytes, ttl_s: int = 3600) -> None:
        identity = await app.group(group).publish(body, ttl_s=ttl_s)
        self.sent.setdefault(group.public, []).append(bytes(identity))

    # -- what the audit must say -----------------------------------------------------------------------------

    def owed(self) -> dict[str, dict[str, int]]:
        """Return by router the deliveries owed, with their ends, as the apps know them."""
        big, small, naps = (len(self.sent[group.public]) for group in (self.big, self.small, self.naps))
        everything = sum(map(len, self.sent.values()))
        return {
            self.a.address.hex(): {"owed": everything, "acked": everything - 1, "refused": 1},
            self.core.address.hex(): {
                "owed": 2 * big + small + naps, "acked": big + naps, "refused": len(self.at_core.refused),
                "delivered": len(self.at_core.got) + len(self.of_small.got),
            },
            self.b.address.hex(): {
                "owed": big + naps, "delivered": len(self.at_b.got), "refused": len(self.at_b.refused),
                "expired": naps,
            },
        }  # fmt: skip


async def audited(*nodes: NodeProcess) -> dict[str, Any]:
    homes = [str(node.home.path) for node in nodes]
    done = await run_command((*ROUTER, "audit", *homes, "--json"))
    assert done.code == 0, done.stderr
    found: dict[str, Any] = done.json
    return found


async def test_the_apps_ledger_is_the_audits(tmp_path: Path) -> None:
    """Check running nodes, whose last events are not sealed yet, and then the same nodes stopped or killed."""
    async with three_tiers(tmp_path, LITTLE_SEGMENTS) as tiers:
        story = Story(tiers)
        await story.run()
        agree(story, await audited(story.a, story.core, story.b))
        assert await story.a.stop() == await story.core.stop() == 0
        await story.b.kill()
        agree(story, await audited(story.a, story.core, story.b))


def agree(story: Story, found: dict[str, Any]) -> None:
    ids = {identity for some in story.sent.values() for identity in some}
    assert found["messages"] == len(ids)
    for row in found["by_router"]:
        expected = story.owed()[row["router"]]
        ended = ("owed", "delivered", "acked", "refused", "expired", "dropped", "pending", "unaccounted", "unknown")
        assert {name: row[name] for name in ended} == {name: expected.get(name, 0) for name in ended}
    assert found["duplicates"] == found["residual"] == found["contradictions"] == found["strays"] == 0
    handed_again = sum((reader.got - Counter(set(reader.got))).total() for reader in (story.at_core, story.at_b))
    assert found["redelivered"] >= handed_again
    assert sum(row["broken"] + row["unknown"] for row in found["custody"]) == 0
    assert found["holes"] == found["problems"] == []
    words = {(row["event"], row["reason"], row["at_door"]) for row in found["reasons"]}
    assert words >= {
        ("expired", "ttl-expired", False), ("refused", "no-subscribers", True), ("refused", "peer-refused", False),
    }  # fmt: skip
