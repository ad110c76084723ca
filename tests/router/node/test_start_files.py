"""What a command changes in a home whose node is just starting is known to the node when it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from samples.core import ALICE

from router.client.node import connect
from router.node.node import Ready, RunningNode
from router.node.start_files import StartFiles
from router.settings import config
from router.settings.config import Config, edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home


@pytest.mark.parametrize("moment", ["before the lock", "before the socket"])
async def test_neighbour_that_is_added_while_the_node_starts_is_known(moment: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()

    def add() -> None:
        edit_peers(home.config_path, AddPeer(Peer(address=ALICE.public, name="alice")))

    def load() -> Config:
        found = config.load(home.config_path, {"verify.verifiers": 0})[0]
        if moment == "before the socket" and not found.peers:
            add()
        return found

    files = StartFiles(home, load)
    assert not files.have_changed()
    node, is_ready = RunningNode(home, files(), files), trio.Event()
    if moment == "before the lock":
        add()

    def on_ready(_: Ready) -> None:
        is_ready.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run, on_ready)
        with trio.fail_after(HANG_S):
            await is_ready.wait()
            async with connect(home=home) as app:
                assert b"alice" in await app.ask("peers", timeout_s=HANG_S)
        node.stop()
    assert not files.have_changed()


def test_an_invitation_is_a_change_as_well(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    files = StartFiles(home, Config)
    files()
    assert not files.have_changed()
    (home.path / "invitations").mkdir(exist_ok=True)
    (home.path / "invitations" / "one").write_text("x")
    assert files.have_changed()
