"""Since when the subscribers and apps that keep a queue here have been away, and who has been for too long."""

from __future__ import annotations

from collections.abc import Mapping

from .effects import Now, Pending


class Away:
    """What changes goes with the transaction; `since` is what an earlier run left, by key."""

    def __init__(self, pending: Pending, since: Mapping[bytes, int], away_s_max: int) -> None:
        self._pending = pending
        self._since = dict(since)
        self._s_max = away_s_max

    def __repr__(self) -> str:
        return f"<{len(self._since)} are away>"

    def __contains__(self, key: bytes) -> bool:
        return key in self._since

    def went(self, key: bytes, now: Now) -> None:
        self._since[key] = now.judged_s
        self._pending.changes.away.append((key, now.judged_s))

    def came(self, key: bytes) -> None:
        """Or it is no longer waited for."""
        if self._since.pop(key, None) is not None:
            self._pending.changes.away.append((key, 0))

    def count_anew(self, now: Now) -> None:
        """The clock is another: what was counted by the one before means nothing."""
        for key in self._since:
            self.went(key, now)

    def too_long(self, now: Now) -> list[bytes]:
        """Who lapses now; they are no longer waited for."""
        lapsed = [key for key, since_s in self._since.items() if now.judged_s - since_s > self._s_max]
        for key in lapsed:
            self.came(key)
        return lapsed
