"""Two copies of one home run: each says so, one of them accepts nothing, and one command keeps the other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio
from overlay_nodes import core
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.cli.exits import Exit
from router.client.errors import ClientError
from router.core.control.node_copies import NEIGHBOUR
from router.rig.process import until
from router.settings.home import Home


def copied(found: Rig, node: NodeProcess) -> NodeProcess:
    """Return a node on a copy of this home, which is stopped."""
    copy = found.node(f"copy-of-{node.name}", "core" if node.url else "edge")
    shutil.rmtree(copy.home.path)
    copy.home = Home(Path(shutil.copytree(node.home.path, copy.home.path, ignore=shutil.ignore_patterns("*.sock"))))
    copy.key = node.key
    return copy


async def until_copied(node: NodeProcess, *, barred: bool) -> None:
    """Wait until it says that it is a copy; one that is barred starts again meanwhile."""

    async def is_so() -> bool:
        try:
            said = (await node.ask("status"))["copy"]
        except ClientError:
            return False
        return bool(said) and said["barred"] is barred

    await until(f"{node.name} says that it is {'the older' if barred else 'the later'} copy", is_so)


async def until_named(node: NodeProcess, other: NodeProcess) -> None:
    def is_named(rows: list[dict[str, Any]]) -> bool:
        return any(row["address"] == other.address.hex() and row["problem"] == NEIGHBOUR for row in rows)

    await node.until_answer("a neighbour that was copied", "peers", is_named)


async def sent(node: NodeProcess, to: str) -> tuple[int, str]:
    done = await node.run("send", to, "hello", "--plain")
    return done.code, done.stderr


async def test_of_two_copies_of_an_edge_the_older_stops_until_it_is_kept(tmp_path: Path) -> None:
    """The older one stays stopped after a restart, also by `kill -9`, and never takes the place of the later one."""
    to = new_key().public.hex()
    async with rig(tmp_path) as found:
        hub, older = found.node("hub", "core"), found.node("older")
        hub.serves(older)
        await hub.start()
        await older.start()
        await hub.until_connected(older.address)
        await older.stop()
        later = copied(found, older)
        await older.start()
        await hub.until_connected(older.address)
        await later.start()
        await until_copied(older, barred=True)
        await until_copied(later, barred=False)
        await until_named(hub, older)
        await later.until_connected(hub.address)
        code, said = await sent(older, to)
        assert code == Exit.REFUSED and "copied" in said, said
        assert "copied: another node" in (await older.run("health")).stdout
        heard = await older.run("recv", "--timeout", "0.1s")
        assert heard.code == Exit.TIMED_OUT and "nothing comes: another node" in heard.stderr, heard
        assert NEIGHBOUR in hub.stderr.read_text()
        assert "so this home was copied" in older.stderr.read_text()
        assert "ran beside this node" in later.stderr.read_text()
        await older.kill()
        await older.start()
        await until_copied(older, barred=True)
        assert [one["state"] for one in await older.ask("peers") if one["address"] == hub.address.hex()] == ["away"]
        kept = await older.run("copy", "keep")
        assert kept.code == 0, kept
        await until_copied(later, barred=True)
        await older.until_connected(hub.address)
        assert (await older.ask("status"))["copy"] is None


@pytest.mark.long
async def test_what_an_edge_published_while_its_core_was_stopped_as_a_copy_comes_once_that_is_kept(
    tmp_path: Path,
) -> None:
    """Each copy listens elsewhere and dials the same core. The edge knows the older one, whose services go with it."""
    async with rig(tmp_path) as found:
        hub, older, edge = found.node("hub", "core"), core(found, "older"), found.node("edge")
        hub.serves(older)
        older.serves(edge)
        await hub.start()
        await older.start()
        async with connect(home=older.home, as_name="bob") as bob:
            to = bob.key
        await edge.start()
        await edge.until_connected(older.address)
        assert (await sent(edge, to.hex()))[0] == 0
        await edge.until_drained()
        await older.stop()
        later = copied(found, older)
        for node in (older, later):
            await node.start()
            await node.until_connected(hub.address)
        await until_copied(older, barred=True)
        await until_copied(later, barred=False)
        await edge.until_connected(older.address, up=False)
        assert (await sent(edge, to.hex()))[0] == 0
        assert await edge.queued() == 1
        async with connect(home=older.home, as_name="bob") as bob:
            with trio.move_on_after(1):
                raise AssertionError(f"a barred node hands over {await anext(bob.unicasts())}")
        await older.kill()
        await older.start()
        assert (await older.run("copy", "keep")).code == 0
        async with connect(home=older.home, as_name="bob") as bob:
            with trio.fail_after(HANG_S):
                got = [await anext(bob.unicasts()) for _ in range(2)]
        assert [one.body for one in got] == [b"hello", b"hello"]
        assert [one.redelivered for one in got] == [True, False]
        await until_copied(later, barred=True)
