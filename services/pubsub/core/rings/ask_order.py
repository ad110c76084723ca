"""The order in which a node asks about its rings: those about which it has not asked for longest come first (R-C32)."""

from __future__ import annotations

from collections.abc import Iterator

from router.core.wire.crypto import PublicKey


class AskOrder:
    """Groups by the number of the period in which they were asked about last.

    A period asks about several groups, so there are fewer such numbers than groups: a look at the first of them sorts
    the numbers alone."""

    __slots__ = ("_by_period", "_periods")

    def __init__(self) -> None:
        self._periods: dict[PublicKey, int] = {}
        self._by_period: dict[int, dict[PublicKey, None]] = {}

    def __repr__(self) -> str:
        return f"<{len(self._periods)} groups, asked about in {len(self._by_period)} periods>"

    def __len__(self) -> int:
        return len(self._periods)

    def __iter__(self) -> Iterator[PublicKey]:
        """Yield the groups, that of the earliest period first; it must not be changed meanwhile."""
        for period in sorted(self._by_period):
            yield from self._by_period[period]

    def put(self, group: PublicKey, period: int) -> None:
        """Add a group, or record that it was asked about in that period."""
        if self._periods.get(group) != period:
            self.remove(group)
            self._periods[group] = period
            self._by_period.setdefault(period, {})[group] = None

    def remove(self, group: PublicKey) -> None:
        """Remove a group, if it is there."""
        period = self._periods.pop(group, None)
        if period is not None:
            del self._by_period[period][group]
            if not self._by_period[period]:
                del self._by_period[period]
