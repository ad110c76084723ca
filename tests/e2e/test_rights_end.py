"""A guest is told when its rights end or are taken back, then and later, and when it has rights again."""

from __future__ import annotations

import time
from pathlib import Path

import trio
from msgspec.structs import replace
from rig import NodeProcess, rig
from rigs.patience import HANG_S

from router.rig.process import pause, until
from router.settings import config
from router.settings.config_peers import UpdatePeer, time_text

ASK = "ask its operator for a new invitation"
REMOVED = f"it gives us no rights any more: the operator has removed this guest since it was let in; {ASK}"


async def until_said(edge: NodeProcess, core: NodeProcess, problem: str) -> str:
    """Wait until the edge's line about the core begins with this text ("": is empty); return it."""
    began = trio.current_time()
    with trio.fail_after(HANG_S):
        while True:
            said = {one["address"]: one["problem"] or "" for one in await edge.ask("peers")}.get(core.address.hex())
            if said is not None and (said.startswith(problem) if problem else not said):
                return str(said)
            await pause(began)


async def until_connected(edge: NodeProcess, core: NodeProcess) -> None:
    """Wait until the edge shows the core as connected."""
    began = trio.current_time()
    with trio.fail_after(HANG_S):
        while {one["address"]: one["state"] for one in await edge.ask("peers")}[core.address.hex()] != "connected":
            await pause(began)


async def test_a_guest_hears_that_its_rights_ended_and_that_it_has_some_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core = found.node("core", "core", {"node.accept": "known"})
        edge = found.node("edge", settings={"link.dial_backoff_s_max": 1})
        await core.start()
        await edge.start()
        link = (await core.run("invite", "--at", core.url)).stdout.strip()
        assert (await edge.run("peer", "add", link, "--yes")).code == 0
        await until_said(edge, core, "")

        async def is_removed() -> bool:
            removal = await core.run("peer", "remove", edge.address.hex())
            assert removal.code == 0 or "just being written into router.toml; run the command again" in removal.stderr
            return removal.code == 0

        await until("the guest is removed, once it is written", is_removed)
        assert await until_said(edge, core, REMOVED) == REMOVED
        shown = await edge.run("peer", "list")
        assert REMOVED in shown.stdout and " invited " in shown.stdout
        await until_connected(edge, core)  # the core has closed the link, and the edge dials again
        assert "and it gives us no rights any more: the operator has removed" in (await edge.run("doctor")).stdout
        refused = await edge.run("peer", "add", link, "--yes")
        assert refused.code == 4 and "(invite:removed)" in refused.stderr and "peer remove" in refused.stderr

        granting = await core.run("peer", "add", edge.address.hex(), "--name", "edge", "--grant", "join,store")
        assert granting.code == 0
        await until_said(edge, core, "")  # the refusal is older
        refused = await edge.run("peer", "add", link, "--yes")
        assert refused.code == 4 and "What it lets us do stays: join, store." in refused.stderr, (
            "no advice to remove it"
        )
        await until_said(edge, core, "")

        path = core.home.config_path
        [known] = config.load(path)[0].peers
        config.edit_peers(path, UpdatePeer(replace(known, until=time_text(int(time.time()) + 2))))
        await core.ask("reload")
        said = await until_said(edge, core, "the rights that it gave us ended on ")
        assert said.endswith(f" UTC; {ASK}")
        listed = (await core.run("peer", "list", "--all")).stdout
        assert "edge  ended " in listed and "had the rights join, store" in listed
        await edge.kill()
        await edge.start()
        assert await until_said(edge, core, "the rights that it gave us ended on ") == said
