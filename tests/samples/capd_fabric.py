"""CAPD pools that are peers, over routers that carry unicasts at once, or lose them while a pool is away."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import count

from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.text import key_text
from router.service import contract as c
from samples.capd_host import Host
from services.capd.core import between_pools as b
from services.capd.core import messages as m
from services.capd.settings import Settings


def address(number: int) -> PublicKey:
    return SigningKey(bytes([100 + number]) * 32).public


class Fabric:
    """Pools by number; `peers`: the pools that each one names. `away`: the numbers of pools that get and send
    nothing."""

    def __init__(
        self, peers: Mapping[int, tuple[int, ...]], settings: dict[int, dict[str, object]] | None = None
    ) -> None:
        self.away: set[int] = set()
        self.carried: list[tuple[int, int, m.Message]] = []
        self._ids = count(1 << 20)
        self._waiting: deque[tuple[int, c.Send]] = deque()
        self._by_key = {address(number): number for number in peers}
        self.pools = {
            number: self._pool(number, named, (settings or {}).get(number, {})) for number, named in peers.items()
        }
        self.carry()

    def _pool(self, number: int, named: tuple[int, ...], more: dict[str, object]) -> Host:
        kind = type("Pool", (_Pool,), {"key": address(number), "number": number, "fabric": self})
        names = tuple(key_text("addr", address(one)) for one in named)
        found: Host = kind(Settings(peers=names, **more))  # type: ignore[arg-type]
        return found

    def sent(self, number: int, deed: c.Send) -> None:
        self._waiting.append((number, deed))

    def carry(self) -> None:
        """Carry the messages that were sent, and those sent in response, until there are none."""
        while self._waiting:
            sender, deed = self._waiting.popleft()
            to = self._by_key.get(deed.to)
            if to is None or self.away & {sender, to}:
                continue
            self.carried.append((sender, to, m.decode_message(deed.body)))
            id = MessageId(next(self._ids).to_bytes(32))
            self.pools[to].hear(c.Message(id, deed.body, source=address(sender)))

    def pass_time(self, seconds: float) -> None:
        for pool in self.pools.values():
            pool.pass_time(seconds)
        self.carry()

    def between(self) -> list[str]:
        """Return the type names of the messages between pools since the last call."""
        found = [type(one).__name__ for _, _, one in self.carried if isinstance(one, b.BetweenPools)]
        self.carried.clear()
        return found


class _Pool(Host):
    number = 0
    fabric: Fabric

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        deeds = super().hear(heard)
        for deed in deeds:
            if isinstance(deed, c.Send):
                self.fabric.sent(self.number, deed)
        return deeds
