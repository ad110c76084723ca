"""A pool that behaves as a live Nexa node does towards its neighbours: it ignores our own commands, asks for nothing by
itself, tells its line to those alone who ask, announces what comes and nothing that it held before."""

from __future__ import annotations

from typing import Any

from router.service import contract as c
from samples.capd_net import REGTEST, Joint, Pool
from services.capd.core.nexa.envelope import LAST, Packet, Unpacker
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DIALLED, DOOR
from services.capd.settings import Settings

OURS = ("capdgetheld", "capdheld", "capdmaskq", "capdrescind")
UNASKED = ("capdgetinfo", "capdq", "capdremove", "capdgetheld", "capdrescind")
UNLIMITED = NexaLimits(units_per_s=1e9, units_burst=1e9, waiting_requests=100_000)
"""A Nexa node has no allowances."""


class LiveNode(Pool):
    """A node with the rules of a `compat` pool, whose packets are those of a Nexa node. `heard_of`: the commands that
    have come; `is_answering`: whether it answers queries."""

    is_answering = True

    def __init__(self, settings: Settings | None = None) -> None:
        self.heard_of: list[str] = []
        self._incoming: dict[str, Unpacker] = {}
        self._outgoing: dict[str, Unpacker] = {}
        self._is_ticking = False
        super().__init__(settings or Settings(network="regtest", profile="compat"), UNLIMITED)

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        if isinstance(heard, c.Came) and heard.data:
            packets = list(self._incoming.setdefault(heard.peer, Unpacker(REGTEST)).feed(heard.data))
            self.heard_of += [one.command for one in packets]
            data = b"".join(one.encoded(REGTEST) for one in packets if one.command not in OURS)
            return super().hear(c.Came(heard.door, heard.peer, data)) if data else []
        was_ticking, self._is_ticking = self._is_ticking, isinstance(heard, c.Tick)
        try:
            return super().hear(heard)
        finally:
            self._is_ticking = was_ticking

    def _carry_out(self, deed: c.Deed) -> None:
        if isinstance(deed, c.Write) and deed.data:
            packets = self._outgoing.setdefault(deed.peer, Unpacker(REGTEST)).feed(deed.data)
            data = b"".join(one.encoded(REGTEST) for one in packets if self._is_said(one))
            if data:
                super()._carry_out(c.Write(deed.door, deed.peer, data))
        else:
            super()._carry_out(deed)

    def _is_said(self, packet: Packet) -> bool:
        if packet.command in UNASKED or (self._is_ticking and packet.command == "capdinv"):
            return False
        if packet.command == "capdqreply" and not self.is_answering:
            return False
        return packet.command != "capdinfo" or packet.cookie & LAST == LAST


class Link:
    """A connection of a pool to a live node, which the pool has dialled."""

    def __init__(self, pool: Pool, node: Pool, target: str) -> None:
        self._pool, self._node = pool, node
        self._ours, self._theirs = Joint(node, DOOR), Joint(pool, DIALLED)
        self._ours.other, self._theirs.other = self._theirs, self._ours
        node.open(self._ours, "127.0.0.1:4000")
        pool.open(self._theirs, target, DIALLED, target)

    def cut(self) -> None:
        """End the connection at both ends."""
        self._node.ends.pop((DOOR, self._ours.peer), None)
        self._pool.ends.pop((DIALLED, self._theirs.peer), None)
        self._node.hear(c.Came(DOOR, self._ours.peer, b""))
        self._pool.hear(c.Came(DIALLED, self._theirs.peer, b""))


def pass_time(seconds: int, *pools: Any) -> None:
    """Let time pass at all pools, second by second."""
    for _ in range(seconds):
        for pool in pools:
            pool.pass_time(1)
