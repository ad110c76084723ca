"""Which nodes have announced, given and taken each live message, for `router why`; of the latest messages alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct, field

MESSAGES_MAX = 10_000
"""Most messages of which this is remembered."""


class _Trail(Struct):
    given_by: str = ""
    announced_by: list[str] = field(default_factory=list)
    taken_by: list[str] = field(default_factory=list)


class PeerTrail:
    """The addresses of nodes by the messages' numbers."""

    def __init__(self) -> None:
        self._trails: OrderedDict[int, _Trail] = OrderedDict()

    def __repr__(self) -> str:
        return f"<PeerTrail of {len(self._trails)} messages>"

    def begin(self, number: int, given_by: str, announced_by: Iterable[str]) -> None:
        """Record which node has brought a message, and which have announced it before."""
        self._trails[number] = _Trail(given_by, list(announced_by))
        if len(self._trails) > MESSAGES_MAX:
            self._trails.popitem(last=False)

    def was_announced(self, number: int, address: str) -> None:
        """Record that a node has announced a message that is live."""
        known = self._of(number).announced_by
        if address not in known:
            known.append(address)

    def was_taken(self, number: int, address: str) -> None:
        """Record that a node was given a message."""
        known = self._of(number).taken_by
        if address not in known:
            known.append(address)

    def giver(self, number: int) -> str:
        """Return the node that has brought a message; "" if none has."""
        found = self._trails.get(number)
        return found.given_by if found else ""

    def about(self, number: int) -> dict[str, str]:
        """Return what is known of a message, in words; nothing if no other node had to do with it."""
        found = self._trails.get(number) or _Trail()
        said = {
            "announced_by": " and ".join(found.announced_by),
            "given_by": found.given_by,
            "taken_by": " and ".join(found.taken_by),
        }
        return {key: value for key, value in said.items() if value}

    def forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._trails.pop(number, None)

    def _of(self, number: int) -> _Trail:
        if number not in self._trails:
            self.begin(number, "", ())
        return self._trails[number]
