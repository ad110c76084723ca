"""Two nodes whose services agree on a group as LAN neighbours: messages of one reach the other once and in order,
though both are killed while messages wait; no message of another group does (R-C25)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from raw_link import RawLink, linked
from rig import NodeProcess, Rig, new_key, rig
from rigs.own_services import findable

from router import SigningKey, connect
from router.core.wire.text import key_text

RULES = """
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from router.service.roles.overlay import Dial


class Nearby:
    def __init__(self, setup: c.Setup) -> None:
        self.settings = setup.settings

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if not isinstance(heard, c.Started):
            return []
        key, group = (PublicKey(bytes.fromhex(one)) for one in (self.settings.key, self.settings.group))
        urls, until_s = (self.settings.url,), int(now.wall_s) + 3600
        agreed = o.ShareGroups(key, (group,), until_s, lan=True)
        return [c.AddNeighbour(key, urls, until_s, "friend", "lan"), agreed, Dial(key)]
"""
SETTINGS = """
from typing import Annotated

from router.service.settings import Struct, about


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    key: Annotated[str, about("The other router.")] = ""
    url: Annotated[str, about("Where it is.")] = ""
    group: Annotated[str, about("The group in common.")] = ""
"""
MESSAGES = 50


def laptops(found: Rig, place: Path, group: SigningKey) -> tuple[NodeProcess, NodeProcess]:
    """Return two nodes that know each other by their services alone, not started yet."""
    folder = place / "nearby"
    folder.mkdir()
    for name, text in (("__init__", ""), ("rules", RULES), ("settings", SETTINGS)):
        (folder / f"{name}.py").write_text(text)
    one, two = (found.node(name, "edge", listens=True) for name in ("one", "two"))
    for node, other in ((one, two), (two, one)):
        named = {"key": other.address.hex(), "url": other.url, "group": group.public.hex()}
        text = re.sub(r"(?m)^#?services = .*$", 'services = ["nearby"]', node.home.config_path.read_text())
        settings = "".join(f'{key} = "{value}"\n' for key, value in named.items())
        node.home.config_path.write_text(f"{text}\n[services.nearby]\n{settings}")
        node.settings["node.services"] = ["nearby"]
    return one, two


async def publish(node: NodeProcess, group: SigningKey, first: int) -> list[bytes]:
    async with connect(home=node.home) as publisher:
        speaking = publisher.group(group)
        return [bytes(await speaking.publish(b"%d" % n)) for n in range(first, first + MESSAGES)]


async def test_what_was_agreed_outlives_a_kill_and_what_waits_arrives_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, other_group, here, there = (new_key() for _ in range(4))
    async with rig(tmp_path) as found:
        one, two = laptops(found, findable(tmp_path, monkeypatch), group)
        await one.start()
        await two.start()
        async with linked(one, here, durable=True) as app, linked(two, there, durable=True) as reader:
            for each in (app, reader):
                assert await each.join(group.public) and await each.join(other_group.public)
            await one.until_joined(group.public, two.address)
            await two.until_joined(group.public, one.address)
            blocked = await one.run("peer", "block", '"friend"')
            assert blocked.code == 2 and key_text("addr", two.address) in blocked.stderr, blocked
            sent = await publish(one, group, 0)
            await reader.until("what the other says has come", lambda: len(reader.got) >= MESSAGES)
            await two.until_drained()
            await one.until_drained(two.address)
            await two.kill()
            await one.until_connected(two.address, up=False)
            sent += await publish(one, group, MESSAGES)
            await publish(one, other_group, 0)
            await one.kill()
            assert came(reader) == sent[:MESSAGES]
        await one.start()
        await two.start()
        async with linked(two, there, durable=True) as reader:
            await reader.until("what waited has come", lambda: len(reader.got) >= MESSAGES)
            await one.until_drained(two.address)
            assert came(reader) == sent[MESSAGES:], "once, in order, and nothing of the other group"


def came(reader: RawLink) -> list[bytes]:
    return [bytes(one) for one in reader.ids]
