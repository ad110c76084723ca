"""The nodes that the topology names and that are away: since when, and why the last attempt to reach them failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ..protocols.peer_sharing import PeerAddress
from .known import KnownPeer

CAUSE_CHARS_MAX = 190
NAME_CHARS_MAX = 64
"""Most characters of a cause, and of a name without an address, that are shown: so an answer with `PEERS_SHOWN` rows
is not too long."""


class AwayPeer(Struct):
    """A peer that was not reached, or has gone: since when, in Unix seconds, and the last cause."""

    since_s: float
    cause: str


class PeersAway:
    """The named peers that are away. They are as many as the topology names at most."""

    def __init__(self) -> None:
        self._of: dict[PeerAddress, AwayPeer] = {}

    def __repr__(self) -> str:
        return f"<PeersAway: {len(self._of)}>"

    def note(self, address: PeerAddress, cause: str, wall_s: float) -> None:
        """Record that a peer could not be reached, or has gone."""
        known = self._of.setdefault(address, AwayPeer(wall_s, ""))
        known.cause = cause[:CAUSE_CHARS_MAX]

    def agreed(self, address: PeerAddress) -> None:
        """Record a connection on which both have agreed."""
        self._of.pop(address, None)

    def keep(self, named: Collection[PeerAddress]) -> None:
        """Forget the peers that are named no more."""
        self._of = {address: one for address, one in self._of.items() if address in named}

    def lacking(self, known: Callable[[PeerAddress], KnownPeer | None]) -> Iterator[dict[str, Any]]:
        """Yield what the doctor is told of those whose group of local roots has fewer connected ones than it wants to
        fetch from; `known`: the peer at an address."""
        for address, one in self._of.items():
            peer = known(address)
            group = None if peer is None else peer.group
            if group is None or not group.is_local:
                continue
            members = map(known, group.addresses)
            if group.hot > sum(member is not None and member.is_connected for member in members):
                yield {"address": str(address), "since": int(one.since_s), "cause": one.cause}

    def __iter__(self) -> Iterator[tuple[PeerAddress, AwayPeer]]:
        return iter(self._of.items())


def as_row(address: str, away: AwayPeer, rejected: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """Return what `dmq peers` shows of a peer that is away, as of one that is connected; `address`: IP:PORT, or a name
    for which no address is known; `rejected`: the messages of its that were not taken, by reason."""
    zeros = dict.fromkeys(("announced", "first", "accepted"), 0)
    facts = {"address": address, "state": "cold", "direction": "outbound", "version": 0, "is_duplex": False}
    rest: dict[str, Any] = {
        "rtt_ms": None,
        "rejected": dict(rejected),
        "bytes_in": 0,
        "bytes_out": 0,
        "since": int(away.since_s),
        "problem": away.cause,
    }
    return facts | zeros | rest
