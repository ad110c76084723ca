"""`router dmq demo` on real processes: every count that it checks holds, however often the node is killed."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rig import ROUTER
from rigs.patience import HANG_S

from router.cli import main
from router.cli.exits import Exit
from services.dmq.core.stake.chain_time import NETWORKS
from services.dmq.demo.script import written
from services.dmq.demo.stage import NETWORK
from services.dmq.demo_command import play


def played(*options: str) -> dict[str, object]:
    done = subprocess.run(
        [*ROUTER, "dmq", "demo", "--json", *options], capture_output=True, text=True, timeout=4 * HANG_S, check=False
    )
    assert done.stdout, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert found["ok"], [one for one in found["checks"] if not one["holds"]]  # type: ignore[attr-defined]
    assert done.returncode == 0
    return found


def test_a_killed_node_loses_nothing_that_it_has_accepted() -> None:
    assert played("--messages", "6", "--kills", "1")["kills"] == 1


def test_five_routers_joined_between_nodes_and_by_a_group_have_every_message_once() -> None:
    """Also those that were killed, and the one without a DMQ node, whose `router sub --raw` gets the same bytes."""
    assert played("--network")["kills"] == 2


def test_a_play_takes_no_options_of_the_other() -> None:
    done = CliRunner().invoke(main, ["dmq", "demo", "--network", "--kills", "3"])
    assert done.exit_code == Exit.USAGE and "--kills is of the play without --network" in done.stderr


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.long)])
async def test_kill_rounds(kills: int, tmp_path: Path) -> None:
    now_s = time.time()
    script = written(2, NETWORKS[NETWORK].kes_period_at(now_s), now_s)
    counts = await play(tmp_path, script, kills, as_json=True, tied=False)
    assert counts.played.kills == kills
    assert [one for one in counts.checks() if not one.holds] == []


@pytest.mark.long
def test_a_hundred_kill_rounds() -> None:
    assert played("--messages", "40", "--kills", "100")["kills"] == 100
