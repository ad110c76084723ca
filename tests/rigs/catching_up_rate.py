"""Measure how fast an edge catches up over TLS with the messages that its core still holds, compared with verification.

    PYTHONPATH=tests:tests/e2e python tests/rigs/catching_up_rate.py [MESSAGES] [ROUNDS]

The edge was away and its queue is gone, so its pub/sub service compares, asks for each message by its id, and the app
is told when all have come. The time begins at the app's JOIN; the rate of verification is measured right after it, on
two cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import trio
from rig import NodeProcess, Rig, rig

from router.bench import traffic, yardstick
from router.bench.clients import link_of
from router.client.node import connect
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.text import key_text
from router.rig.app_link import SentCounts
from router.settings.config_services import NewHomeService
from router.settings.home import Home

BODY_BYTES, YARDSTICK_S, AT_ONCE = 1024, 2.0, 256
AT_WORK = {"verify.verifiers": 1, "link.retry_backoff_s_min": 1}


def node(found: Rig, name: str, role: str, mode: str) -> NodeProcess:
    pubsub = NewHomeService({"mode": mode}, is_public=mode == "overlay")
    Home(found.base / name).create(role, (), {"pubsub": pubsub})  # type: ignore[arg-type]
    return found.node(name, role, AT_WORK)  # type: ignore[arg-type]


async def publish(core: NodeProcess, wires: list[bytes]) -> None:
    """Hand messages in at the core."""
    link, sent = link_of(SigningKey(b"p" * 32), 4096, 8 << 20), SentCounts()
    url = next(str(one) for one in core.told["listeners"] if str(one).startswith("unix"))
    await link.connect(url, PublicKey(bytes.fromhex(core.told["address"])), 60.0)
    for at in range(0, len(wires), AT_ONCE):
        await link.hand_in(wires[at : at + AT_ONCE], sent)
        while sent.settled < min(len(wires), at + AT_ONCE):
            await link.settle(await link.receive())
    assert not sent.refusals, sent.refusals[:3]
    await link.close()


async def measure(base: Path, signed: traffic.Traffic) -> tuple[float, int]:
    """Return the seconds until all messages are there, and their number."""
    data = signed.path.read_bytes()
    wires = [data[at + 3 : at + signed.frame_bytes] for at in range(0, len(data), signed.frame_bytes)]
    group = SigningKey(signed.group_seed)
    base.mkdir()
    async with rig(base) as found:
        core, edge = node(found, "core", "core", "overlay"), node(found, "edge", "edge", "leaf")
        core.serves(edge)
        await core.start()
        async with connect(home=core.home, as_name="reader") as reader:  # so that the group is wanted, and kept
            await reader.join(group)
            await edge.start()
            async with connect(home=edge.home, as_name="late") as app:
                await app.join(group)
                await core.until_joined(group.public, edge.address)
            await edge.stop()
            await core.until_connected(edge.address, up=False)
            await publish(core, wires)
            assert (await core.run("queue", "drop", key_text("addr", edge.address))).code == 0
            await edge.start()
            await core.until_connected(edge.address)
            began_s = time.monotonic()
            async with connect(home=edge.home, as_name="late") as app:
                await app.join(group)
                async for one in app.caught_up:
                    if one.of:
                        return time.monotonic() - began_s, one.of - one.missing
    raise AssertionError("nothing was missing")


async def main(messages: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="catching-up-") as path:
        signed = traffic.make(Path(path) / "frames", messages, BODY_BYTES)
        for number in range(rounds):
            took_s, came = await measure(Path(path) / str(number), signed)
            two_per_s = yardstick.run(signed, YARDSTICK_S).two_core_per_s
            rate = came / took_s
            print(
                f"{came} messages in {took_s:.1f} s: {rate:.0f}/s, {rate / two_per_s:.4f} of {two_per_s:.0f}/s",
                flush=True,
            )


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    trio.run(main, int(given.get(1, 5000)), int(given.get(2, 3)))
