"""An honest pair: a publisher and a subscriber whose rate, latency and losses are watched beside some other
activity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from router.bench.rig import Clients
from router.bench.scenarios import Bench, rank
from router.core.wire.crypto import SigningKey

SLOW_PER_S = 200.0
CHUNK = 48
RATE_GOAL, LATENCY_GOAL = 0.9, 2.0

Row = dict[str, Any]


@dataclass
class Pair:
    """A publisher, a local app of `running`'s node, and a subscriber at the same node or at `reading`'s; no message is
    used in two runs. `durable`: the subscriber's node keeps its subscription from run to run."""

    bench: Bench
    running: Clients
    publisher: SigningKey
    subscriber: SigningKey
    reading: Clients | None = None
    durable: bool = False
    taken: int = 0

    async def run(self, number: int, rate_per_s: float = 0.0, chunk: int = CHUNK) -> Row:
        """Return messages a second, the latencies if there is a rate, and how many were refused or lost."""
        first, self.taken = self.taken, self.taken + number
        order = {"first": first, "count": number, "rate_per_s": rate_per_s, "chunk": chunk}
        reading = self.reading or self.running
        reader = reading("subscribe", [self.subscriber], self.bench.traffic, durable=self.durable, **order)
        writer = self.running("publish", [self.publisher], self.bench.traffic, **order)
        for client in (reader, writer):
            await client.start()
        for client in (reader, writer):
            await client.go()
        wrote, read = await writer.result(), await reader.result()
        pairs = zip(wrote["times"], read["times"], strict=True)
        took = sorted((got - sent) * 1000 for sent, got in pairs)
        return {
            "per_s": number / (read["ended"] - wrote["began"]),
            "p50_ms": rank(took, 0.5) if took else 0.0,
            "p99_ms": rank(took, 0.99) if took else 0.0,
            "refused": len(wrote["refused"]),
            "lost": read["lost"],
        }

    async def phase(self, phase_s: float, quick: int) -> dict[str, Row]:
        """Return a run at 200 messages a second (`slow`) and one of `quick` messages at full speed (`flat`)."""
        slow = await self.run(int(SLOW_PER_S * phase_s), SLOW_PER_S, 1)
        return {"slow": slow, "flat": await self.run(quick)}

    async def half(self, phase_s: float, quick: int, per_s: float) -> Row:
        """Return a run at this rate, half of the quiet node's, of at most `quick` messages."""
        return await self.run(min(int(per_s * phase_s), quick), per_s)
