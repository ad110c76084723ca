"""The scenarios of the bench. Each runs on a fresh node and gives one row of figures."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from router.bench import traffic
from router.bench.rig import Rig, in_trio
from router.bench.traffic import Traffic
from router.bench.yardstick import Yardstick
from router.core.wire.crypto import SigningKey
from router.rig.machines import NamespaceMachine
from router.settings.config_services import NOBODY, OF_A_CORE

ROOMY = {"queues.recipient_bytes_max": str(1 << 40), "queues.recipient_messages_max": str(10**9),
         "queues.node_bytes_max": str(1 << 40), "queues.node_messages_max": str(10**9)}  # fmt: skip
WARM_LINKS = 100
READERS_MAX = 4  # processes that share the subscribers


@dataclass
class Bench:
    """The inputs of all scenarios: the working directory, the yardstick, the messages, and the node's flags.

    `services`: whether the node runs the services that `router init` names. `members`: further keys that may join
    groups and have messages kept."""

    base: Path
    yardstick: Yardstick
    traffic: Traffic
    synced: bool = True
    verifiers: int | None = None
    body_bytes: int = 1024
    program: str = "router"
    services: bool = False
    members: Sequence[SigningKey] = ()

    async def rig(self, transport: str, keys: Sequence[SigningKey], **settings: str) -> Rig:
        """Return a started core that lets in `members`, and the keys of apps if they act as those of other machines."""
        residents = OF_A_CORE if self.services else NOBODY
        guests = [*(keys if transport != "unix" else ()), *self.members]
        rig = Rig(self._home(), transport, self._settings(settings), guests, self.program, residents=residents)
        await rig.start()
        return rig

    async def rig_at(self, machine: NamespaceMachine) -> Rig:
        """Return a started edge on that machine, which is on its local network."""
        rig = Rig(self._home(), "unix", self._settings({}), module=self.program, machine=machine)
        await rig.start()
        return rig

    def _home(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="home", dir=self.base))

    def _settings(self, settings: dict[str, str]) -> dict[str, str]:
        found = dict(settings)
        if not self.synced:
            found["store.durability"] = "unsynced"
        if self.verifiers is not None:
            found["verify.verifiers"] = str(self.verifiers)
        return found


def keys(count: int) -> list[SigningKey]:
    return [SigningKey(os.urandom(32)) for _ in range(count)]


@dataclass
class Shape:
    """The numbers of publishers and subscribers, how often each message arrives, and how many subscribers never
    read."""

    publishers: int = 1
    subscribers: int = 1
    stalled: int = 0
    repeat: int = 1
    count: int = 30_000
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def each(self) -> int:
        """Return how many messages each publisher sends."""
        return self.count // self.publishers


@in_trio
async def throughput(bench: Bench, transport: str, shape: Shape) -> dict[str, Any]:
    """Measure messages a second at full speed, from the first byte sent until the last subscriber has the last one."""
    publishers, subscribers, stalled = keys(shape.publishers), keys(shape.subscribers), keys(shape.stalled)
    rig = await bench.rig(transport, publishers + subscribers + stalled, **shape.extra)
    each, count = shape.each, shape.each * shape.publishers
    async with rig.running() as running:
        readers = [running("subscribe", part, bench.traffic, count=count) for part in _shared(subscribers)]
        _frozen = [running("subscribe", [key], bench.traffic, stall=True) for key in stalled]
        writers = [
            running("publish", [key], bench.traffic, first=at * each, count=each, repeat=shape.repeat)
            for at, key in enumerate(publishers)
        ]
        for client in running.clients:
            await client.start()
        commits, cpu_s = await rig.commits(), rig.cpu_s()
        for client in running.clients:
            await client.go()
        wrote = [await client.result() for client in writers]
        read = [await client.result() for client in readers]
        run = _Run(wrote, read, rig.cpu_s() - cpu_s, rig.memory_mib(), await rig.commits() - commits)
    return {"transport": transport} | _figures(bench, shape, run)


class _Run(NamedTuple):
    """The results of the clients that published and read at full speed, and what the node used for it."""

    wrote: list[dict[str, Any]]
    read: list[dict[str, Any]]
    cpu_s: float
    memory_mib: float
    commits: int


def _figures(bench: Bench, shape: Shape, run: _Run) -> dict[str, Any]:
    count = shape.each * shape.publishers
    began = min(one["began"] for one in run.wrote)
    ended = max([one["ended"] for one in run.read] + ([one["ended"] for one in run.wrote] if shape.repeat > 1 else []))
    frames = count * shape.repeat
    rate = frames / (ended - began)
    return {
        "services": bench.services,
        "sync": bench.synced,
        "publishers": shape.publishers,
        "subscribers": shape.subscribers,
        "stalled": shape.stalled,
        "repeat": shape.repeat,
        "lost": sum(one["lost"] for one in run.read),
        "doubled": sum(one["doubled"] for one in run.read),
        "refused": sum(len(one["refused"]) for one in run.wrote),
        "messages_per_s": rate,
        "deliveries_per_s": count * shape.subscribers / (ended - began),
        **_ratios(bench, rate),
        "messages_per_commit": frames / max(1, run.commits),
        "cpu_us_per_message": run.cpu_s / frames * 1e6,
        "verify_cpu_share": count * bench.yardstick.cpu_us / 1e6 / run.cpu_s,
        "client_cpu_us_per_message": sum(one["cpu_s"] for one in run.wrote + run.read) / frames * 1e6,
        "rss_mib": run.memory_mib,
    }


def _shared(subscribers: list[SigningKey]) -> list[list[SigningKey]]:
    """Divide subscribers among a few processes, so that the node is measured and not their number."""
    return [part for at in range(READERS_MAX) if (part := subscribers[at::READERS_MAX])]


def _ratios(bench: Bench, rate: float) -> dict[str, float]:
    yard = bench.yardstick
    return {"ratio_one_core": rate / yard.one_core_per_s, "ratio_two_core": rate / yard.two_core_per_s}


@in_trio
async def latency(bench: Bench, transport: str, seconds: float, per_s: float = 200.0) -> dict[str, float]:
    """Send one message at a time at an even rate; return milliseconds from just before it is written until it is
    read."""
    publisher, subscriber = keys(2)
    rig = await bench.rig(transport, [publisher, subscriber])
    count = int(seconds * per_s)
    async with rig.running() as running:
        reader = running("subscribe", [subscriber], bench.traffic, count=count, rate_per_s=per_s)
        writer = running("publish", [publisher], bench.traffic, count=count, rate_per_s=per_s, chunk=1)
        for client in running.clients:
            await client.start()
        for client in running.clients:
            await client.go()
        wrote, read = await writer.result(), await reader.result()
    took = sorted((arrived - left) * 1000 for left, arrived in zip(wrote["times"], read["times"], strict=True))
    return {"p50_ms": rank(took, 0.5), "p99_ms": rank(took, 0.99), "p999_ms": rank(took, 0.999)}


def rank(ordered: list[float], share: float) -> float:
    """Return the value at the nearest rank."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@in_trio
async def drain(bench: Bench, transport: str, count: int) -> dict[str, Any]:
    """Queue messages for an absent subscriber, restart the node, and let the subscriber come back.

    The rate counts from before it connects until it has read all, settled, and the node has deleted all. Memory is
    measured when a fifth is queued and when all is.
    """
    publisher, subscriber = keys(2)
    rig = await bench.rig(transport, [publisher, subscriber], **ROOMY, **{"queues.share_percent": "100"})
    async with rig.running() as running:
        await running("subscribe", [subscriber], bench.traffic, count=0, durable=True).whole()
        await running("publish", [publisher], bench.traffic, count=count // 5).whole()
        memory_fifth = rig.memory_mib()
        await running("publish", [publisher], bench.traffic, first=count // 5, count=count - count // 5).whole()
        memory = rig.memory_mib()
        await rig.stop()
        began = time.perf_counter()
        await rig.start()
        start_s = time.perf_counter() - began
        result = await running("subscribe", [subscriber], bench.traffic, count=count, durable=True, back=True).whole()
    rate = count / (result["ended"] - result["began"])
    return {
        "transport": transport,
        "queued": count,
        "lost": result["lost"],
        "doubled": result["doubled"],
        "out_of_order": result["out_of_order"],
        "messages_per_s": rate,
        **_ratios(bench, rate),
        "rss_mib_fifth_queued": memory_fifth,
        "rss_mib_all_queued": memory,
        "start_s": start_s,
    }


def backlog(bench: Bench, transport: str, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Compare a backlog in parcels of one message each with the same in full parcels: MiB of the node's memory with all
    of it queued, and seconds to start on it. `grown_kib`: memory for each message beyond the first fifth."""
    found: dict[str, Any] = {"transport": transport, "queued": count}
    for name, groups in (("full", 1), ("alone", 2)):
        say(f"signing {count} messages, then queueing them in parcels ({name})")
        signed = traffic.make(bench.base / name, count, bench.body_bytes, groups)
        row = drain(replace(bench, traffic=signed), transport, count)
        signed.path.unlink()
        grown = (row["rss_mib_all_queued"] - row["rss_mib_fifth_queued"]) * 1024 / (count - count // 5)
        found |= {f"rss_mib_{name}": row["rss_mib_all_queued"], f"grown_kib_{name}": grown}
        found |= {f"{figure}_{name}": row[figure] for figure in ("start_s", "messages_per_s", "lost", "doubled")}
    return found


@in_trio
async def idle(bench: Bench, transport: str, links: int) -> dict[str, Any]:
    """Open silent links; return KiB of the node's memory for each, after a hundred others have warmed it up."""
    most = str(links + WARM_LINKS + 1)
    settings = {"node.accept": "anyone", "limits.strangers_connections_max": most, "limits.strangers_idle_s": "86400"}
    rig = await bench.rig(transport, [], **settings)
    async with rig.running() as running:
        for count in (WARM_LINKS, links):
            before = rig.memory_mib()
            await running("idle", [], bench.traffic, links=count, window_messages=64, window_bytes=1 << 20).start()
        after = rig.memory_mib()
    return {"transport": transport, "links": links, "kib_per_link": (after - before) * 1024 / links}


def commit_ms(base: Path) -> float:
    """Return the median of one small synced commit on this disk, in milliseconds."""
    env = lmdb.open(tempfile.mkdtemp(dir=base), map_size=64 << 20, lock=False)
    times = []
    for number in range(200):
        began = time.perf_counter()
        with env.begin(write=True) as txn:
            txn.put(number.to_bytes(8, "big"), bytes(1200), append=True)
        times.append((time.perf_counter() - began) * 1000)
    env.close()
    return sorted(times)[len(times) // 2]
