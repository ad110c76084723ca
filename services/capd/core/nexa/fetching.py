"""Messages that neighbours have announced: each is requested from the first, and from others if it does not come.

After 5 s it is requested from two more, after 10 s from four, and so on: so neighbours that announce what they do
not send, however many and however often, delay a message by seconds, and suppress none. At most `outstanding_ids` are
requested from one neighbour at once, the rest when these have come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile

from .commands import GetMsg
from .limits import NexaLimits
from .neighbour import Lacking, Neighbour
from .own_commands import GetHeld

AGAIN_S = 5.0
"""Seconds that neighbours have to send a message before others are asked."""
GIVEN_UP_S = 30.0
"""Seconds after which a request is given up: a message that has fallen below the line of the request never comes."""
DECLINED_S = 60.0
"""Seconds for which a message that was turned away is not requested again."""
DECLINED_MAX = 20_000
IDS_MAX = 1_000
"""Most ids in one request, so that the answer fits into a packet."""


class Round(Struct):
    """The neighbours that are asked for a message within the same 5 s: since when, how many, and at most how many."""

    since_s: float
    asked: int = 0
    most: int = 1


class Fetching:
    """The ids that were requested and have not come, and those that were turned away a moment ago."""

    def __init__(self, holdings: Holdings, profile: Profile, limits: NexaLimits) -> None:
        self._is_strict = profile is Profile.STRICT
        self._holdings = holdings
        self._pool = holdings.pool
        self._limits = limits
        self._asked: dict[bytes, Round] = {}
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
        """Request wanted messages from a neighbour if there is room for them; put off those that others were asked for
        a moment ago."""
        if not self._holdings.has_room:
            return
        lacking, ids = neighbour.lacking, list[bytes]()
        while lacking.wanted and (room := self._limits.outstanding_ids - len(lacking.asked)) > 0:
            for own_id in list(islice(lacking.wanted, room)):
                del lacking.wanted[own_id]
                is_lacking = own_id not in lacking.asked and self._is_lacking(own_id, now_s)
                if is_lacking and self._may_ask(lacking, own_id, now_s):
                    ids += [own_id] * (repeated or {}).get(own_id, 1)
                    lacking.asked[own_id] = now_s
        for at in range(0, len(ids), IDS_MAX):
            neighbour.sent_lines.record(line, now_s)
            neighbour.say(GetMsg(line, tuple(ids[at : at + IDS_MAX])))
        self._ask_on(neighbour, now_s)

    def _may_ask(self, lacking: Lacking, own_id: bytes, now_s: float) -> bool:
        """Whether one more neighbour may be asked for a message now; if not, put off asking this one."""
        found = self._asked.get(own_id)
        if found is None or now_s >= found.since_s + AGAIN_S:
            self._asked.pop(own_id, None)
            found = self._asked[own_id] = Round(now_s, most=1 if found is None else 2 * found.most)
            if len(self._asked) > self._limits.asked_max:
                del self._asked[next(iter(self._asked))]
        if found.asked < found.most:
            found.asked += 1
            return True
        if len(lacking.later) < self._limits.wanted_ids:
            lacking.later[own_id] = found.since_s + AGAIN_S
        return False

    def _ask_on(self, neighbour: Neighbour, now_s: float) -> None:
        """Ask for the next page of the ids that a neighbour holds when most of the last one has been dealt with."""
        lacking = neighbour.lacking
        has_room = not lacking.wanted and 2 * len(lacking.asked) < self._limits.outstanding_ids
        if lacking.next_page and has_room and lacking.pages.take(1, now_s):
            neighbour.say(GetHeld(lacking.next_page))
            lacking.next_page, lacking.is_listing = 0, True

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
