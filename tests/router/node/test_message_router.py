"""The message router as an actor: a fault while it takes an event ends the node, whoever sent the event."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from rigs.serving import serving

from router.actors.actor import ActorFailed
from router.client.group import Group
from router.client.node import connect
from router.core.wire.grouplink import new_group
from router.disk.store.store import Store
from router.node.cycle import Cycle, Heard
from router.node.link_events import LinkOpened


async def test_a_fault_in_hearing_ends_the_node_and_not_the_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear = Cycle.hear

    def broken(self: Cycle, heard: Heard) -> object:
        if isinstance(heard, LinkOpened):
            raise ZeroDivisionError("a fault of ours")
        return hear(self, heard)

    monkeypatch.setattr(Cycle, "hear", broken)
    with pytest.RaisesGroup(
        pytest.RaisesExc(ActorFailed, match="ZeroDivisionError: a fault of ours"), flatten_subgroups=True
    ):
        async with serving(tmp_path / "home", {}) as home, connect(home=home):
            await trio.sleep_forever()


LOOKS, LOOK_S = 5, 0.05


async def test_a_commit_that_has_not_returned_lets_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither custody is confirmed nor a message delivered: after a crash now, the node would know of neither."""
    commit, is_held, may_go_on = Store.commit, threading.Event(), threading.Event()

    def held(self: Store) -> None:
        if is_held.is_set():
            assert may_go_on.wait(HANG_S)
        commit(self)

    monkeypatch.setattr(Store, "commit", held)
    came, posted = trio.Event(), trio.Event()

    async def read(reading: Group) -> None:
        async for _ in reading.messages():
            came.set()

    async def write(writing: Group) -> None:
        await writing.publish(b"kept")
        posted.set()

    link = new_group(b"g" * 32, b"k" * 32)
    async with serving(tmp_path / "home", {}) as home, connect(home=home) as reader, connect(home=home) as writer:
        reading, writing = await reader.join(link), await writer.join(link)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, reading)
            is_held.set()
            nursery.start_soon(write, writing)
            try:
                for _ in range(LOOKS):
                    await trio.testing.wait_all_tasks_blocked(LOOK_S)
                    assert not came.is_set() and not posted.is_set()
            finally:
                may_go_on.set()
            with trio.fail_after(HANG_S):
                await came.wait()
                await posted.wait()
            nursery.cancel_scope.cancel()
