"""`router capd import` at a real pool: messages are handed in as the file has them, though several batches are under
way at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio
from rigs.own_services import block, running
from rigs.patience import HANG_S
from samples.capd import posted

from router.client.node import connect
from services.capd import client, file_commands
from services.capd.core import messages as m
from services.capd.core.pattern import Pattern

MESSAGES = 3 * file_commands.AT_ONCE


async def test_import_hands_in_messages_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is new, so it asks for the pool's prekey first, and what waits for that goes on in any order."""
    one_by_one, at_once = file_commands.batches, int(time.time())
    monkeypatch.setattr(file_commands, "batches", lambda messages: one_by_one(messages, 1))
    given = [posted(b"TKD%d" % number, create_time=at_once) for number in range(MESSAGES)]
    async with (
        running(tmp_path, block("capd", "services.capd")) as (home, node),
        connect(home=home) as watcher,
        client.pool_of(watcher) as seen,
        client.pool_of(node) as pool,
    ):
        await seen.ask(m.Watch, Pattern.prefix(b""), 600)
        handed_in = file_commands.HandedIn()
        await file_commands.hand_in(pool, given, handed_in)
        assert handed_in.counts["new"] == MESSAGES
        heard = []
        with trio.fail_after(HANG_S):
            for _ in given:
                match, arrival = await seen.matches.receive()
                heard.append(match.message)
                await arrival.settle()
    assert heard == [one.encoded() for one in given]
