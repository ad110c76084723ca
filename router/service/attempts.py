"""The number of times that a service has failed on a message."""

from __future__ import annotations

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
        self._failures: dict[MessageId, int] = {}

    def __repr__(self) -> str:
        return f"<attempts: {len(self._failures)} messages failed, each at most {self.most} times>"

    def fail(self, message: MessageId) -> None:
        self._failures[message] = self._failures.pop(message, 0) + 1
        if len(self._failures) > self._messages_max:
            del self._failures[next(iter(self._failures))]

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
