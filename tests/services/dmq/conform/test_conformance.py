"""The conformance checker finds nothing in correct nodes of every revision, and each deliberate fault in others."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result
from rigs.faulty_dmq_nodes import FAULTS
from rigs.patience import HANG_S
from rigs.plain_dmq_node import MAGIC, PlainNode
from samples.dmq import POOLS, STAKE, START_PERIOD, Pool

from router.cli import main
from router.cli.conformance import CheckResult
from services.dmq.client.connection import Unreachable
from services.dmq.conform.probe import Probe
from services.dmq.conform.probe_connection import ProbeLimits
from services.dmq.core.conformance.client_checks import Trial
from services.dmq.core.messages.pool_keys import PoolKeys
from services.dmq.core.messages.trial_messages import Signer
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.chain_time import MAINNET
from services.dmq.core.stake.distribution import StakeSet

PATIENT = ProbeLimits(HANG_S, 0.01)
HASTY = ProbeLimits(0.05, 0.01)
"""Limits for a fault that only silence shows, for which the checker would wait in vain."""
WATCHFUL = ProbeLimits(HANG_S, HANG_S)
"""Limits for a fault in which silence ends early."""


def signer(pool: Pool) -> Signer:
    start = pool.certificate.start_period
    return Signer(PoolKeys(pool.kes, pool.certificate), start, int(time.time()))


def trial(name: str, known: Pool | None) -> Trial:
    return Trial(REVISIONS[name], MAGIC, signer(Pool(9)), signer(known) if known else None)


async def outcomes(probe: Probe) -> list[CheckResult]:
    return [one async for one in probe.outcomes()]


@pytest.mark.parametrize("name", REVISIONS)
async def test_right_nodes(name: str, tmp_path: Path) -> None:
    """A message in the seeds' revisions is signed in the KES period of the clock."""
    of_the_seeds = not name.startswith("dmq")
    pool = Pool(0, start_period=MAINNET.kes_period_at(time.time()) if of_the_seeds else START_PERIOD)
    async with PlainNode(StakeSet({pool.id: 1}, 0.0), REVISIONS[name]).listening(tmp_path / "node"):
        with_keys = await outcomes(Probe(tmp_path / "node", trial(name, pool), PATIENT))
        without = await outcomes(Probe(tmp_path / "node", trial(name, None), PATIENT))
    assert [one for one in with_keys if not one.ok] == []
    assert [one.check for one in without if not one.ok] == ["taken", "given"]
    assert len(with_keys) == len({one.check for one in with_keys}) > (60 if name == "dmq-0.5" else 35)


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_is_found(fault: str, tmp_path: Path) -> None:
    faulty = FAULTS[fault]
    node = PlainNode(STAKE)
    for body in (bytes(100), bytes(101)):
        node.held.append(node.revision.encoding.read(signer(POOLS[1]).message(node.revision, body)))
    faulty.put(node)
    wanted = {faulty.check} | ({"taken"} if faulty.check in ("given", "replay") else set())
    limits = HASTY if faulty.is_silence else WATCHFUL if faulty.check.startswith("idle") else PATIENT
    with trio.fail_after(HANG_S):
        async with node.listening(tmp_path / "node"):
            found = await outcomes(Probe(tmp_path / "node", trial("dmq-0.5", POOLS[0]), limits, wanted))
    assert {one.check: one.ok for one in found} == {one: one != faulty.check for one in wanted}


def test_there_are_many() -> None:
    assert len(FAULTS) >= 40


async def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"no node listens on .*: No such file or directory; start it, or name its"):
        await outcomes(Probe(tmp_path / "node", trial("dmq-0.5", None)))


async def test_the_command(tmp_path: Path) -> None:
    def conform(*arguments: object) -> Result:
        return CliRunner().invoke(main, ["dmq", "conform", *map(str, arguments), "--network", "preprod"])

    url, faulty = f"unix://{tmp_path}/node", PlainNode(STAKE)
    FAULTS["takes any magic"].put(faulty)
    async with PlainNode(STAKE).listening(tmp_path / "node"), faulty.listening(tmp_path / "faulty"):
        run = trio.to_thread.run_sync
        right = await run(partial(conform, url, "--silence", 0, "--timeout", HANG_S))
        wrong = await run(partial(conform, f"unix://{tmp_path}/faulty", "--json", "--only", "wrong-magic"))
        other = await run(partial(CliRunner().invoke, main, ["dmq", "conform", url]))
    assert other.exit_code == 4 and not other.stdout and other.stderr.endswith("; name its network with --network\n")
    assert right.exit_code == 0 and "checks: " in right.stderr and "0 wrong, 2 left out" in right.stderr
    lines = [line.split("\t") for line in right.stdout.splitlines()]
    assert {len(line) for line in lines} == {6} and lines[0][0] == "accept" and lines[0][-1] == "ok"
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout) == {
        "check": "wrong-magic", "state": "StPropose", "sent": "another network's magic",
        "expected": "MsgRefuse Refused 4097, closed", "got": f"MsgAcceptVersion 4097 magic {MAGIC ^ 1}",
        "ok": False,
    }  # fmt: skip
    none = await trio.to_thread.run_sync(partial(conform, f"unix://{tmp_path}/none"))
    assert none.exit_code == 3
    assert (await trio.to_thread.run_sync(partial(conform, "tls://x"))).exit_code == 2


@pytest.mark.parametrize("url", ["unix:///nowhere/node", "tcp://127.0.0.1:1"])
def test_conform_refuses_a_check_that_does_not_exist(url: str) -> None:
    known = CliRunner().invoke(main, ["dmq", "conform", url, "--network", "preprod", "--only", "accept"])
    typo = CliRunner().invoke(main, ["dmq", "conform", url, "--network", "preprod", "--only", "acept"])
    assert known.exit_code == 3
    assert typo.exit_code == 2 and "no check is named 'acept'; did you mean 'accept'?" in typo.stderr


def test_conform_refuses_only_where_it_plays_a_node(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dmq", "conform", "--as-node", str(tmp_path / "node"), "--only", "accept"])
    assert result.exit_code == 2 and "--as-node" in result.stderr


def test_conform_names_both_forms_of_an_address() -> None:
    result = CliRunner().invoke(main, ["dmq", "conform", "127.0.0.1:6161", "--network", "preprod"])
    assert result.exit_code == 2 and "unix://PATH or tcp://HOST:PORT" in result.stderr
