"""The causes of an app's next message to a group: the newest four in its header, the heads inside its seal (pure).

Heads are the messages that the app has been given or has published and that no other of these names (R-E9). A reader
that has the heads of a message has everything that its author had, however many senders there are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from router.core.wire.crypto import MessageId
from router.core.wire.packed_ids import PackedIds

RECENT = 4  # how many of the newest messages seen a message's header names (R-A9, R-E2)
RECENT_MAX = 16

Until = tuple[MessageId, int]
"""A message and the minute of its expiry."""


class HeadLimits(Struct, frozen=True):
    """`heads_max`: most heads of a group; the newest are kept. `named_max`: ids remembered as named by others, so that
    a cause that comes after its effect is no head; of the newest half (`PackedIds`)."""

    heads_max: int = 16
    named_max: int = 8192


class RecentIds:
    """The newest messages of one group that this app has seen or published, at most `most`."""

    def __init__(self, most: int = RECENT) -> None:
        self._newest: deque[Until] = deque(maxlen=min(most, RECENT_MAX))

    def note(self, id: MessageId, until_min: int) -> None:
        self._newest.appendleft((id, until_min))

    def drop(self, id: MessageId) -> None:
        """Forget a message that was refused, because no one else will ever see it."""
        kept = [one for one in self._newest if one[0] != id]
        self._newest.clear()
        self._newest.extend(kept)

    def ids(self, now_min: int) -> tuple[MessageId, ...]:
        """Return the ids newest first, distinct and unexpired (R-A9)."""
        return tuple(dict.fromkeys(id for id, until_min in self._newest if until_min > now_min))


class _Own(Struct):
    """A published message that is not in custody yet: the heads that it replaced, and those published after it."""

    until_min: int
    named: dict[MessageId, int]
    heirs: list[MessageId] = field(default_factory=list)


class Heads:
    """The heads of one group. A published message is a head at once; if it is refused, those it named are heads
    again."""

    def __init__(self, kept: Iterable[Until] = (), limits: HeadLimits | None = None) -> None:
        self._limits = limits or HeadLimits()
        self._heads: OrderedDict[MessageId, int] = OrderedDict(kept)  # oldest first
        self._named = PackedIds(self._limits.named_max)
        self._own: dict[MessageId, _Own] = {}

    def __repr__(self) -> str:
        return f"<{len(self._heads)} heads>"

    def given(self, id: MessageId, until_min: int, deps: Sequence[MessageId]) -> None:
        """Add a message that the app has been given."""
        heads = self._heads
        for dep in deps:
            heads.pop(dep, None)
            self._named.add(dep)
        if id not in self._named:
            self._add(id, until_min)

    def published(self, id: MessageId, until_min: int, deps: Sequence[MessageId]) -> None:
        """Add a message that the app has composed; `kept` or `refused` follows."""
        named = {dep: until for dep in deps if (until := self._heads.pop(dep, None)) is not None}
        for dep in named:
            if dep in self._own:
                self._own[dep].heirs.append(id)
        self._own[id] = _Own(until_min, named)
        self._add(id, until_min)

    def kept(self, id: MessageId) -> None:
        """Record that a published message is in custody, and will be read."""
        own = self._own.pop(id, None)
        for dep in own.named if own is not None else ():
            self._named.add(dep)

    def refused(self, id: MessageId) -> None:
        """Take back a published message, which nobody will read: messages that named it now name those it named."""
        own = self._own.pop(id, None)
        self._heads.pop(id, None)
        if own is None:
            return
        heirs = [self._own[heir] for heir in own.heirs if heir in self._own]
        for heir in heirs:
            heir.named.pop(id, None)
            heir.named |= own.named
        for dep, until_min in own.named.items():
            if not heirs and dep not in self._named:
                self._add(dep, until_min)
            if dep in self._own:
                self._own[dep].heirs += own.heirs

    def ids(self, now_min: int) -> tuple[MessageId, ...]:
        """Return the unexpired heads, newest first."""
        return tuple(id for id, until_min in reversed(self._heads.items()) if until_min > now_min)

    def lasting(self) -> list[Until]:
        """Return the heads with their expiries, oldest first, to be kept on disk."""
        return list(self._heads.items())

    def _add(self, id: MessageId, until_min: int) -> None:
        self._heads[id] = until_min
        if len(self._heads) > self._limits.heads_max:
            self._heads.popitem(last=False)


class Causes:
    """The causes of the next message to one group. A message that no router keeps (ttl 0) is no head, because readers
    who missed it would wait for it in vain. `on_published(id)` is called when a message has been composed, `on_kept(id,
    until_min)` when it is in custody."""

    def __init__(
        self,
        recent: int = RECENT,
        kept: Iterable[Until] = (),
        on_published: Callable[[MessageId], None] | None = None,
        on_kept: Callable[[MessageId, int], None] | None = None,
    ) -> None:
        self.recent = RecentIds(recent)
        self.heads = Heads(kept)
        self._on_published = on_published
        self._on_kept = on_kept

    def __repr__(self) -> str:
        return f"<causes: {self.heads!r}>"

    def given(self, id: MessageId, until_min: int, ttl_s: int, deps: Sequence[MessageId]) -> None:
        """Add a message that the app has been given."""
        if ttl_s:
            self.heads.given(id, until_min, deps)

    def published(self, id: MessageId, until_min: int, deps: Sequence[MessageId], *, is_head: bool) -> None:
        """Add a message that the app has composed. `is_head`: it is sealed, and routers keep it."""
        self.recent.note(id, until_min)
        if self._on_published is not None:
            self._on_published(id)
        if is_head:
            self.heads.published(id, until_min, deps)

    def kept(self, id: MessageId, until_min: int) -> None:
        """Record that a message published by the app is in custody."""
        self.heads.kept(id)
        if self._on_kept is not None:
            self._on_kept(id, until_min)

    def refused(self, id: MessageId) -> None:
        """Take back a message that the app has composed."""
        self.recent.drop(id)
        self.heads.refused(id)
