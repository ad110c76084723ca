"""`router capd conform` finds nothing in the right node, and each deliberate fault in others, over real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice

import pytest
import trio
from click.testing import CliRunner
from rigs.faulty_nexa_nodes import FAULTS
from rigs.nexa_node import NexaNode
from rigs.patience import HANG_S

from router.cli import main
from router.cli.conformance import CheckResult
from services.capd.conform.probe import Connects, Probe

HASTY_S = 0.05
"""Seconds to wait for a fault that only silence shows, for which a longer wait would be in vain."""
QUICK = 4


def connects_to(place: str) -> Connects:
    @asynccontextmanager
    async def connects() -> AsyncIterator[trio.abc.Stream]:
        host, _, port = place.partition(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            yield stream

    return connects


async def outcomes(
    place: str, only: Sequence[str] = (), answer_s: float = HANG_S, seed: bytes = b"1"
) -> list[CheckResult]:
    probe = Probe(connects_to(place), "regtest", int(time.time()), seed, only=only, answer_s=answer_s)
    return [one async for one in probe.outcomes()]


@pytest.mark.parametrize("profile", ("strict", "compat"))
async def test_probe_finds_no_fault_in_the_right_node(profile: str) -> None:
    async with NexaNode(profile).listening() as place:
        found = await outcomes(place)
    assert [one for one in found if not one.ok] == []
    assert len(found) == len({one.check for one in found}) >= 45
    assert {one.check for one in FAULTS.values()} <= {one.check for one in found}


@pytest.mark.parametrize(
    "name",
    [*islice(FAULTS, QUICK), *(pytest.param(one, marks=pytest.mark.long) for one in islice(FAULTS, QUICK, None))],
)
async def test_probe_finds_each_fault(name: str) -> None:
    fault = FAULTS[name]
    node = NexaNode()
    fault.put(node)
    async with node.listening() as place:
        [found] = await outcomes(place, (fault.check,), HASTY_S if fault.is_silence else HANG_S)
    assert found.ok is False, found


async def test_conform_command_prints_a_line_a_check_and_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(place: str, *more: str) -> tuple[int, list[str], str]:
        arguments = ["capd", "conform", place, *more]
        result = await trio.to_thread.run_sync(CliRunner().invoke, main, arguments)
        return result.exit_code, result.stdout.splitlines(), result.stderr

    async with NexaNode().listening() as place:
        code, lines, said = await run(place, "--only", "info", "--only", "below", "--harmless")
    assert code == 0 and lines == [
        "info\tgreeted\tcapdgetinfo\tcapdinfo cookie 0005ffff\tcapdinfo cookie 0005ffff\tok",
        "below\tgreeted\tcapdmsg of one below the floor, and A\tcapdinv A\t"
        "left out: it would cost points or a ban (--harmful)\tleft out",
    ]
    assert "2 checks: 1 ok, 0 wrong, 1 left out" in said
    code, lines, said = await run(place)
    assert (code, lines) == (3, []) and f"nobody listens at {place}" in said
    code, lines, said = await run("nowhere")
    assert (code, lines) == (2, []) and "write HOST:PORT" in said
    node = NexaNode()
    FAULTS["the cookie stays"].put(node)
    async with node.listening() as place:
        code, lines, _ = await run(place, "--only", "info", "--json")
    assert code == 1 and '"ok": false' in lines[0]
