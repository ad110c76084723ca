"""A thief has recorded all that was said, and copies the home of the apps before and after their prekeys have gone."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from disk import read_disk
from rig import NodeProcess, rig
from sealed_apps import MARK
from test_sealed_over_a_core import DAY_S, App

from router.client.options import state_of
from router.client.sealing.rows import OWN_PREKEYS, PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing, UnknownPrekey
from router.core.wire.message import Unicast, open_message
from router.core.wire.unicast_seal import BEGINS
from router.disk.state.secrets import KEY_FILE
from router.settings import keyring
from router.settings.home import Home

WAITING = 5


class Thief:
    """A copy of the home of a node and its apps, all of them stopped or frozen, as it was at one moment."""

    def __init__(self, node: NodeProcess, to: Path) -> None:
        self.home = Home(Path(shutil.copytree(node.home.path, to, ignore=shutil.ignore_patterns("*.sock"))))
        self.files = b"\0".join(path.read_bytes() for path in to.rglob("*") if path.is_file())

    def recorded(self, node: NodeProcess, scratch: Path) -> list[Unicast]:
        """Return the sealed messages that wait at the node."""
        parcels = read_disk(self.home, node.address, scratch).parcels.values()
        found = [open_message(parcel.wire(index)) for parcel in parcels for index in range(parcel.count)]
        return [one for one in found if isinstance(one, Unicast) and one.body.startswith(BEGINS)]

    def sealed_by(self, name: str) -> bytes:
        """Return the key that seals the secrets of an app, as its file has it."""
        return (self.home.path / "apps" / f"{name}.state" / KEY_FILE).read_bytes().split()[-1]

    def seeds(self, name: str) -> list[bytes]:
        """Return the secrets of the prekeys of an app."""
        with closing(state_of(self.home, name)) as state:
            return [value[-32:] for _, value in state.rows(OWN_PREKEYS)]

    def opens(self, one: Unicast, name: str) -> bytes:
        """Return what was sealed to an app, read by a clock that stood still when it was recorded."""
        with closing(state_of(self.home, name)) as state:
            machine = UnicastSealing(keyring.load(self.home, name), PrekeyRows(state, state.commit), os.urandom)
            return machine.open(one.body, one.source, one.expiry_min - 1).message.content


async def say(one: App, other: App) -> None:
    await one.send(1)
    await one.until_sent()
    await other.until_handled(one)


async def test_a_copy_of_a_home_taken_once_its_prekeys_have_gone_opens_nothing_that_was_recorded(
    tmp_path: Path,
) -> None:
    """A copy of before opens all of it. All files of the later one, of both apps and their node, are searched for the
    keys of the earlier one as bytes, in pages that were freed, too."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        node.move_clock(0)
        await node.start()
        apps = alice, bob = [App(found, node, name, tmp_path / "node.clock") for name in ("alice", "bob")]
        for one, other in ((alice, bob), (bob, alice)):
            one.writes_to(other)
        for one in apps:
            await one.start()
        await say(alice, bob)
        await say(bob, alice)
        await bob.kill()
        await alice.send(WAITING)
        await alice.until_sent()
        frozen = alice.process, node
        for process in frozen:
            await process.freeze()
        early = Thief(node, tmp_path / "early")
        for process in frozen:
            process.thaw()
        await bob.start()
        await bob.until_handled(alice)

        await bob.kill()
        await node.kill()
        node.move_clock(8 * DAY_S)
        await node.start()
        await bob.start()
        await say(alice, bob)
        await say(bob, alice)
        for process in (alice.process, bob.process, node):
            await process.kill()
        late = Thief(node, tmp_path / "late")

    recorded = early.recorded(node, tmp_path)
    assert [early.opens(one, "bob") for one in recorded] == [MARK + b"%d" % number for number in range(1, WAITING + 1)]
    gone = [seed for name in ("alice", "bob") for seed in early.seeds(name)]
    assert len(gone) >= 2 and not set(gone).intersection(late.seeds("alice"), late.seeds("bob"))
    gone += [bytes.fromhex(early.sealed_by(name).decode()) for name in ("alice", "bob")]
    assert early.sealed_by("bob") in early.files, "so files are searched for what they hold"
    for key in gone:
        assert key not in late.files and key.hex().encode() not in late.files
    assert MARK not in late.files
    for unicast in recorded:
        with pytest.raises(UnknownPrekey):
            late.opens(unicast, "bob")
