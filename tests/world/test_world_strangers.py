"""Messages of strangers make no cycle urgent, so that they cost few transactions and are decided with others'."""

from __future__ import annotations

import pytest

from router.core.routing.job import Job
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from world.app import App
from world.node import Node, Settings
from world.world import World


def write(writer: App, to: App, text: str) -> None:
    expiry = expiry_min(writer.time.now().wall_s + 600)
    writer.put(seal_unicast(writer.key, to.key.public, text.encode(), ttl_s=0, expiry_min=expiry))


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bool, bool]]:
    """For each verified read: the key of its link, and whether the cycle is urgent and waits for more."""
    found: list[tuple[bytes, bool, bool]] = []

    def verify(node: Node, job: Job) -> None:
        original(node, job)
        found.append((job.link.key, node.cycle.is_urgent, node.cycle.waits_for_more))

    original = Node._verify
    monkeypatch.setattr(Node, "_verify", verify)
    return found


def test_reads_of_strangers_wait_for_others_and_those_of_apps_do_not(
    verified: list[tuple[bytes, bool, bool]],
) -> None:
    with World(1) as world:
        core = world.node("core", Settings(strangers=True))
        reader, app = world.app(core, "reader"), world.app(core, "app")
        stranger = world.app(core, "stranger", owner=False)
        world.run_until_quiet()
        core.router.directory.public = frozenset({reader.key.public})
        verified.clear()
        write(stranger, reader, "from outside")
        world.run_until_quiet()
        assert verified == [(stranger.key.public, False, True)]
        write(app, reader, "from here")
        world.run_until_quiet()
        assert verified[1:] == [(app.key.public, True, False)]
        verified.clear()
        write(stranger, reader, "again")
        write(app, reader, "both")
        world.run_until_quiet()
        assert len(reader.diary.handled) == 4
        assert (app.key.public, True, False) in verified
