"""The topics of this node as operators see them."""

from __future__ import annotations

from typing import Any

from router.service import contract as c
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.others import Others

TOPICS = "topics"
TOPICS_SHOWN_MAX = 200
"""Most topics that fit an answer."""


class Shown:
    """Answers an operator's question about all topics, or about those whose keys are named."""

    def __init__(self, known: Known, others: Others) -> None:
        self._known = known
        self._others = others

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        if not isinstance(heard, c.Asked) or heard.word != TOPICS:
            return []
        named = frozenset(heard.argument.split())
        found = [one for one in self._known.topics.values() if not named or one.group.hex() in named]
        rows = {one.group.hex(): self._row(one) for one in found[:TOPICS_SHOWN_MAX]}
        return [c.Answer(heard.number, {"topics": rows, "more": max(0, len(found) - TOPICS_SHOWN_MAX)})]

    def _row(self, topic: Topic) -> dict[str, Any]:
        """Return a topic's row: its neighbours, whether its ring is whole as far as this node knows (None on a leaf),
        its counts, and the time of its last comparison with another node."""
        overlay = self._others.overlay
        ring = None if overlay is None else overlay.is_whole(topic.group)
        return {
            "neighbours": len(topic.neighbours),
            "ring": ring,
            "received": topic.received,
            "copies": topic.copies,
            "repaired": topic.repaired,
            "missing": topic.missing,
            "caught_up_s": topic.caught_up_s,
        }
