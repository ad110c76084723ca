"""The message router as an actor: a fault while it takes an event ends the node, whoever sent the event."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.serving import serving

from router.actors.actor import ActorFailed
from router.client.node import connect
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
