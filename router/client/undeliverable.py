"""Messages that could not be given to the app: reported once for each way they come, and then counted."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

from router.core.wire.crypto import PublicKey
from router.core.wire.text import key_text, short

AGAIN_S = 60.0
WAYS_MAX = 256  # ways remembered; the oldest is dropped, and would be reported again

UNSEALED = "it is not sealed (`router pub --raw` sends such); who joins with raw, as `router sub --raw` does, reads it"

_HEX = re.compile(r"[0-9a-f]{12,}")  # keys and ids, which whoever sends may choose anew for each message

Way = tuple[PublicKey | None, PublicKey | None, str]


class Undeliverable:
    """Reports the first message of each group, neighbour and cause at once, and further ones together, at most every
    `AGAIN_S`."""

    def __init__(self, tell: Callable[[str], None], wall_s: Callable[[], float]) -> None:
        self._tell = tell
        self._wall_s = wall_s
        self._ways: OrderedDict[Way, tuple[float, int]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<undeliverable messages: {len(self._ways)} ways they come>"

    def note(self, group: PublicKey | None, via: PublicKey | None, why: str) -> None:
        """Note an undeliverable message. `group`: None for a unicast; `via`: the neighbour it came from, None for this
        node."""
        way, now_s = (group, via, _HEX.sub("", why)), self._wall_s()
        told_s, untold = self._ways.get(way, (-AGAIN_S, 0))
        if now_s - told_s < AGAIN_S:
            self._ways[way] = told_s, untold + 1
            return
        self._ways[way] = now_s, 0
        self._ways.move_to_end(way)
        if len(self._ways) > WAYS_MAX:
            self._ways.popitem(last=False)
        whose = "to this app" if group is None else f"of {short(key_text('group', group))}"
        whence = "this node" if via is None else short(key_text("addr", via))
        count, were = (f"{untold + 1} messages", "were") if untold else ("a message", "was")
        self._tell(f"{count} {whose} from {whence} {were} given to nobody: {why}")
