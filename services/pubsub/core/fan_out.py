"""Groups in which apps or clients of this node publish, and that nobody here reads.

Such a group counts as wanted while something is published in it, for a while after that, and until each message has
been taken by a neighbour or has expired: so it is met about with other nodes, which may have readers. Other parts hear
of it as of any wanted group. A group whose last reader leaves while messages of this node wait in it is such a group
from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from router.core.wire.crypto import PublicKey
from router.service import contract as c

GROUPS_MAX = 1_024
"""Most groups that are wanted only because something is published in them; messages of further ones are refused."""
GROUPS_OF_CLIENT_MAX = 256
"""Most of these that are wanted because of one client, so that others have places left."""
WAITING_MAX, WAITING_OF_GROUP_MAX = 5_000, 1_000
"""Most messages that wait in such groups for a node that takes them: in all, and in one; further ones are refused. The
other half of `UntakenLimits.own_max` is left to groups that are read here."""
AGAIN_S = 5.0
"""Seconds after which is looked again whether all messages of a group have been taken."""


class FanOut:
    """Records until when such groups are wanted. `fanout_s`: how long each stays so after the last message;
    `untaken(group)`: how many messages of this node wait there for a neighbour; `untaken_max()`: no more wait in all.
    """

    def __init__(
        self, fanout_s: float, untaken: Callable[[PublicKey], int], untaken_max: Callable[[], int] = lambda: 0
    ) -> None:
        self._fanout_s = fanout_s
        self._untaken = untaken
        self._untaken_max = untaken_max
        self._until_s: dict[PublicKey, float] = {}
        self._client: dict[PublicKey, PublicKey] = {}  # which made the group wanted; none if an app did
        self._groups_of = Counter[PublicKey]()
        self._read_here: set[PublicKey] = set()
        self._over: list[PublicKey] = []
        self._look_s = self._wake_s = inf

    def __repr__(self) -> str:
        return f"<{len(self._until_s)} groups are wanted since something is published in them>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """End the groups whose time is over."""
        if isinstance(heard, c.Tick):
            self._wake_s = inf
            if self._look_s <= now.mono_s:
                self._end(now.mono_s)
        if self._look_s >= self._wake_s:
            return []
        self._wake_s = self._look_s
        return [c.Wake(now.wall_s + max(0.01, self._look_s - now.mono_s))]

    def published(self, group: PublicKey, now_s: float, client: PublicKey | None = None) -> bool:
        """Record that something is published in a group, by a client or by an app here, unless there are too many;
        return whether it becomes wanted by that."""
        is_new = group not in self._until_s
        if group in self._read_here or (is_new and not self._has_room(client)):
            return False
        if is_new and client is not None:
            self._client[group] = client
            self._groups_of[client] += 1
        self._set(group, now_s + self._fanout_s)
        return is_new

    def room(self, group: PublicKey) -> int:
        """Return how many more messages of a group may wait for a node that takes them; for a group that is read here,
        other limits count."""
        if group not in self._until_s or group in self._read_here:
            return WAITING_MAX
        in_all = self._untaken_max()
        if in_all > WAITING_MAX - WAITING_OF_GROUP_MAX:  # it is added up only where it may matter
            in_all = sum(self._untaken(one) for one in self._until_s if one not in self._read_here)
        return max(0, min(WAITING_OF_GROUP_MAX - self._untaken(group), WAITING_MAX - in_all))

    def restore(self, groups: Iterable[PublicKey], now_s: float) -> list[PublicKey]:
        """Return the groups in which messages wait for a neighbour since before a restart: they are wanted again."""
        return [group for group in groups if self.published(group, now_s)]

    def is_read(self, group: PublicKey) -> None:
        """Record that a group is read here."""
        self._read_here.add(group)

    def stays(self, group: PublicKey, now_s: float) -> bool:
        """Record that a group is not read here any more; return whether it stays wanted all the same."""
        self._read_here.discard(group)
        if group not in self._until_s and self._untaken(group) and self._has_room(None):
            self._set(group, now_s + AGAIN_S)
        return group in self._until_s

    def forget(self, group: PublicKey) -> None:
        """Forget a group: it could not become wanted, or is not wanted any more."""
        self._until_s.pop(group, None)
        if (client := self._client.pop(group, None)) is not None:
            self._groups_of[client] -= 1
            if not self._groups_of[client]:
                del self._groups_of[client]

    def take_over(self) -> list[PublicKey]:
        """Return the groups that nobody wants any more, and forget them."""
        found, self._over = self._over, []
        return found

    def _has_room(self, client: PublicKey | None) -> bool:
        is_full = client is not None and self._groups_of[client] >= GROUPS_OF_CLIENT_MAX
        return len(self._until_s) < GROUPS_MAX and not is_full

    def _set(self, group: PublicKey, until_s: float) -> None:
        self._until_s[group] = until_s
        self._look_s = min(self._look_s, until_s)

    def _end(self, now_s: float) -> None:
        self._look_s = inf
        for group, until_s in list(self._until_s.items()):
            if until_s > now_s:
                self._look_s = min(self._look_s, until_s)
            elif group not in self._read_here and self._untaken(group):
                self._set(group, now_s + AGAIN_S)
            else:
                self.forget(group)
                if group not in self._read_here:
                    self._over.append(group)
