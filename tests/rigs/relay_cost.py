"""Measure the CPU time that relaying costs a core for each message, with its pub/sub service and three neighbours on
TLS.

    PYTHONPATH=tests python tests/rigs/relay_cost.py [MESSAGES] [inside | apart] [PROFILE]

One neighbour brings messages of 1 KiB, the service sends each on to the two others and follows the copies; then another
neighbour brings the same again. The CPU time is that of the node, its verifiers, and the service's process if it has
one. PROFILE: a file for cProfile's result in the node; the figures are then meaningless.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from router.bench import traffic, yardstick
from router.bench.clients import link_of
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.message import MULTICAST
from router.rig.app_link import SentCounts
from router.rig.node import NodeProcess
from router.rig.process import HANG_S
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

BODY_BYTES, WARM_UP, AT_ONCE, YARDSTICK_S, POLL_S = 1024, 500, 48, 2.0, 0.2
CONFIG = """
[[node.services]]
name = "pubsub"
module = "rigs.relaying"
run = "{run}"

[services.pubsub]
mode = "overlay"
failover_s = 60.0
group = "{group}"
routers = [{routers}]
"""


class Core(NodeProcess):
    """The core that is measured."""

    def __init__(
        self, base: Path, group: PublicKey, neighbours: list[SigningKey], *, relays: bool, run: str, profile: str
    ) -> None:
        home = Home(base / "core")
        home.create("core")
        for key in neighbours:
            edit_peers(home.config_path, AddPeer(Peer(address=key.public, grant=("join", "store"))))
        routers = ", ".join(f'"{key.public.hex()}"' for key in neighbours if relays)
        config = CONFIG.format(run=run, group=group.hex(), routers=routers)
        home.config_path.write_text(home.config_path.read_text().replace("services = [", "# services = [") + config)
        served_by = (sys.executable, "-m", "cProfile", "-o", profile, "-m", "router") if profile else ()
        flags = ("--listen", "tls://127.0.0.1:0")
        super().__init__("the core", home, base / "stderr", {}, *flags, served_by=served_by)

    def cpu_s(self) -> float:
        tasks = Path(f"/proc/{self.pid}/task").glob("*/children")  # each thread has those that it started
        children = [int(pid) for one in tasks for pid in one.read_text().split()]
        return sum(map(_cpu_s, (self.pid, *children)))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Neighbour:
    """A router that brings messages, and takes custody of those that it is sent. `got`: the number of messages of the
    group."""

    def __init__(self, key: SigningKey) -> None:
        self.link = link_of(key, 4096, 8 << 20)
        self.got = 0

    async def take(self) -> None:
        while True:
            reads = await self.link.receive()
            self.got += sum(read.data[start + 1] == MULTICAST for read in reads for _, start, _ in read.spans)
            await self.link.settle(reads)

    async def bring(self, frames: list[bytes]) -> None:
        sent = SentCounts()
        for at in range(0, len(frames), AT_ONCE):
            while self.link.outbox.full:
                await self.link.moved.park()
            await self.link.hand_in([one[3:] for one in frames[at : at + AT_ONCE]], sent)
        while sent.settled < len(frames):
            await self.link.moved.park()
        assert not sent.refusals, sent.refusals[:3]


@asynccontextmanager
async def neighbours(core: Core, keys: list[SigningKey]) -> AsyncIterator[list[Neighbour]]:
    """Yield them connected."""
    found = [Neighbour(key) for key in keys]
    url = next(str(url) for url in core.told["listeners"] if url.startswith("tls"))
    async with trio.open_nursery() as nursery:
        for one in found:
            await one.link.connect(url, PublicKey(bytes.fromhex(core.told["address"])), HANG_S)
            nursery.start_soon(one.take)
        yield found
        nursery.cancel_scope.cancel()
    for one in found:
        await one.link.close()


async def measure(base: Path, signed: traffic.Traffic, *, relays: bool, run: str, profile: str) -> tuple[float, float]:
    """Return CPU seconds for each message at its first arrival, and for each that came again."""
    data = signed.path.read_bytes()
    frames = [data[at : at + signed.frame_bytes] for at in range(0, len(data), signed.frame_bytes)]
    keys = [SigningKey(os.urandom(32)) for _ in range(3)]
    group = SigningKey(signed.group_seed).public
    core = Core(base, group, keys, relays=relays, run=run, profile=profile)
    await core.start()
    try:
        await core.until_answer("the joining of the service", "groups", bool)
        async with neighbours(core, keys) as (first, second, third):

            async def until_done(count: int) -> None:
                while relays and not second.got == third.got == count:
                    await trio.sleep(POLL_S)
                while any(row["messages"] for row in await core.ask("queue")):
                    await trio.sleep(POLL_S)

            await first.bring(frames[:WARM_UP])
            await until_done(WARM_UP)
            before_s = core.cpu_s()
            await first.bring(frames[WARM_UP:])
            await until_done(len(frames))
            between_s = core.cpu_s()
            await second.bring(frames[WARM_UP:])
            after_s = core.cpu_s()
    finally:
        await core.stop()
    count = len(frames) - WARM_UP
    return (between_s - before_s) / count, (after_s - between_s) / count


async def main(messages: int, run: str, profile: str) -> None:
    with tempfile.TemporaryDirectory(prefix="relay-cost-") as path:
        base = Path(path)
        signed = traffic.make(base / "frames", messages + WARM_UP, BODY_BYTES)
        for relays, what in ((False, "accepted and delivered"), (True, "and sent on to two, each copy followed")):
            place = base / str(relays)
            place.mkdir()
            first_s, again_s = await measure(place, signed, relays=relays, run=run, profile=profile if relays else "")
            verify_us = yardstick.run(signed, YARDSTICK_S).cpu_us
            for one_s, name in ((first_s, what), (again_s, "came again")):
                print(
                    f"{name}: {one_s * 1e6:.0f} µs, {one_s * 1e6 / verify_us:.2f} verifications of {verify_us:.1f} µs"
                )


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    trio.run(main, int(given.get(1, 6000)), given.get(2, "inside"), given.get(3, ""))
