"""Warnings about named consumers: messages that were set aside, and connections that took each other's place.

One of each kind a consumer within its pause at most, with how many there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from router.service import contract as c

PAUSE_S = 10.0
TAKEN_OVER_PAUSE_S = 60.0


class ConsumerWarnings:
    """What happened since the last warnings, by consumer; asked once a second for those that are due."""

    def __init__(self) -> None:
        self._ids: dict[str, tuple[bytes, int]] = {}  # the first one's id, and how many
        self._taken_over: Counter[str] = Counter()
        self._said_s: dict[tuple[str, float], float] = {}  # by consumer and pause

    def __repr__(self) -> str:
        return f"<ConsumerWarnings: {len(self._ids.keys() | self._taken_over.keys())} consumers are to be named>"

    def set_aside(self, consumer: str, own_id: bytes) -> None:
        """Count a message that was set aside for a consumer."""
        first, count = self._ids.get(consumer, (own_id, 0))
        self._ids[consumer] = first, count + 1

    def taken_over(self, consumer: str) -> None:
        """Count a connection of a consumer that was closed because a newer one asked."""
        self._taken_over[consumer] += 1

    def due(self, mono_s: float) -> Iterator[c.Warn]:
        """Yield the warnings whose time has come, by a clock that never steps."""
        for consumer in [one for one in self._ids if self._is_due(one, PAUSE_S, mono_s)]:
            first, count = self._ids.pop(consumer)
            yield c.Warn(_set_aside_text(consumer, first.hex(), count))
        for consumer in [one for one in self._taken_over if self._is_due(one, TAKEN_OVER_PAUSE_S, mono_s)]:
            yield c.Warn(_taken_over_text(consumer, self._taken_over.pop(consumer)))

    def _is_due(self, consumer: str, pause_s: float, mono_s: float) -> bool:
        if mono_s - self._said_s.get((consumer, pause_s), mono_s - pause_s) < pause_s:
            return False
        self._said_s[consumer, pause_s] = mono_s
        return True


def _set_aside_text(consumer: str, own_id: str, count: int) -> str:
    why = f"alone broke off the consumer {consumer} again and again"
    if count > 1:
        said = f"{count} messages are set aside, the first of them {own_id}: each {why}"
        return f"{said}; `router dmq again {consumer}` gives them once more"
    said = f"the message {own_id} is set aside: it {why}"
    return f"{said}; `router dmq again {consumer} {own_id}` gives it once more"


def _taken_over_text(consumer: str, count: int) -> str:
    times = "" if count == 1 else f" {count} times"
    said = f"a newer connection has taken the place of the consumer {consumer}{times}, which was still connected"
    remedy = "if two programs read at its socket, each gets a part of the messages: give each a --consumer of its own"
    return f"{said}; {remedy}"
