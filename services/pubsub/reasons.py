"""The reasons for which the pub/sub service refuses input, or gives up."""

from __future__ import annotations

from router.core.wire.reasons import NOT_SHARED, Reason

__all__ = [
    "GONE",
    "LIMIT",
    "MEET_FIRST",
    "NOT_AGREED",
    "NOT_COMPARED",
    "NOT_SHARED",
    "NOT_TAKEN",
    "UNANSWERED",
    "WITHHOLDS",
]

UNANSWERED = Reason.declare(225, "pubsub:unanswered", "Nobody who was asked has answered in time.")
LIMIT = Reason.declare(226, "pubsub:limit", "More is under way than the pub/sub service takes on.", later=True)
NOT_TAKEN = Reason.declare(230, "pubsub:not-taken", "No neighbour of the topic has taken custody of it.")
GONE = Reason.declare(231, "pubsub:gone", "The router of this node does not hold the message any more.")
MEET_FIRST = Reason.declare(232, "pubsub:meet-first", "No group of that name is shared here; a meeting comes first.")
"""Final, unlike `NOT_SHARED`: what is refused for now holds back all that its sender says later, and so the meeting."""
WITHHOLDS = Reason.declare(233, "pubsub:withholds", "It takes custody of messages and passes none of them on.")
NOT_AGREED = Reason.declare(
    234, "pubsub:not-agreed", "What it says of the groups it wants breaks the agreement by ranges."
)
NOT_COMPARED = Reason.declare(227, "pubsub:not-compared", "What it says of the messages it holds breaks negentropy V1.")
