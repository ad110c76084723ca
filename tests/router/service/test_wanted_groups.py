"""A pub/sub service on a real node: it is told which groups are wanted, joins them, and acknowledges (R-C27)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.own_services import ask, one_service

from router.client.node import Node, connect
from router.core.wire.crypto import SigningKey
from router.service.running import key_of

NEWS, ODD = (SigningKey(bytes((n,)) * 32) for n in (71, 72))
RULES = """
ROLE = "overlay"
from router.service.contract import Answer, Asked, Join, Put, Leave, Message
from router.service.roles.overlay import AckWanted, Wanted

ODD = bytes.fromhex("{odd}")


class Following:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        match heard:
            case Wanted(group, wanted) if group == ODD:
                return [AckWanted(group, wanted, success=False)]
            case Wanted(group, True):
                return [Put(b"wanted/" + group, b"y"), Join(group.hex(), local=True), AckWanted(group, True)]
            case Wanted(group, False):
                return [Put(b"wanted/" + group, None), Leave(group.hex()), AckWanted(group, False)]
            case Message(body=body, group=group) if group is not None:
                return [Put(b"body", body)]
            case Asked(number):
                wanted = [key[7:].hex() for key in self.kept if key.startswith(b"wanted/")]
                return [Answer(number, {{"wanted": wanted, "body": self.kept.get(b"body", b"").decode()}})]
        return []
"""


async def until(node: Node, word: str, value: Any) -> None:
    while (await ask(node, "pubsub all")).get(word) != value:
        await trio.sleep(0.02)


async def test_it_hears_what_is_wanted_and_what_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = RULES.format(odd=ODD.public.hex())
    async with (
        one_service(tmp_path, monkeypatch, "pubsub", rules, module="following") as (home, reader),
        connect(home=home) as writer,
    ):
        service = key_of(home, "pubsub").public
        await reader.join(NEWS)
        await until(reader, "wanted", [NEWS.public.hex()])
        await writer.group(NEWS).publish(b"hello", raw=True)
        await until(reader, "body", "hello")
        await reader.join(ODD)
        await reader.leave(NEWS.public)
        await until(reader, "wanted", [])
        while not (refused := [one for one in await joins(reader) if "refused_by" in one]):
            await trio.sleep(0.02)
        assert [(one["group"], one["refused_by"]) for one in refused] == [(ODD.public.hex(), service.hex())]
        assert all(
            one["subscriber"] != service.hex() or one["group"] == NEWS.public.hex() for one in await joins(reader)
        )


async def joins(node: Node) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in json.loads(await node.ask("log", "0"))["lines"]]
    return [line["fields"] for line in lines if line["event"] == "join"]
