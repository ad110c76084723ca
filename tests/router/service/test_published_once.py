"""A service publishes messages that are the same whoever publishes them, and hears a group's bodies as they are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio
from rigs.own_services import ask, one_service
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.node import Node, connect
from router.core.wire.grouplink import new_group
from router.core.wire.lifetime import expiry_min
from router.service import contract as c
from router.service.deed_checks import DeedChecks, WrongDeed
from router.settings import keyring

RULES = """
from router.service import contract as c

class Herald:
    def __init__(self, setup):
        self.kept, self.refused = setup.kept, ""

    def hear(self, heard, now):
        match heard:
            case c.Started() if b"joined" in self.kept:
                return [c.Join("news", raw=True)]
            case c.Asked(number, "join"):
                return [c.Put(b"joined", b"yes"), c.Join("news", raw=True), c.Answer(number, "joined")]
            case c.Message(body=body):
                return [c.Put(b"heard", self.kept.get(b"heard", b"") + body + b" ")]
            case c.Asked(number, "publish", argument):
                body, until_s = argument.split()
                deed = c.Publish(body.encode(), "news", 60, "a tag", int(until_s), once=True)
                return [deed, deed, c.Answer(number, "published")]
            case c.Sent(refused=refused, text=text):
                self.refused = f"{refused}: {text}"
            case c.Asked(number):
                return [c.Answer(number, [self.kept.get(b"heard", b"").decode(), self.refused])]
        return []
"""


async def until_heard(node: Node, text: str) -> None:
    """Wait until the service runs, and has heard this."""
    while not isinstance(found := await ask(node, "herald heard"), list) or found[0] != text:
        await trio.sleep(0.02)


async def test_what_a_service_publishes_once_is_heard_once_and_bodies_come_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_service(tmp_path, monkeypatch, "herald", RULES) as (home, node):
        keyring.add_group(home, "news", new_group(b"g" * 32, b"k" * 32))
        assert await ask(node, "herald join") == "joined"
        soon_s = 60 * int(time.time() // 60 + 60)
        news = await node.join("news", raw=True)
        assert await ask(node, f"herald publish first {soon_s}") == "published"
        async with connect(home=home) as other:
            await other.group("news", raw=True).publish(b"second")
        heard = []
        async for message in news:
            heard.append(message.body)
            if message.body == b"first":
                assert message.expiry_min == expiry_min(soon_s)
            if len(heard) == 2:
                break
        assert sorted(heard) == [b"first", b"second"], "published twice, and heard once"
        await until_heard(node, "second ")
        assert await ask(node, "herald publish late 1600000000") == "published"
        while "a time that is over" not in (await ask(node, "herald heard"))[1]:
            await trio.sleep(0.02)


async def test_what_was_queued_in_a_group_while_the_service_was_away_comes_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_service(tmp_path, monkeypatch, "herald", RULES, run="apart") as (home, node):
        await until_heard(node, "")
        keyring.add_group(home, "news", new_group(b"g" * 32, b"k" * 32))
        assert await ask(node, "herald join") == "joined"
        await node.group("news", raw=True).publish(b"before")
        await until_heard(node, "before ")
    [rules] = tmp_path.glob("*/herald.py")
    rules.write_text("raise RuntimeError('away')")
    with trio.fail_after(2 * HANG_S):
        async with serving(home.path, {}), connect(home=home) as node:
            await node.group("news", raw=True).publish(b"meanwhile")
        rules.write_text(RULES)
        async with serving(home.path, {}), connect(home=home) as node:
            await until_heard(node, "before meanwhile ")


def test_what_is_published_once_has_a_time_at_which_it_ends() -> None:
    with pytest.raises(WrongDeed, match="wrong until_s: it is None"):
        DeedChecks().judge(c.Publish(b"x", "news", once=True), hears_message=False)
