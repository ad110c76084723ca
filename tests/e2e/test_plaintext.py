"""A core keeps group messages without being able to read them: their bodies are nowhere on its disk."""

from __future__ import annotations

from pathlib import Path

from rig import NodeProcess, three_tiers
from rigs.patience import HANG_S

from router import connect
from router.core.wire.grouplink import parse_link

SEALED = b"the plaintext nobody but members may read"
RAW = b"the plaintext everybody may read"


def files_with(node: NodeProcess, text: bytes) -> set[str]:
    """Return the names of the store's and the log's files that contain this text."""
    paths = [path for place in (node.home.store_path, node.home.log_path) for path in place.rglob("*")]
    assert {path.parent for path in paths} == {node.home.store_path, node.home.log_path}
    return {path.name for path in paths if text in path.read_bytes()}


async def test_bodies_are_sealed_over_a_core(tmp_path: Path) -> None:
    async with three_tiers(tmp_path, {"log.segment_s": 1}) as (_, edge_a, core, edge_b):
        text = (await edge_a.run("group", "new", "family", "--json")).json["link"]
        assert (await edge_b.run("group", "add", text)).code == 0
        assert (await core.run("group", "list", "--json")).json == []
        group = parse_link(text).group
        async with connect(home=edge_b.home, as_name="reader") as reader:
            await reader.join("family", timeout_s=HANG_S)
            await core.until_joined(group, edge_b.address)
        await edge_b.kill()
        await core.until_connected(edge_b.address, up=False)

        sent = await edge_a.run("pub", "family", SEALED.decode())
        assert sent.code == 0, sent.stderr
        raw = await edge_a.run("pub", "--raw", "family", RAW.decode())
        assert raw.code == 0, raw.stderr
        await edge_a.until_drained()
        assert await core.queued() == 2

        await core.freeze()
        assert files_with(core, SEALED) == set()
        assert files_with(core, RAW) == {"data.mdb"}
        core.thaw()

        await edge_b.start()
        async with connect(home=edge_b.home, as_name="reader") as reader:
            got = []
            async for message in reader.group("family"):
                got.append(message.body)
                if len(got) == 1:
                    break
            assert got == [SEALED]
