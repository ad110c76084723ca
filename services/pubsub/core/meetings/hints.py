"""Routers named in group links: they are dialled at once, because a small group is not found by chance (R-C28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from msgspec import Struct

from router.core.service.back_off import BackOff
from router.core.wire.crypto import PublicKey
from router.core.wire.hint import Hint
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.known import Known
from services.pubsub.core.others import LEARNED_S, Others

HINTED_MAX = 1_024


class HintLimits(Struct, frozen=True):
    """The times of looks at a router that a hint names: after `again_s`, each time twice as long up to `again_s_max`,
    and every `shared_s` while a group is shared with it.

    At each look it is dialled unless it is connected; after `tries_max` times in a row only if one of its groups has no
    neighbour here. `hinted_max`: routers that are watched at a time; the oldest are forgotten."""

    again_s: float = 5.0
    again_s_max: float = 600.0
    shared_s: float = 60.0
    tries_max: int = 12
    hinted_max: int = HINTED_MAX


class Dialled(Struct):
    """A router that was named, how often it was dialled in a row, and the time of the next look."""

    urls: tuple[str, ...]
    groups: set[PublicKey]
    tries: int = 0
    next_s: float = -inf


class Hints:
    """Dials each router that a hint names until a group of the hint is shared with it: its pub/sub service is met like
    any other when it is connected, but the link may break before the meeting ends.

    A router is remembered as long as one of its groups is wanted, so two cores that know each other by a link alone,
    and have forgotten each other's advertisements, find each other again."""

    def __init__(self, known: Known, others: Others, limits: HintLimits | None = None) -> None:
        self._known = known
        self._others = others
        self._limits = limits or HintLimits()
        self._hinted: dict[PublicKey, Dialled] = {}

    def __repr__(self) -> str:
        return f"<{len(self._hinted)} routers that hints name are dialled>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case o.Hinted(group, hints):
                for hint in hints:
                    self._take(group, hint)
            case o.Wanted(group, False):
                for one in self._hinted.values():
                    one.groups.discard(group)
            case c.Tick():
                pass
            case _:
                return []
        return list(self._dial(now))

    def _take(self, group: PublicKey, hint: Hint) -> None:
        router = hint.router
        if router == self._known.router:
            return
        urls = tuple(one.url for one in hint.addresses)
        found = self._hinted.pop(router, None) or Dialled(urls, set())
        while len(self._hinted) >= self._limits.hinted_max:
            del self._hinted[next(iter(self._hinted))]
        self._hinted[router] = found
        found.groups.add(group)
        if urls != found.urls:
            found.urls, found.tries, found.next_s = urls, 0, -inf

    def _is_shared(self, router: PublicKey, groups: Iterable[PublicKey]) -> bool:
        """Whether one of the groups is shared with the router, and it is connected or a neighbour in that group."""
        topics = [topic for group in groups if (topic := self._known.topics.get(group)) is not None]
        linked = router in self._others.linked
        return any(router in topic.t and (linked or router in topic.neighbours) for topic in topics)

    def _is_alone(self, groups: Iterable[PublicKey]) -> bool:
        """Whether one of the groups has no neighbour here."""
        topics = (self._known.topics.get(group) for group in groups)
        return any(topic is not None and not topic.neighbours for topic in topics)

    def _dial(self, now: c.Now) -> Iterator[c.Deed]:
        for router, one in list(self._hinted.items()):
            if not one.groups:
                del self._hinted[router]
            elif one.next_s <= now.mono_s:
                yield from self._look(router, one, now)
        due_s = min((one.next_s for one in self._hinted.values()), default=inf)
        if due_s < inf:
            yield c.Wake(now.wall_s + max(0.01, due_s - now.mono_s))

    def _look(self, router: PublicKey, one: Dialled, now: c.Now) -> Iterator[c.Deed]:
        """Dial a router that a hint names, if it is time."""
        limits = self._limits
        if self._is_shared(router, one.groups):
            one.tries, one.next_s = 0, now.mono_s + limits.shared_s
            return
        is_over = one.tries >= limits.tries_max
        pauses = BackOff(pause_s_min=limits.again_s, pause_s_max=limits.again_s_max)
        one.next_s = now.mono_s + pauses.pause_s(one.tries + 1, draw=1.0)
        if is_over and not self._is_alone(one.groups):
            return
        one.tries += 1
        if router not in self._others.linked:
            yield c.AddNeighbour(router, one.urls, int(now.wall_s) + LEARNED_S, how="hint")
            yield o.Dial(router)
