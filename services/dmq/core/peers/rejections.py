"""How many messages of other nodes were not taken, by reason: in all, and of each address.

What an address has brought counts for it over all its connections: a node whose message ends its connection dials
again, and would begin with nothing against it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

ADDRESSES_MAX = 1000
"""Most addresses with counts of their own: those of the latest rejections; the others are in the total alone."""


class PeerRejections:
    """The counts since the start. `total`: of all addresses."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._of: OrderedDict[str, Counter[str]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<PeerRejections: {self.total.total()}, of {len(self._of)} addresses>"

    def note(self, address: str, reason: str) -> None:
        """Count a message that this address has brought."""
        self.total[reason] += 1
        self._of.setdefault(address, Counter())[reason] += 1
        self._of.move_to_end(address)
        if len(self._of) > ADDRESSES_MAX:
            self._of.popitem(last=False)

    def of(self, address: str) -> dict[str, int]:
        """Return the counts of one address, by reason."""
        return dict(sorted(self._of.get(address, Counter[str]()).items()))

    def beside(self, addresses: Iterable[str]) -> dict[str, int]:
        """Return the counts of all other addresses, by reason."""
        listed = sum((self._of[one] for one in set(addresses) if one in self._of), Counter[str]())
        return dict(sorted((self.total - listed).items()))
