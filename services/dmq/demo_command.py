"""`router dmq demo`: the promises of a DMQ node, shown on real processes that are killed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import click
import trio
from click.core import ParameterSource
from msgspec.structs import replace

from router.cli.command import Command, json_option
from router.cli.conditions import show_conditions
from router.cli.exits import Exit, Failure
from router.cli.output import say
from router.core.wire.text import counted
from router.rig.ending import until_signalled
from router.rig.process import HANG_S, RigFailed
from router.rig.socket_room import socket_room
from services.dmq.core.stake.chain_time import NETWORKS
from services.dmq.demo.counts import Counts
from services.dmq.demo.network_checks import network_checks
from services.dmq.demo.network_script import NetworkScript, network_script
from services.dmq.demo.network_stage import KILLED, NetworkPlayed, network_staged
from services.dmq.demo.script import SIGNERS, Script, written
from services.dmq.demo.stage import NETWORK, staged


@click.command(cls=Command)
@click.option("--messages", type=click.IntRange(1, 200), default=6, show_default=True, help="Messages of each signer.")
@click.option("--kills", type=click.IntRange(0, 200), default=1, show_default=True, help="How often the node dies.")
@click.option("--network", is_flag=True, help="Five routers in place of one node; see below.")
@json_option
def demo(messages: int, kills: int, network: bool, as_json: bool) -> None:
    """Play sixteen signers and two aggregators at a node that is killed.

    The node and one aggregator get kill -9 in between. One pool sends a body that an aggregator cannot read, one a
    wrong certificate, one two messages within a minute, one the payload of another. Ends with the checked counts; exit
    code 1 if one of them is wrong.

    With --network, four DMQ nodes dial each other, three of their routers carry the topic by a group as well, and a
    fifth router reads in that group without a DMQ node. Two nodes get kill -9 and come back.
    """
    with tempfile.TemporaryDirectory(prefix="dmq-demo-", dir=socket_room()) as base:
        now_s = time.time()
        kes_period = NETWORKS[NETWORK].kes_period_at(now_s)
        if network:
            _check_of_network()
            _play_network(Path(base), network_script(kes_period, now_s), as_json)
            return
        script = written(messages, kes_period, now_s)
        try:
            counts = trio.run(until_signalled, play, Path(base), script, kills, as_json)
        except* RigFailed as group:
            raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    played = counts.played
    said = f"the node and the first aggregator were killed {counted(played.kills, 'time')}; {played.seconds:.1f} s"
    facts = {"kills": played.kills, "seconds": round(played.seconds, 1)}
    show_conditions(list(counts.checks()), said, as_json=as_json, **facts)


def _check_of_network() -> None:
    """Raise `Failure` if options of the other play are given."""
    context = click.get_current_context()
    for name in ("messages", "kills"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Failure(Exit.USAGE, f"--{name} is of the play without --network; leave one of both out")


def _play_network(base: Path, script: NetworkScript, as_json: bool) -> None:
    try:
        played = trio.run(until_signalled, play_network, base, script, as_json)
    except* RigFailed as group:
        raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    said = f"{' and '.join(KILLED)} were killed and came back; {played.seconds:.1f} s"
    checks = list(network_checks(script, played))
    show_conditions(checks, said, as_json=as_json, kills=len(KILLED), seconds=round(played.seconds, 1))


async def play_network(base: Path, script: NetworkScript, as_json: bool, *, tied: bool = True) -> NetworkPlayed:
    """Play the network in this directory, and return what was seen; `tied`: as in `network_staged`."""
    async with network_staged(base, script, (lambda text: None) if as_json else say, tied=tied) as stage:
        await stage.play()
        return stage.played


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
