"""Results of catching up that apps are told, kept over a restart until each app has heard them (R-C35).

missed/GROUP         messages that neighbours have dropped instead of bringing them here, and how many came since
caught-up/GROUP TIME how many of the missed ones nobody had, and the apps that have been told
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct

from router.core.wire.crypto import KEY_BYTES, PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.fetching import Fetch
from services.pubsub.core.comparison.plan import CompareLimits, Plan
from services.pubsub.core.known import Topic

MISSED, CAUGHT_UP = b"missed/", b"caught-up/"
KEPT_S = 7 * 86_400
FIGURES_MAX = 1_000
"""Most results that are kept of all groups; beyond it the oldest are deleted."""
HEARD_MAX = 256
"""Most apps that are recorded as told of a result; beyond it one may be told again after a restart."""
_TWO = Struct(">QQ")
_TIME = Struct(">Q")


class Figures:
    """Reads and writes these rows; `kept` shows the rows on disk."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._kept = kept

    def __repr__(self) -> str:
        return f"<{sum(1 for _ in self._rows())} figures>"

    # -- what neighbours have dropped ----------------------------------------------------------------------------

    def all_missed(self) -> dict[PublicKey, tuple[int, int]]:
        """Return the kept counts of each group: messages missed, and arrived since."""
        return {PublicKey(group): _TWO.unpack(value) for group, value in c.kept_under(self._kept, MISSED)}

    def missed(self, group: PublicKey, count: int, arrived: int) -> c.Put:
        return c.Put(MISSED + group, _TWO.pack(count, arrived) if count else None)

    # -- figures -------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the second of each result, and its key."""
        for key, _ in c.kept_under(self._kept, CAUGHT_UP):
            yield _TIME.unpack(key[-_TIME.size :])[0], CAUGHT_UP + key

    def new(self, group: PublicKey, at_s: int, missing: int, of: int) -> Iterator[c.Deed]:
        """Have the apps of a group told; keep a result with missing messages."""
        if of:
            for _, key in sorted(self._rows())[: 1 - FIGURES_MAX]:
                yield c.Put(key, None)
            yield c.Put(_key(group, at_s), _TWO.pack(missing, of))
        yield o.CaughtUp(group, at_s, missing, of)

    def heard(self, group: PublicKey, at_s: int, app: PublicKey) -> Iterator[c.Deed]:
        """Record that an app was told of a result."""
        key = _key(group, at_s)
        value = self._kept.get(key)
        if value is None:
            return
        room = _TWO.size + KEY_BYTES * HEARD_MAX - len(value)
        if app not in _heard(value) and room >= KEY_BYTES:
            yield c.Put(key, value + app)

    def again(self, now_s: float) -> Iterator[c.Deed]:
        """Have apps told after a restart of results that they have not heard yet; forget old ones."""
        for at_s, key in list(self._rows()):
            if at_s < now_s - KEPT_S:
                yield c.Put(key, None)
                continue
            value, group = self._kept[key], PublicKey(key[len(CAUGHT_UP) : -_TIME.size])
            missing, of = _TWO.unpack_from(value)
            yield o.CaughtUp(group, at_s, missing, of, _heard(value))

    def left(self, group: PublicKey) -> Iterator[c.Deed]:
        """Forget all rows of a group that nobody here reads any more."""
        for prefix in (MISSED + group, CAUGHT_UP + group):
            yield from (c.Put(prefix + key, None) for key, _ in c.kept_under(self._kept, prefix))


def report(fetch: Fetch, plan: Plan, topic: Topic, figures: Figures, limits: CompareLimits, now: c.Now) -> list[c.Deed]:
    """Record in a topic that a comparison has ended well and all is fetched; have the apps told if they wait for it, or
    something was missing."""
    fruitless = fetch.needed > 0 and fetch.known == fetch.needed
    plan.period_s = min(limits.period_s_max, plan.period_s * 2) if fruitless else limits.period_s
    new = fetch.news + plan.came
    missing = max(fetch.missing, plan.missed - plan.arrived)
    topic.caught_up_s, topic.missing = int(now.wall_s), missing
    if not (new or plan.is_awaited):
        return []
    of = max(new, plan.missed)
    plan.report()
    fields: dict[str, str | int | bool] = {"group": fetch.group.hex(), "missing": missing, "of": of}
    return [
        figures.missed(fetch.group, 0, 0),
        *figures.new(fetch.group, int(now.wall_s), missing, of),
        *([c.LogEvent("pubsub_caught_up", fields=fields)] if of else []),
    ]


def _key(group: PublicKey, at_s: int) -> bytes:
    return CAUGHT_UP + group + _TIME.pack(at_s)


def _heard(value: bytes) -> tuple[PublicKey, ...]:
    return tuple([PublicKey(value[at : at + KEY_BYTES]) for at in range(_TWO.size, len(value), KEY_BYTES)])
