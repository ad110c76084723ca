"""Messages that neighbours have announced: each is asked of the first, and of another if it does not come.

So a neighbour that announces what it does not send delays a message by seconds, and keeps none away.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.capd.core.pool import Pool

from .commands import GET_IDS_MAX, GetMsg
from .limits import NexaLimits
from .neighbour import Neighbour

AGAIN_S = 5.0
"""How long one neighbour has to send a message before another is asked."""
DECLINED_S = 60.0
"""How long a message that was turned away is not asked for again."""
DECLINED_MAX = 20_000


class Fetching:
    """What was asked for and has not come, and what was turned away a moment ago."""

    def __init__(self, pool: Pool, limits: NexaLimits) -> None:
        self._pool = pool
        self._limits = limits
        self._asked: dict[bytes, float] = {}
        self._declined: dict[bytes, float] = {}

    def __repr__(self) -> str:
        return f"<Fetching: {len(self._asked)} asked for>"

    def announced(self, neighbour: Neighbour, ids: Iterable[bytes], line: float, now_s: float) -> None:
        """Ask a neighbour for what it has announced and we lack; what another was asked for waits for its turn."""
        wanted: list[bytes] = []
        for own_id in dict.fromkeys(ids):
            if self._pool.get(own_id) is not None or self._is_declined(own_id, now_s):
                continue
            again_s = self._asked.get(own_id, -AGAIN_S) + AGAIN_S
            if now_s >= again_s:
                wanted.append(own_id)
                self._ask(own_id, now_s)
            elif len(neighbour.wanted) < self._limits.wanted_ids:
                neighbour.wanted[own_id] = again_s
        for at in range(0, len(wanted), GET_IDS_MAX):
            neighbour.told_line.tell(line, now_s)
            neighbour.say(GetMsg(line, tuple(wanted[at : at + GET_IDS_MAX])))

    def due(self, neighbour: Neighbour, line: float, now_s: float) -> None:
        """Ask a neighbour for what another has not sent in time."""
        due = [own_id for own_id, at_s in neighbour.wanted.items() if at_s <= now_s]
        for own_id in due:
            del neighbour.wanted[own_id]
        if due:
            self.announced(neighbour, due, line, now_s)

    def came(self, own_id: bytes) -> None:
        """Hear that a message has come."""
        self._asked.pop(own_id, None)

    def decline(self, own_id: bytes, now_s: float) -> None:
        """Do not ask for a message for a while: it was turned away."""
        self._declined.pop(own_id, None)
        self._declined[own_id] = now_s + DECLINED_S
        if len(self._declined) > DECLINED_MAX:
            del self._declined[next(iter(self._declined))]

    def _is_declined(self, own_id: bytes, now_s: float) -> bool:
        return now_s < self._declined.get(own_id, 0.0)

    def _ask(self, own_id: bytes, now_s: float) -> None:
        self._asked.pop(own_id, None)
        self._asked[own_id] = now_s
        if len(self._asked) > self._limits.asked_max:
            del self._asked[next(iter(self._asked))]
