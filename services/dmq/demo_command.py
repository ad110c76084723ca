"""`router dmq demo`: the promises of a DMQ node, shown on real processes that are killed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import click
import trio
from msgspec.structs import replace

from router.cli.command import Command, json_option
from router.cli.conditions import show_conditions
from router.cli.exits import Exit, Failure
from router.cli.output import say
from router.core.wire.text import counted
from router.rig.process import HANG_S, RigFailed
from services.dmq.core.chain_time import NETWORKS
from services.dmq.demo.counts import Counts
from services.dmq.demo.script import SIGNERS, Script, written
from services.dmq.demo.stage import NETWORK, staged


@click.command(cls=Command)
@click.option("--messages", type=click.IntRange(1, 200), default=6, show_default=True, help="Messages of each signer.")
@click.option("--kills", type=click.IntRange(0, 200), default=1, show_default=True, help="How often the node dies.")
@json_option
def demo(messages: int, kills: int, as_json: bool) -> None:
    """Play sixteen signers and two aggregators at a node that is killed.

    The node and one aggregator get kill -9 in between. One pool sends a body that an aggregator cannot read, one a
    wrong certificate, one two messages within a minute, one the payload of another. Ends with the checked counts; exit
    code 1 if one of them is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="dmq-demo-") as base:
        now_s = time.time()
        script = written(messages, NETWORKS[NETWORK].kes_period_at(now_s), now_s)
        try:
            counts = trio.run(play, Path(base), script, kills, as_json)
        except* RigFailed as group:
            raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    played = counts.played
    said = f"the node and the first aggregator were killed {counted(played.kills, 'time')}; {played.seconds:.1f} s"
    facts = {"kills": played.kills, "seconds": round(played.seconds, 1)}
    show_conditions(list(counts.checks()), said, as_json=as_json, **facts)


async def play(base: Path, script: Script, kills: int, as_json: bool, *, tied: bool = True) -> Counts:
    """Play the demo in this directory, and return what was counted; `tied`: as in `staged`."""
    async with staged(base, script, tied=tied) as stage:
        if not as_json:
            say(f"{SIGNERS} signers hand in {len(script.lines)} messages, two aggregators read")
        played = await stage.play(kills)
        fates: dict[str, dict[str, Any]] = {}
        peers_at = {(one["id"], one["pool"]): one["peers_at"] for one in await stage.mempool()}
        counts = Counts(script, played, fates, await stage.status(), peers_at)
        with trio.move_on_after(HANG_S):
            while untold := counts.untold():
                for message in untold:
                    fates[message] = await stage.ask("why", message)
        await stage.node.stop()
        audit = await stage.audit()
    return replace(counts, audit=audit)
