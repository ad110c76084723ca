"""Groups in which apps or clients of this node publish, and that nobody here reads.

Such a group counts as wanted while something is published in it, for a while after that, and until each message has
been taken by a neighbour or has expired: so it is met about with other nodes, which may have readers. Other parts hear
of it as of any wanted group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o

GROUPS_MAX = 1_024
"""Most groups that are wanted only because something is published in them; messages of further ones are refused."""
AGAIN_S = 5.0
"""Seconds after which is looked again whether all messages of a group have been taken."""


class FanOut:
    """Records until when such groups are wanted. `fanout_s`: how long each stays so after the last message;
    `has_untaken(group)`: whether a message of this node waits for a neighbour."""

    def __init__(self, fanout_s: float, has_untaken: Callable[[PublicKey], bool]) -> None:
        self._fanout_s = fanout_s
        self._has_untaken = has_untaken
        self._until_s: dict[PublicKey, float] = {}
        self._read_here: set[PublicKey] = set()
        self._over: list[PublicKey] = []

    def __repr__(self) -> str:
        return f"<{len(self._until_s)} groups are wanted since something is published in them>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """End the groups whose time is over; each event may have moved the next end."""
        if isinstance(heard, c.Tick):
            self._end(now.mono_s)
        due_s = min(self._until_s.values(), default=inf)
        return [c.Wake(now.wall_s + max(0.01, due_s - now.mono_s))] if due_s < inf else []

    def published(self, group: PublicKey, now_s: float) -> bool:
        """Record that something is published in a group, unless there are too many; return whether it becomes wanted by
        that."""
        is_new = group not in self._until_s
        if group in self._read_here or (is_new and len(self._until_s) >= GROUPS_MAX):
            return False
        self._until_s[group] = now_s + self._fanout_s
        return is_new

    def restore(self, groups: Iterable[PublicKey], now_s: float) -> list[PublicKey]:
        """Return the groups in which messages wait for a neighbour since before a restart: they are wanted again."""
        return [group for group in groups if self.published(group, now_s)]

    def stays(self, heard: o.Wanted) -> bool:
        """Record that a group is read here, or is not any more; return whether it stays wanted all the same."""
        if heard.wanted:
            self._read_here.add(heard.group)
            return False
        self._read_here.discard(heard.group)
        return heard.group in self._until_s

    def forget(self, group: PublicKey) -> None:
        """Forget a group that could not become wanted."""
        self._until_s.pop(group, None)

    def take_over(self) -> list[PublicKey]:
        """Return the groups that nobody wants any more, and forget them."""
        found, self._over = self._over, []
        return found

    def _end(self, now_s: float) -> None:
        for group in [one for one, until_s in self._until_s.items() if until_s <= now_s]:
            if group in self._read_here:
                del self._until_s[group]
            elif self._has_untaken(group):
                self._until_s[group] = now_s + AGAIN_S
            else:
                del self._until_s[group]
                self._over.append(group)
