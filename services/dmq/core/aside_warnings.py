"""Warnings of messages that were set aside for consumers: one a consumer in ten seconds at most, with how many there
were."""

from __future__ import annotations

from collections.abc import Iterator

from router.service import contract as c

PAUSE_S = 10.0


class AsideWarnings:
    """What was set aside since the last warnings, by consumer; asked once a second for those that are due."""

    def __init__(self) -> None:
        self._ids: dict[str, tuple[bytes, int]] = {}  # the first one's id, and how many
        self._said_s: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<AsideWarnings: {len(self._ids)} consumers are to be named>"

    def add(self, consumer: str, own_id: bytes) -> None:
        """Count a message that was set aside for a consumer."""
        first, count = self._ids.get(consumer, (own_id, 0))
        self._ids[consumer] = first, count + 1

    def due(self, mono_s: float) -> Iterator[c.Warn]:
        """Yield the warnings whose time has come, by a clock that never steps."""
        for consumer, (first, count) in list(self._ids.items()):
            if mono_s - self._said_s.get(consumer, mono_s - PAUSE_S) >= PAUSE_S:
                del self._ids[consumer]
                self._said_s[consumer] = mono_s
                yield c.Warn(_text(consumer, first.hex(), count))


def _text(consumer: str, own_id: str, count: int) -> str:
    why = f"alone broke off the consumer {consumer} again and again"
    if count > 1:
        said = f"{count} messages are set aside, the first of them {own_id}: each {why}"
        return f"{said}; `router dmq again {consumer}` gives them once more"
    said = f"the message {own_id} is set aside: it {why}"
    return f"{said}; `router dmq again {consumer} {own_id}` gives it once more"
