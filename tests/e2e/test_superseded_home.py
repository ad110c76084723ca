"""A home of before the renewal of its key, run again: what status, top and the metrics say where a neighbour refuses
it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from rigs.commands import run_in
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.node import connect
from router.overview.facts import NodeFacts, with_answer
from router.settings import config, keyring
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

UNTIL_ASKED_S = 0.05


async def told_by(home: Home, question: str, holds: Callable[[Any], bool]) -> Any:
    """Return the node's answer to a question as soon as it is as wanted."""
    with trio.fail_after(HANG_S):
        async with connect(home=home) as app:
            while not holds(answer := json.loads(await app.ask(question))):
                await trio.sleep(UNTIL_ASKED_S)
    return answer


def is_linked(peers: list[dict[str, Any]]) -> bool:
    return any(one["uplink"] and one["state"] == "connected" for one in peers)


async def test_home_of_before_a_renewal_is_named_by_status_top_and_metrics(tmp_path: Path) -> None:
    here, old, there = (tmp_path / name for name in ("here", "old", "hub"))
    for path in (here, there):
        assert run_in(path)("init").exit_code == 0
    was = keyring.load(Home(here), keyring.NODE).public
    config.edit_peers(Home(there).config_path, AddPeer(Peer(address=was, name="here", grant=("join", "store"))))
    async with serving(there, {"node.listen": ["tls://127.0.0.1:0"]}) as hub:
        async with connect(home=hub) as app:
            [url] = [one for one in json.loads(await app.ask("status"))["listeners"] if one.startswith("tls:")]
        hub_key = keyring.load(hub, keyring.NODE).public
        config.edit_peers(Home(here).config_path, AddPeer(Peer(address=hub_key, name="hub", urls=(url,), uplink=True)))
        async with serving(here, {}) as home:
            await told_by(home, "peers", is_linked)
        shutil.copytree(here, old)
        assert run_in(here)("keys", "rotate-node").exit_code == 0
        async with serving(here, {}) as home:
            await told_by(home, "peers", is_linked)
            assert (await told_by(home, "metrics", bool))["superseded_at"] == 0
        async with serving(old, {}) as home:
            status = await told_by(home, "status", lambda answer: bool(answer["superseded"]))
            assert (await told_by(home, "metrics", bool))["superseded_at"] == 1
    assert status["superseded"]["at"] == [hub_key.hex()]
    shown = with_answer(NodeFacts(), "status", status).status.superseded
    assert shown is not None and "has its place at hub, so this home is older than that" in shown.problem
