"""The number of times that a service has failed on a message, or in a row on events of one kind."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

from router.core.wire.crypto import MessageId

FAILED_MESSAGES_MAX = 1000
"""Most messages whose failures are remembered; the oldest are forgotten first."""


class Attempts:
    """Failures by message. They survive restarts of the service, but not of its process."""

    def __init__(self, most: int, messages_max: int = FAILED_MESSAGES_MAX) -> None:
        self.most = most
        self.ended = 0
        """The number of messages that were handled or refused."""
        self._messages_max = messages_max
        self._failures: dict[Hashable, int] = {}

    def __repr__(self) -> str:
        return f"<attempts: {len(self._failures)} messages failed, each at most {self.most} times>"

    def fail(self, message: Hashable) -> int:
        """Count a failure; return how many there were."""
        count = self._failures[message] = self._failures.pop(message, 0) + 1
        if len(self._failures) > self._messages_max:
            del self._failures[next(iter(self._failures))]
        return count

    def forget(self, message: Hashable) -> None:
        """Count no more failures of this one."""
        self._failures.pop(message, None)

    def count(self, message: Hashable) -> int:
        """Return how often the service has failed on it."""
        return self._failures.get(message, 0)

    def has_failed(self, message: MessageId) -> bool:
        """Whether the service has failed on this message, or on several with this one among them."""
        return message in self._failures

    def are_used_up(self, message: MessageId) -> bool:
        return self._failures.get(message, 0) >= self.most

    def end(self, message: MessageId) -> None:
        """Count a message as handled, or refused for good; a refusal may have to be sent again."""
        self.ended += 1
        if not self.are_used_up(message):
            self._failures.pop(message, None)


IN_A_ROW_MAX = 5
"""Most failures in a row on events of one kind, as on `Tick`; then the service is started again, the first time."""
CAREFUL_S = 600.0
"""Seconds for which each event has a cycle of its own after `settled` has failed on several."""


class FailuresInARow:
    """Failures in a row on events of one kind, over all lives of a service in its process.

    For one kind it is started again after `IN_A_ROW_MAX` of them, and then after twice as many each time: a fault that
    a new life does not mend restarts it ever more seldom."""

    def __init__(self, most: int = IN_A_ROW_MAX) -> None:
        self._most = most
        self._counts: dict[type, int] = {}
        self._restarts: dict[type, int] = {}
        self._careful_until_s = -inf

    def __repr__(self) -> str:
        said = ", ".join(f"{count} on {kind.__name__}" for kind, count in self._counts.items())
        return f"<failures in a row: {said or 'none'}>"

    def fail(self, kind: type) -> tuple[int, bool]:
        """Count a failure; return how many there were in a row, and whether the service has to start again."""
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        restarts = self._restarts.get(kind, 0)
        if is_over := count >= self._most << restarts:
            self._restarts[kind] = restarts + 1
        return count, is_over

    def went_well(self, kind: type) -> None:
        """Record that an event of this kind was heard without a failure."""
        if self._counts:
            self._counts.pop(kind, None)

    def doubt(self, now_s: float) -> None:
        """Record that a cycle of several events failed, of which any may be to blame."""
        self._careful_until_s = now_s + CAREFUL_S

    def is_careful(self, now_s: float) -> bool:
        """Whether each event has a cycle of its own now, so that a failure tells which one is to blame."""
        return now_s < self._careful_until_s
