"""The absence of subscribers and apps that keep a queue here: how long it has lasted, and which of them lapse."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.neighbours.directory import Directory
from router.core.wire.now import Now

from .effects import Pending


class Away:
    """The keys that are away, with the Unix second at which each left; changes commit with the transaction.

    `since`: the entries of an earlier run, by key. A LAN neighbour may be away for `lan_keep_s`, others for `s_max`."""

    def __init__(
        self, pending: Pending, since: Mapping[bytes, int], directory: Directory, s_max: int, lan_keep_s: int
    ) -> None:
        self._pending = pending
        self._since = dict(since)
        self._directory = directory
        self._s_max = s_max
        self._lan_keep_s = lan_keep_s

    def __repr__(self) -> str:
        return f"<{len(self._since)} are away>"

    def __contains__(self, key: bytes) -> bool:
        return key in self._since

    def went(self, key: bytes, now: Now) -> None:
        self._since[key] = now.judged_s
        self._pending.changes.away.append((key, now.judged_s))

    def came(self, key: bytes) -> None:
        """Stop counting a key as away: it came back, or lapsed."""
        if self._since.pop(key, None) is not None:
            self._pending.changes.away.append((key, 0))

    def move(self, key: bytes, to: bytes) -> None:
        """Count another key as away for as long as this one."""
        since_s = self._since.get(key)
        if since_s is not None:
            self.came(key)
            self._since[to] = since_s
            self._pending.changes.away.append((to, since_s))

    def count_anew(self, now: Now) -> None:
        """Count every absence from now on, because times before a correction of the clock mean nothing."""
        for key in self._since:
            self.went(key, now)

    def too_long(self, now: Now) -> list[bytes]:
        """Remove and return the keys that have been away for longer than the limit."""
        most, of_lan, lan_groups = self._s_max, self._lan_keep_s, self._directory.lan_groups
        lapsed = [
            key
            for key, since_s in self._since.items()
            if now.judged_s - since_s > (of_lan if lan_groups(key) else most)
        ]
        for key in lapsed:
            self.came(key)
        return lapsed
