"""Causal order on real nodes: messages that an edge lacks come from the core that named them, and no others."""

from __future__ import annotations

from pathlib import Path

from rig import rig

from router import connect
from router.core.wire.grouplink import new_group

FAMILY = new_group(b"g" * 32, b"k" * 32, "family")


async def test_a_new_reader_at_an_edge_gets_what_the_first_message_follows(tmp_path: Path) -> None:
    """The edge lacks the messages published before it joined. It asks the core for the cause of each new message, not
    for more."""
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        await core.start()
        await edge.start()
        async with connect(home=core.home) as reader, connect(home=core.home) as bob, connect(home=edge.home) as new:
            await reader.join(FAMILY)
            for number in range(4):
                await bob.group(FAMILY).publish(b"old %d" % number)
            group = await new.join(FAMILY, order="causal")
            await core.until_joined(FAMILY.group, edge.address)
            ids = [await bob.group(FAMILY).publish(b"new %d" % number) for number in range(3)]
            got = []
            async for message in group:
                got.append((message.body, len(message.missing), message.late))
                if message.id == ids[-1]:
                    break
        assert got == [(b"old 3", 1, False), *((b"new %d" % number, 0, False) for number in range(3))]
