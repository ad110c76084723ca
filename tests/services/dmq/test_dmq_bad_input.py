"""Wrong and hostile bytes on the real socket of the service: each has its verdict, and other clients notice nothing."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.plain_dmq_node import MAGIC
from rigs.serving import serving
from samples.dmq import POOLS, START_PERIOD, Pool

from router.cli import main
from router.cli.exits import Failure
from router.cli.services import ask_service
from router.core.link.machine import Agency
from router.rig.process import POLL_S
from router.settings.home import Home
from services.dmq.client.connection import Broken, Connection, NoPlace, connect
from services.dmq.conform.probe import Probe
from services.dmq.conform.probe_connection import ProbeLimits
from services.dmq.core.conformance.client_checks import Trial, request, submit
from services.dmq.core.conformance.judging import said
from services.dmq.core.messages.pool_keys import PoolKeys, stake_file
from services.dmq.core.messages.trial_messages import Signer
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.client_session import WAITING_BYTES_MAX, Session
from services.dmq.core.protocols.revision import REVISIONS

DEPLOYED = REVISIONS["dmq-0.5"]
HELLO = said(h.NUMBER, h.encode_message(h.propose(MAGIC)))
CLIENTS_MAX = 12


def signer(pool: Pool) -> Signer:
    return Signer(PoolKeys(pool.kes, pool.certificate), START_PERIOD, int(time.time()))


class Bystander:
    """A consumer of blocking requests that keeps the bodies it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._wakes = trio.Event()

    async def consume(self, node: Connection) -> None:
        while True:
            for wire in (await node.request(blocking=True)).messages:
                self.bodies.append(DEPLOYED.encoding.read(wire).body)
            self._wakes.set()
            self._wakes = trio.Event()

    async def has(self, body: bytes) -> None:
        while body not in self.bodies:
            await self._wakes.wait()


@asynccontextmanager
async def raw(path: Path) -> AsyncIterator[trio.SocketStream]:
    """Yield a stream on which the handshake was sent, and its answer not read."""
    stream = await trio.open_unix_socket(path)
    async with stream:
        await stream.send_all(HELLO)
        yield stream


async def closed(stream: trio.SocketStream) -> int:
    """Wait until the node closes, and return how many bytes it has sent before."""
    count = 0
    try:
        while data := await stream.receive_some(1 << 16):
            count += len(data)
    except trio.BrokenResourceError:
        pass
    return count


async def flood(stream: trio.SocketStream, data: bytes, times: int) -> None:
    """Send again and again, until the node closes."""
    try:
        for _ in range(times):
            await stream.send_all(data)
    except trio.BrokenResourceError:
        return


@asynccontextmanager
async def begun_service(home: Home) -> AsyncIterator[None]:
    """Wait until the service has begun, which it does beside the node."""
    while True:
        try:
            await trio.to_thread.run_sync(ask_service, home, "dmq", "status")
            break
        except Failure:
            await trio.sleep(POLL_S)
    yield


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Connection]:
    """Connect as soon as the node has noticed that earlier clients have gone."""
    async with AsyncExitStack() as stack:
        while True:
            try:
                node = await stack.enter_async_context(connect(path, MAGIC))
                break
            except (Broken, NoPlace):
                await trio.sleep(POLL_S)
        yield node


@asynccontextmanager
async def waits(path: Path) -> AsyncIterator[None]:
    """Wait for messages, as soon as there is a place: the second request blocks."""
    async with AsyncExitStack() as stack:
        while True:
            session = Session(Agency.INITIATOR, DEPLOYED)
            session.say(h.NUMBER, h.propose(MAGIC))
            stream = await stack.enter_async_context(raw(path))
            session.hear(await stream.receive_some(1 << 16), 0)
            if session.is_open:
                break
            await trio.sleep(POLL_S)
        await stream.send_all(said(n.NUMBER, request(DEPLOYED, blocking=True)) * 2)
        yield


async def runs_ahead(path: Path) -> None:
    """Send more than the node accepts ahead of its turn: it closes."""
    blocking = request(DEPLOYED, blocking=True)
    many = said(n.NUMBER, blocking * 20_000)
    async with raw(path) as stream, trio.open_nursery() as nursery:
        nursery.start_soon(flood, stream, many, 2 + WAITING_BYTES_MAX // len(many))
        await closed(stream)


async def asks_ahead(path: Path, times: int) -> None:
    """Send requests ahead of their replies, as a dmq-node takes them: all are answered."""
    asked = n.MsgRequestMessagesNonBlocking()
    session = Session(Agency.INITIATOR, DEPLOYED)
    session.say(h.NUMBER, h.propose(MAGIC))
    async with raw(path) as stream:
        while not session.is_open:  # before that the node knows of no other protocol
            session.hear(await stream.receive_some(1 << 16), 0)
        await stream.send_all(said(n.NUMBER, request(DEPLOYED)) * times)
        session.say(n.NUMBER, asked)
        for count in range(times):
            heard = session.say(n.NUMBER, asked) if count else []
            while not heard:
                data = await stream.receive_some(1 << 16)
                assert data, f"the node closes after {count} replies"
                heard = session.hear(data, 0)


async def breaks_off(path: Path) -> None:
    """End in the middle of a head, of an SDU and of a message: only the handshake is answered."""
    whole = said(s.NUMBER, submit(signer(POOLS[2]).message(DEPLOYED)))
    answer = len(said(h.NUMBER, h.encode_message(h.MsgAcceptVersion(4097, h.ClientData(MAGIC).encoded()))))
    for part in (whole[:3], whole[:100], said(s.NUMBER, submit(signer(POOLS[2]).message(DEPLOYED))[:-1])):
        async with raw(path) as stream:
            await stream.send_all(part)
            await stream.send_eof()
            assert await closed(stream) == answer


@asynccontextmanager
async def never_reads(path: Path) -> AsyncIterator[None]:
    """Send requests and never read, while the block runs."""
    async with raw(path) as stream, trio.open_nursery() as nursery:
        nursery.start_soon(flood, stream, said(n.NUMBER, request(DEPLOYED)), 1 << 20)
        yield
        nursery.cancel_scope.cancel()


async def one_too_many(path: Path, others: int, home: Home) -> dict[str, str]:
    """One client more than the limit is told so; those that have gone do not count, and a named consumer has its own
    place. Return what the doctor finds meanwhile."""
    async with AsyncExitStack() as stack:
        for _ in range(CLIENTS_MAX - others):
            await stack.enter_async_context(waits(path))
        with pytest.raises(NoPlace, match=rf"no place: clients_max \({CLIENTS_MAX}\) are connected; try again when"):
            await stack.enter_async_context(connect(path, MAGIC))
        async with connect(path.with_name("named"), MAGIC) as consumer:
            assert len((await consumer.request(blocking=False)).messages) == 1
        return {one["check"]: one["found"] for one in await trio.to_thread.run_sync(doctor, home, path, "preprod")}


def doctor(home: Home, path: Path, network: str) -> list[dict[str, Any]]:
    """Return the doctor's findings about the running service."""
    arguments = ["dmq", "doctor", "--home", str(home.path), "--socket", str(path), "--network", network, "--json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(main, arguments).stdout)
    return found


def verdicts(found: list[dict[str, Any]]) -> dict[str, bool | None]:
    return {one["check"]: one["ok"] for one in found}


async def test_bad_input_on_the_socket_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "stake.json").write_bytes(stake_file(*(pool.id for pool in POOLS)))
    settings: dict[str, object] = {
        "network": "preprod",
        "stake_file": f"{tmp_path}/stake.json",
        "local_socket": f"unix:{tmp_path}/dmq",
    }
    settings["consumers"] = [f"one=unix:{tmp_path}/named"]
    path, bystander = tmp_path / "dmq", Bystander()
    everything = {"node.services": ["services.dmq"], "services.dmq": {**settings, "clients_max": CLIENTS_MAX}}
    with trio.fail_after(HANG_S):
        async with (
            serving(tmp_path / "home", everything) as home,
            begun_service(home),
            connect(path, MAGIC) as node,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(bystander.consume, node)
            trial = Trial(DEPLOYED, MAGIC, signer(Pool(9)), signer(POOLS[0]))
            probe = Probe(path, trial, ProbeLimits(HANG_S, 0.0))
            assert [one async for one in probe.outcomes() if not one.ok] == []
            async with never_reads(path):
                await runs_ahead(path)
                await asks_ahead(path, 1000)
                await breaks_off(path)
            full = await one_too_many(path, 1, home)
            async with connected(path) as other:
                body = b"at the end".ljust(100)
                assert await other.submit(signer(POOLS[1]).message(DEPLOYED, body)) == s.MsgAcceptMessage()
            await bystander.has(body)
            well = verdicts(await trio.to_thread.run_sync(doctor, home, path, "preprod"))
            elsewhere = verdicts(await trio.to_thread.run_sync(doctor, home, path, "preview"))
            status = await trio.to_thread.run_sync(ask_service, home, "dmq", "status")
            nursery.cancel_scope.cancel()
    assert len(bystander.bodies) == len(set(bystander.bodies)) == 2 == status["accepted"]
    assert status["clients"]["broken_off"] > 30
    assert status["clients"]["causes"][f"no place: clients_max ({CLIENTS_MAX}) are connected"] >= 1
    assert full["socket"] == f"the node runs, and all {CLIENTS_MAX} places are taken (clients_max)"
    assert full["certificates"] == "not checked: the node could not be asked for its messages"
    checks = {"clock": True, "socket": True, "magic": True, "stake": True, "consumers": True}
    assert {one: well[one] for one in checks} == checks
    assert (elsewhere["magic"], elsewhere["socket"]) == (False, True)
