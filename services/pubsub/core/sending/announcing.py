"""Announcing: HAVE, the ids of large messages in place of the messages (R-C34).

Neighbours on the ring get a large message itself, random ones its id; those that lack it then ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.core.wire.crypto import MessageId
from router.service import contract as c
from services.pubsub.core.known import Known, Neighbour, Topic
from services.pubsub.core.messages import IDS_MAX, Have, encode_message
from services.pubsub.core.sending.forwarding import Announce

TTL_S = 60
TAG = "have"
"""The tag of messages whose end is not logged for the operator: the ring brings the message in any case."""


class Announcing:
    """Writes HAVE, and finds the topic of a HAVE."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def __repr__(self) -> str:
        return f"<announcing in {self._known!r}>"

    def announce(self, announced: Iterable[Announce]) -> list[c.Deed]:
        """Return the messages to each router: one HAVE a topic for all ids, if the topic is shared with that router."""
        ids: dict[tuple[Neighbour, bytes], list[MessageId]] = {}
        for id, group, to in announced:
            topic = self._known.topics.get(group)
            if topic is not None and (t := topic.t.get(to.router)) is not None:
                ids.setdefault((to, t), []).append(id)
        return [
            c.Send(to.service, encode_message(Have(t, tuple(of[at : at + IDS_MAX]))), TTL_S, to.router, TAG)
            for (to, t), of in ids.items()
            for at in range(0, len(of), IDS_MAX)
        ]

    def topic_of(self, message: c.Message, said: Have) -> Topic | None:
        """Return the topic of a HAVE; None if no topic of that name is shared with the router that sent it."""
        return None if message.via is None else self._known.topic(message.via, said.t)
