"""Who has dialled in at each door: how many, how many of them strangers, and from how many places of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ..protocols.peer_sharing import PeerAddress
from .connection import PeerConnection
from .known import KnownPeer, prefix


class DoorCrowds:
    """Counts those who have dialled in. `connections`: all by the stream's name; `known`: the peer at an address;
    `listens_at`: HOST:PORT by door."""

    def __init__(
        self,
        connections: Mapping[str, PeerConnection],
        known: Callable[[PeerAddress], KnownPeer | None],
        listens_at: Mapping[str, str],
    ) -> None:
        self._connections = connections
        self._known = known
        self._listens_at = listens_at

    def __repr__(self) -> str:
        return f"<DoorCrowds of {len(self._connections)} connections>"

    def as_status(self) -> list[dict[str, Any]]:
        """Return what the doctor is told of each door at which others have dialled in: where it listens, the
        connections there, those of strangers, the prefixes these come from (/24, IPv6: /56), the prefix of most, and
        how many are from there."""
        inbound = [one for one in self._connections.values() if not one.session.we_dialled]
        found = []
        for door in dict.fromkeys(one.door for one in inbound):
            here = [one for one in inbound if one.door == door]
            strangers = Counter(prefix(one.address.ip) for one in here if self._is_stranger(one.address))
            [(most_from, of_most)] = strangers.most_common(1) or [("", 0)]
            about = {"listens_at": self._listens_at.get(door, door), "connections": len(here)}
            whence = {"prefixes": len(strangers), "most_from": most_from, "of_most": of_most}
            found.append({**about, "strangers": strangers.total(), **whence})
        return found

    def _is_stranger(self, address: PeerAddress) -> bool:
        peer = self._known(address)
        return peer is None or peer.is_stranger
