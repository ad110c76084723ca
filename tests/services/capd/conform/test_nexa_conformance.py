"""`router capd conform` finds nothing in the right node, and each deliberate fault in others, over real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice

import pytest
import trio
from click.testing import CliRunner
from rigs.faulty_nexa_nodes import FAULTS
from rigs.nexa_node import NexaNode
from rigs.patience import HANG_S
from samples.capd_live import OURS

from router.cli import main
from router.cli.conformance import CheckResult
from router.core.wire.codec import Malformed
from router.service import contract as c
from services.capd import conform_command
from services.capd.conform.probe import Connects, Probe
from services.capd.core.nexa.conformance_checks import Trial, checks
from services.capd.core.nexa.envelope import Packet
from services.capd.core.nexa.neighbours import DOOR

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
        misspelt = await run(place, "--only", "info", "--only", "inof")
    assert code == 0 and lines == [
        "info\tgreeted\tcapdgetinfo\tcapdinfo cookie 0005ffff\tcapdinfo cookie 0005ffff\tok",
        "below\tgreeted\tcapdmsg of one below the floor, and A\tcapdinv A\t"
        "left out: it would cost points or a ban (--harmful)\tleft out",
    ]
    assert "2 checks: 1 ok, 0 wrong, 1 left out" in said
    assert (misspelt[0], misspelt[1]) == (2, []) and "no check is named 'inof'; did you mean 'info'?" in misspelt[2]
    code, lines, said = await run(place)
    assert (code, lines) == (3, []) and f"nobody listens at {place}" in said
    code, lines, said = await run("nowhere")
    assert (code, lines) == (2, []) and "write HOST:PORT" in said
    node = NexaNode()
    FAULTS["the cookie stays"].put(node)
    async with node.listening() as place:
        code, lines, _ = await run(place, "--only", "info", "--json")
    assert code == 1 and '"ok": false' in lines[0]


class Foreign(NexaNode):
    """A node that ignores our own commands; what is no packet comes to it unchanged."""

    async def _came(self, name: str, data: bytes) -> None:
        try:
            await super()._came(name, data)
        except Malformed:
            await self._hear(c.Came(DOOR, name, data))


async def test_probe_finds_no_fault_in_a_node_that_ignores_our_own_commands() -> None:
    def without_ours(packet: Packet) -> Iterable[Packet]:
        return () if packet.command in OURS else (packet,)

    ours = "masked", "held", "rescinds"
    names = [one.name for one in checks(Trial("regtest", int(time.time()), 3.0, b"1"))]
    async with Foreign("compat", reads=without_ours, writes=without_ours).listening() as place:
        found = await outcomes(place, [one for one in names if one not in ours])
        ignored = await outcomes(place, ours, HASTY_S)
    assert [one for one in found if not one.ok] == [] and len(found) == len(names) - 3 >= 44
    assert [one.ok for one in ignored] == [None] * 3, "left out"


async def test_the_check_that_gets_this_machine_banned_is_made_only_if_it_is_wished() -> None:
    async with NexaNode().listening() as place:
        arguments = ["capd", "conform", place, "--only", "wrong-magic"]
        left_out = await trio.to_thread.run_sync(CliRunner().invoke, main, arguments)
        made = await trio.to_thread.run_sync(CliRunner().invoke, main, [*arguments, "--harmful"])
    assert (left_out.exit_code, made.exit_code) == (0, 0) and made.stdout.endswith("\tclosed\tok\n")
    assert "left out: it gets this machine banned for hours (--harmful)" in left_out.stdout


@pytest.mark.parametrize(
    ("port", "network"), [(7228, "nexa"), (7230, "testnet"), (7232, "stormtest"), (4000, "regtest")]
)
def test_conform_command_takes_the_network_whose_port_it_is(
    monkeypatch: pytest.MonkeyPatch, port: int, network: str
) -> None:
    """Another network's magic gets this machine banned."""
    found: list[str] = []

    class Recorded(Probe):
        async def outcomes(self) -> AsyncIterator[CheckResult]:
            found.append(self._trial.network)
            yield CheckResult("info", "", "", "", "", True)

    monkeypatch.setattr(conform_command, "Probe", Recorded)
    assert CliRunner().invoke(main, ["capd", "conform", f"127.0.0.1:{port}"]).exit_code == 0
    assert CliRunner().invoke(main, ["capd", "conform", f"127.0.0.1:{port}", "--network", "regtest"]).exit_code == 0
    assert found == [network, "regtest"]
