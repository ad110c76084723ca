"""Causal order on real nodes: messages that an edge lacks come from the core that named them, and no others."""

from __future__ import annotations

import os
from pathlib import Path

from raw_link import linked, multicast
from rig import new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.core.wire.application import DEPS_MAX, seal
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.grouplink import new_group

FAMILY = new_group(b"g" * 32, b"k" * 32, "family")
OTHER = new_group(b"o" * 32, b"k" * 32, "other")


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


async def test_a_member_that_names_causes_nobody_has_holds_up_no_other(tmp_path: Path) -> None:
    """It names 256 invented ids, a message of another group, and numbers that leave a gap and begin again; a message
    cannot name itself, nor two each other, as an id is a hash of what it names."""
    liar, member = SigningKey(b"g" * 32), new_key()
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        await core.start()
        await edge.start()
        async with (
            connect(home=core.home) as bob,
            connect(home=edge.home) as app,
            connect(home=edge.home) as patient,
            linked(core, new_key()) as link,
        ):
            group = await app.join(FAMILY, order="causal", gap_s=1.0)
            waiting = await patient.join(FAMILY, order="causal", gap_s=HANG_S)
            await app.join(OTHER)
            for one in (FAMILY, OTHER):
                await core.until_joined(one.group, edge.address)
            elsewhere = await bob.group(OTHER).publish(b"elsewhere")
            lies = (
                (0, tuple(MessageId(os.urandom(32)) for _ in range(DEPS_MAX))),
                (1, (elsewhere,)), (1 << 40, ()), (0, ()), (0, ()),
            )  # fmt: skip
            wanted = dict[bytes, int]()
            for number, (seq, deps) in enumerate(lies):
                body = b"lie %d" % number
                sealed = seal(
                    member, FAMILY.group, seq, deps, body, content_key=FAMILY.content_key, nonce=os.urandom(24)
                )
                assert await link.publish(multicast(liar, sealed)) == [None]
                await bob.group(FAMILY).publish(b"%d" % number)
                wanted |= {body: len(deps), b"%d" % number: 0}
            others = list[bytes]()
            async for message in waiting:
                others += [message.body] if message.body.isdigit() else []
                if len(others) == len(lies):
                    break
            got = list[tuple[bytes, int]]()
            async for message in group:
                got.append((message.body, len(message.missing)))
                if len(got) == len(wanted):
                    break
        assert dict(got) == wanted, "each once, and what is not here is named"
        assert others == [body for body, _ in got if body.isdigit()] == [b"%d" % number for number in range(len(lies))]
