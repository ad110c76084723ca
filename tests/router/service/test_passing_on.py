"""Two nodes on TLS, whose pub/sub services pass a group on: SUB and HINT come, a copy by VIA arrives once, PULL is
answered (R-C27 to R-C30)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.own_services import ask
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.node import Node, connect
from router.core.wire.address import parse_address
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.grouplink import new_group
from router.core.wire.hint import Hint
from router.settings.home import Home

RULES = """
ROLE = "overlay"
from router.service import contract as c
from router.service.roles import overlay as o


class PassingOn:
    def __init__(self, setup):
        self.said, self.held = [], {}

    def hear(self, heard, now):
        match heard:
            case c.Asked(number, "said"):
                return [c.Answer(number, self.said)]
            case c.Asked(number, word, argument):
                return [*getattr(self, word)(now, *argument.split()), c.Answer(number, True)]
            case o.Wanted(group, True):
                self.said.append(["wanted", group.hex()])
                return [c.Join(group.hex(), local=True), o.AckWanted(group, True)]
            case o.Hinted(group, hints):
                self.said.append(["hinted", group.hex(), [[one.url for one in hint.addresses] for hint in hints]])
            case c.Message(group=group) if group is not None:
                self.held[heard.id.hex()] = heard.wire
                self.said.append(["message", heard.id.hex(), heard.via and heard.via.hex()])
            case c.Sent(tag, _, refused):
                self.said.append(["sent", tag, refused and refused.word])
            case c.HopOutcome(tag, _, to, state, reason):
                self.said.append(["passed", tag, to.hex(), state, reason and reason.word])
            case o.PulledFrom(_, _, id, state):
                self.said.append(["pulled", id.hex(), state])
        return []

    def meet(self, now, key, group, *urls):
        key, group, until_s = c.PublicKey(bytes.fromhex(key)), c.PublicKey(bytes.fromhex(group)), int(now.wall_s) + 600
        known = [c.AddNeighbour(key, urls, until_s, how="hint"), o.Dial(key)] if urls else []
        return [o.ShareGroups(key, (group,), until_s), *known]

    def forward(self, now, tag, id, to):
        return [c.Forward(self.held[id], c.PublicKey(bytes.fromhex(to)), tag)]

    def pull(self, now, of, group, *ids):
        of, group = (c.PublicKey(bytes.fromhex(one)) for one in (of, group))
        return [o.PullFrom(of, group, c.MessageId(bytes.fromhex(id))) for id in ids]
"""
CONFIG = '[node]\nlisten = ["tls://127.0.0.1:0"]\n[[node.services]]\nname = "pubsub"\nmodule = "passing_on"\n'


class Side:
    """One node, seen by an app of its owner."""

    def __init__(self, node: Node) -> None:
        self.node = node
        assert node.router is not None
        self.router: PublicKey = node.router

    async def tell(self, word: str, *arguments: bytes | str) -> Any:
        said = " ".join([word, *(one.hex() if isinstance(one, bytes) else one for one in arguments)])
        return await ask(self.node, f"pubsub {said}")

    async def until(self, *said: object) -> None:
        while list(said) not in await self.tell("said"):
            await trio.sleep(0.02)

    async def url(self) -> str:
        listeners = json.loads(await self.node.ask("status"))["listeners"]
        return next(str(one) for one in listeners if one.startswith("tls:"))

    async def until_peers(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        while not any(map(holds, json.loads(await self.node.ask("peers")))):
            await trio.sleep(0.02)


async def test_two_nodes_pass_a_group_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passing_on.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    homes = Home(tmp_path / "a"), Home(tmp_path / "b")
    for home in homes:
        home.create()
        home.config_path.write_text(CONFIG)
    link = new_group(b"s" * 32, b"c" * 32)
    with trio.fail_after(HANG_S):
        async with (
            serving(homes[0].path, {}),
            serving(homes[1].path, {}),
            connect(home=homes[0]) as alice,
            connect(home=homes[1]) as bob,
        ):
            here, there = Side(alice), Side(bob)
            url = await here.url()
            await there.node.join(link.with_hints((Hint(here.router, (parse_address(url),)),)))
            await there.until("wanted", link.group.hex())
            await there.until("hinted", link.group.hex(), [[url]])
            speaking = await here.node.join(link)
            await here.until("wanted", link.group.hex())

            await here.tell("meet", there.router, link.group)
            await there.tell("meet", here.router, link.group, url)
            await there.until_peers(lambda one: one["learned"] == "hint" and one["state"] == "connected")
            ids = [await speaking.publish(b"%d" % n) for n in range(3)]
            for n, id in enumerate(ids):
                await here.until("message", id.hex(), None)
                if n < 2:
                    await here.tell("forward", f"copy-{n}", id, there.router)
            await here.tell("forward", "again", ids[0], there.router)
            for tag in ("copy-0", "copy-1", "again"):
                await here.until("passed", tag, there.router.hex(), "acked", None)
            assert not [one for one in await here.tell("said") if one[0] == "sent"], "only refusals are"
            await here.tell("forward", "astray", ids[0], b"n" * 32)
            await here.until("sent", "astray", "no-route")
            await there.until("message", ids[1].hex(), here.router.hex())

            never = MessageId(bytes(32))
            await there.tell("pull", here.router, link.group, ids[2], ids[0], never)
            for id, state in zip((ids[2], ids[0], never), ("asked", "known", "asked"), strict=True):
                await there.until("pulled", id.hex(), state)
            await there.until("message", ids[2].hex(), here.router.hex())
            got = [one.id async for one in first(bob, 3)]
            assert got == ids, "each once, though one was sent twice and the service has it too"

            await there.tell("meet", here.router, there.router)  # which ends what they agreed on before
            await here.tell("forward", "late", ids[0], there.router)
            while "pubsub:not-shared" not in json.loads(await bob.ask("status"))["reasons"]:
                await trio.sleep(0.05)
            await there.tell("meet", here.router, link.group, url)
            await here.until("passed", "late", there.router.hex(), "acked", None)  # it was refused for now


async def first(node: Node, count: int) -> Any:
    """Return that many messages, and check that none follows."""
    left = count
    async for one in node:
        yield one
        left -= 1
        if not left:
            break
    assert not len(node.problems)
