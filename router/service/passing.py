"""A host's record of messages on their way for its rules: copies whose outcome they want, and PULLs to be sent.

Outcomes name a message by its id, rules by a tag; several copies of one message are distinguished by the next router.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from router.client.outcomes import TERMINAL
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Outcome
from router.core.wire.message import MULTICAST, via_of
from router.core.wire.reasons import Reason, reason_from
from router.service.contract import HopOutcome
from router.service.roles.overlay import PullFrom
from router.service.verbs.take_part import GROUPS_MAX, AckWanted, Part, TakePart, TakeParts

COPIES_MAX = 10_000
"""Most copies whose outcome is awaited; beyond it the oldest is not reported any more."""
PULLS_AT_ONCE_MAX = 64
TAKEN = frozenset(("acked", "delivered", "unconfirmed"))


def copied_to(wire: bytes) -> PublicKey | None:
    """Return the router that a forwarded multicast is for; None for any other message."""
    return via_of(wire) if wire[1] == MULTICAST else None


class Copies:
    """The tags of messages that were handed in, until the next hop has taken them or they have ended."""

    def __init__(self, most: int = COPIES_MAX) -> None:
        self._most = most
        self._tags: OrderedDict[tuple[MessageId, bytes | None], str] = OrderedDict()

    def __repr__(self) -> str:
        return f"<{len(self._tags)} of at most {self._most} copies on their way>"

    def expect(self, id: MessageId, wire: bytes, tag: str) -> None:
        """Remember a message that is handed in, if it has a tag."""
        if tag:
            self._tags[id, via_of(wire)] = tag
            if len(self._tags) > self._most:
                self._tags.popitem(last=False)

    def refused(self, id: MessageId, wire: bytes) -> None:
        """Forget a message that the own router has not taken."""
        self._tags.pop((id, via_of(wire)), None)

    def hear(self, outcome: Outcome) -> Iterator[HopOutcome]:
        """Yield the results that an outcome means for messages with a tag."""
        for one in outcome.recipients:
            if one.state not in TERMINAL or not isinstance(one.recipient, bytes):
                continue
            to = PublicKey(one.recipient)
            tag = self._tags.pop((outcome.id, to), None) or self._tags.pop((outcome.id, None), None)
            if tag is not None:
                was_known = one.state == "acked" and one.reason == Reason.DUPLICATE
                yield HopOutcome(tag, outcome.id, to, one.state, _why(one.state, one.reason), was_known)


def _why(state: str, reason: int | None) -> Reason | None:
    if state in TAKEN:
        return None
    return Reason.INTERNAL if reason is None else reason_from(reason)


class PartsToSay:
    """Parts in groups that wait to be said to the own router; of two in one group the later one holds, also of one that
    the router had no room to hear."""

    def __init__(self) -> None:
        self._waiting: dict[PublicKey, Part] = {}
        self._said: dict[PublicKey, TakeParts] = {}  # the last request about each group, until it is answered

    def __repr__(self) -> str:
        return f"<parts in {len(self._waiting)} groups to be said>"

    def add(self, deed: TakePart | AckWanted) -> bool:
        """Add one; return whether it is the first, so that `take` must be called."""
        is_first = not self._waiting
        self._waiting[deed.group] = deed.part
        return is_first

    def take(self) -> list[TakeParts]:
        """Return the requests that say all that waits."""
        waiting, self._waiting = list(self._waiting.items()), {}
        found = [TakeParts.of(dict(waiting[at : at + GROUPS_MAX])) for at in range(0, len(waiting), GROUPS_MAX)]
        self._said.update((group, request) for request in found for group in request.groups)
        return found

    def answered(self, request: TakeParts) -> None:
        """Forget a request: it is answered, or will not be made again."""
        self._pop(request)

    def again(self, request: TakeParts) -> bool:
        """Add the parts of a request again, but for groups in which others were taken since; return whether `take` must
        be called."""
        is_first = not self._waiting
        for group, part in self._pop(request):
            self._waiting.setdefault(group, part)
        return is_first and bool(self._waiting)

    def _pop(self, request: TakeParts) -> list[tuple[PublicKey, Part]]:
        """Return the parts of a request that none after it has overtaken, and forget it."""
        parts = zip(request.groups, request.parts, strict=True)
        found = [(group, part) for group, part in parts if self._said.get(group) is request]
        for group, _ in found:
            del self._said[group]
        return found


class PullsToSay:
    """PULLs that wait to be sent to the own router, which takes several for one group and one router at a time."""

    def __init__(self) -> None:
        self._waiting: deque[PullFrom] = deque()

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} PULLs to be said>"

    def add(self, deed: PullFrom) -> bool:
        """Add one; return whether it is the first, so that `take` must be called."""
        self._waiting.append(deed)
        return len(self._waiting) == 1

    def take(self) -> list[list[PullFrom]]:
        """Return all waiting PULLs, grouped for sending, in the order of the first of each group."""
        found: dict[tuple[bytes, bytes], list[list[PullFrom]]] = {}
        for one in self._waiting:
            runs = found.setdefault((one.router, one.group), [[]])
            if len(runs[-1]) >= PULLS_AT_ONCE_MAX:
                runs.append([])
            runs[-1].append(one)
        self._waiting.clear()
        return [run for runs in found.values() for run in runs]
