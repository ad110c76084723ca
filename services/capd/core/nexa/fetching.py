"""Messages that neighbours have announced: each is requested from the first, and from another one if it does not come.

A neighbour that announces what it does not send thus delays a message by seconds, and suppresses none. At most
`outstanding_ids` are requested from one neighbour at once, the rest when these have come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile

from .commands import GetMsg
from .limits import NexaLimits
from .neighbour import Neighbour
from .own_commands import GetHeld

AGAIN_S = 5.0
"""Seconds that one neighbour has to send a message before another is asked."""
GIVEN_UP_S = 30.0
"""Seconds after which a request is given up: a message that has fallen below the line of the request never comes."""
DECLINED_S = 60.0
"""Seconds for which a message that was turned away is not requested again."""
DECLINED_MAX = 20_000
IDS_MAX = 1_000
"""Most ids in one request, so that the answer fits into a packet."""


class Fetching:
    """The ids that were requested and have not come, and those that were turned away a moment ago."""

    def __init__(self, holdings: Holdings, profile: Profile, limits: NexaLimits) -> None:
        self._is_strict = profile is Profile.STRICT
        self._holdings = holdings
        self._pool = holdings.pool
        self._limits = limits
        self._asked: dict[bytes, float] = {}
        self._declined: dict[bytes, float] = {}

    def __repr__(self) -> str:
        return f"<Fetching: {len(self._asked)} asked for>"

    def announced(self, neighbour: Neighbour, ids: Iterable[bytes], line: float, now_s: float) -> None:
        """Record the ids that a neighbour has announced and we lack, and request as many as allowed; under `compat` as
        often as they were announced, as the deployed node does."""
        for own_id in ids:
            self.want(neighbour, own_id, now_s)
        self.ask(neighbour, line, now_s, {} if self._is_strict else Counter(ids))

    def want(self, neighbour: Neighbour, own_id: bytes, now_s: float) -> None:
        """Record a message of a neighbour as wanted if we lack it; `ask` requests it."""
        if len(neighbour.lacking.wanted) < self._limits.wanted_ids and self._is_lacking(own_id, now_s):
            neighbour.lacking.wanted[own_id] = None

    def ask(self, neighbour: Neighbour, line: float, now_s: float, repeated: Mapping[bytes, int] | None = None) -> None:
        """Request wanted messages from a neighbour if there is room for them; put off those that another was asked for
        a moment ago."""
        if not self._holdings.has_room:
            return
        ids: list[bytes] = []
        while neighbour.lacking.wanted and len(neighbour.lacking.asked) < self._limits.outstanding_ids:
            own_id = next(iter(neighbour.lacking.wanted))
            del neighbour.lacking.wanted[own_id]
            if own_id in neighbour.lacking.asked or not self._is_lacking(own_id, now_s):
                continue
            again_s = self._asked.get(own_id, -AGAIN_S) + AGAIN_S
            if now_s < again_s:
                if len(neighbour.lacking.later) < self._limits.wanted_ids:
                    neighbour.lacking.later[own_id] = again_s
                continue
            ids += [own_id] * (repeated or {}).get(own_id, 1)
            neighbour.lacking.asked[own_id] = now_s
            self._note(own_id, now_s)
        for at in range(0, len(ids), IDS_MAX):
            neighbour.sent_lines.record(line, now_s)
            neighbour.say(GetMsg(line, tuple(ids[at : at + IDS_MAX])))
        if (
            neighbour.lacking.next_page
            and not neighbour.lacking.wanted
            and 2 * len(neighbour.lacking.asked) < self._limits.outstanding_ids
        ):
            neighbour.say(GetHeld(neighbour.lacking.next_page))
            neighbour.lacking.next_page, neighbour.lacking.is_listing = 0, True

    def due(self, neighbour: Neighbour, line: float, now_s: float) -> None:
        """Request from a neighbour what another has not sent in time, and give up what it has not sent itself."""
        for own_id in [one for one, at_s in neighbour.lacking.later.items() if at_s <= now_s]:
            del neighbour.lacking.later[own_id]
            neighbour.lacking.wanted[own_id] = None
        while neighbour.lacking.asked and now_s - next(iter(neighbour.lacking.asked.values())) >= GIVEN_UP_S:
            del neighbour.lacking.asked[next(iter(neighbour.lacking.asked))]
        self.ask(neighbour, line, now_s)

    def came(self, neighbour: Neighbour, own_id: bytes) -> bool:
        """Record that a neighbour has sent a message; return whether it was asked for it."""
        self._asked.pop(own_id, None)
        return neighbour.lacking.asked.pop(own_id, None) is not None

    def decline(self, own_id: bytes, now_s: float) -> None:
        """Record that a message was turned away, so that it is not requested for `DECLINED_S`."""
        self._declined.pop(own_id, None)
        self._declined[own_id] = now_s + DECLINED_S
        if len(self._declined) > DECLINED_MAX:
            del self._declined[next(iter(self._declined))]

    def _is_lacking(self, own_id: bytes, now_s: float) -> bool:
        return self._pool.get(own_id) is None and now_s >= self._declined.get(own_id, 0.0)

    def _note(self, own_id: bytes, now_s: float) -> None:
        self._asked.pop(own_id, None)
        self._asked[own_id] = now_s
        if len(self._asked) > self._limits.asked_max:
            del self._asked[next(iter(self._asked))]
