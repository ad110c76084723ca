"""Groups in which apps or clients of this node publish, and that nobody here reads.

Such a group counts as wanted while something is published in it, for a while after that, and until each message has
been taken by a neighbour or has expired: so it is met about with other nodes, which may have readers. Other parts hear
of it as of any wanted group. A group whose last reader leaves while messages of this node wait in it is such a group
from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from router.service.verbs.fan_out import FULL_MAX

GROUPS_MAX = 1_024
"""Most groups that are wanted only because something is published in them; the router refuses messages of further
ones."""
GROUPS_OF_ONE_MAX, GROUPS_OF_CLIENTS_MAX = 256, 512
"""Most of these that are wanted because of one app or client, all apps with throwaway keys counting as one, and because
of all clients together, so that others have places left."""
WAITING_MAX, WAITING_OF_GROUP_MAX = 5_000, 1_000
"""From how many on that wait in such groups for a node that takes them, in all and in one, the router refuses further
messages until a tenth has gone."""
TAKEN_MAX, GROUPS_TAKEN_MAX = 7_500, 2 * GROUPS_MAX
"""Most messages that wait in such groups, and most groups, with what the router took before it had heard that these are
too many; further ones are refused. The rest of `UntakenLimits.own_max` is left to groups that are read here."""
AGAIN_S = 5.0
"""Seconds after which is looked again whether all messages of a group have been taken."""


class FanOut:
    """Records until when such groups are wanted, and tells the router what there is room for. `fanout_s`: how long each
    stays so after the last message; `untaken(group)`: how many messages of this node wait there for a neighbour;
    `untaken_max()`: no more wait in all."""

    def __init__(
        self, fanout_s: float, untaken: Callable[[PublicKey], int], untaken_max: Callable[[], int] = lambda: 0
    ) -> None:
        self._fanout_s = fanout_s
        self._untaken = untaken
        self._untaken_max = untaken_max
        self._until_s: dict[PublicKey, float] = {}
        self._read_here: set[PublicKey] = set()
        self._over: list[PublicKey] = []
        self._told = o.FanOut(0, 0, 0)
        self._grown: set[PublicKey] = set()  # in which something was published since the router was told
        self._look_s = self._wake_s = inf

    def __repr__(self) -> str:
        return f"<{len(self._until_s)} groups are wanted since something is published in them>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """End the groups whose time is over."""
        if isinstance(heard, c.Started):
            self._told = o.FanOut(0, 0, 0)
        if isinstance(heard, c.Tick):
            self._wake_s = inf
            if self._look_s <= now.mono_s:
                self._end(now.mono_s)
        if self._look_s >= self._wake_s:
            return []
        self._wake_s = self._look_s
        return [c.Wake(now.wall_s + max(0.01, self._look_s - now.mono_s))]

    def published(self, group: PublicKey, now_s: float) -> bool:
        """Record that something is published in a group, by a client or by an app here, unless there are too many;
        return whether it becomes wanted by that."""
        is_new = group not in self._until_s
        if group in self._read_here or (is_new and not self._has_room()):
            return False
        self._set(group, now_s + self._fanout_s)
        self._grown.add(group)
        return is_new

    def room(self, group: PublicKey) -> int:
        """Return how many more messages of a group may wait for a node that takes them; for a group that is read here,
        other limits count."""
        if group not in self._until_s or group in self._read_here:
            return TAKEN_MAX
        return max(0, TAKEN_MAX - self._waiting(TAKEN_MAX - WAITING_OF_GROUP_MAX))

    def tell(self) -> list[c.Deed]:
        """Tell the router what it is to hand over, if that has changed."""
        before = self._told
        full = [one for one in (*before.full, *self._grown - {*before.full}) if self._is_full(one, one in before.full)]
        self._grown.clear()
        most = WAITING_MAX - before.is_full * WAITING_MAX // 10
        is_full = self._waiting(most - 1) >= most
        self._told = o.FanOut(GROUPS_MAX, GROUPS_OF_ONE_MAX, GROUPS_OF_CLIENTS_MAX, tuple(full[:FULL_MAX]), is_full)
        return [self._told] if self._told != before else []

    def restore(self, groups: Iterable[PublicKey], now_s: float) -> list[PublicKey]:
        """Return the groups in which messages wait for a neighbour since before a restart: they are wanted again."""
        return [group for group in groups if self.published(group, now_s)]

    def is_read(self, group: PublicKey) -> None:
        """Record that a group is read here."""
        self._read_here.add(group)

    def stays(self, group: PublicKey, now_s: float) -> bool:
        """Record that a group is not read here any more; return whether it stays wanted all the same."""
        self._read_here.discard(group)
        if group not in self._until_s and self._untaken(group) and self._has_room():
            self._grown.add(group)
            self._set(group, now_s + AGAIN_S)
        return group in self._until_s

    def forget(self, group: PublicKey) -> None:
        """Forget a group: it could not become wanted, or is not wanted any more."""
        self._until_s.pop(group, None)

    def take_over(self) -> list[PublicKey]:
        """Return the groups that nobody wants any more, and forget them."""
        found, self._over = self._over, []
        return found

    def _has_room(self) -> bool:
        return len(self._until_s) < GROUPS_TAKEN_MAX

    def _waiting(self, least: int) -> int:
        """Return how many messages wait in such groups; it is added up only where there may be more than `least`."""
        at_most = self._untaken_max()
        if at_most <= least:
            return at_most
        return sum(self._untaken(one) for one in self._until_s if one not in self._read_here)

    def _is_full(self, group: PublicKey, was_full: bool) -> bool:
        """Whether as many messages wait in a group as may; once it was full, until a tenth has gone."""
        most = WAITING_OF_GROUP_MAX - was_full * WAITING_OF_GROUP_MAX // 10
        is_counted = group in self._until_s and group not in self._read_here
        return is_counted and self._untaken(group) >= most

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
