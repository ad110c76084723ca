"""Messages in this router's own name: encoded, signed, and counted in the window of the link that they leave by."""

from __future__ import annotations

from collections import deque
from typing import Any

from router.core.neighbours.directory import Standing
from router.core.routing.effects import Pending, SendOwn
from router.core.routing.kernel import Said
from router.core.routing.links import Flight, Link
from router.core.wire.admin import Answer, Inquiry, encode_inquiry, with_number
from router.core.wire.control import JoinAck, LeaveAck, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import TO_ROUTER, TO_SERVICE, Hinted, encode_hint
from router.core.wire.lifetime import expiry_min
from router.core.wire.list_page import json_of
from router.core.wire.message import seal_unicast
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted, encode_wanted
from router.core.wire.redemption import AskTerms, Redeem, Redeemed, Terms, encode_redemption
from router.core.wire.whereabouts import AskWhereabouts, Whereabouts, encode_about_places

CONTROL_LIFE_S = 3600
SEALED_BYTES = 192
"""Bytes that a unicast has beyond its body, at most: its heads, two keys, a signature."""
UNSAID_MAX, UNSAID_BYTES_MAX = 1_024, 1 << 20
"""Most answers, questions and news to one app or service that wait until it settles what it was sent before, in number
and in bytes."""
WAITING = Answer | JoinAck | LeaveAck | Inquiry


class Speaker:
    """Signs with the router's key, and hands the message to the link.

    No answer to an app or service of this node is lost, and no question to a service: what does not fit waits until
    something is settled. Whoever asks waits for the answer, and answers carry no number by which a missing one could
    be told."""

    def __init__(self, key: SigningKey, pending: Pending) -> None:
        self._key = key
        self._pending = pending

    def say(self, link: Link, said: Said, now: Now, to: PublicKey | None = None) -> bool:
        """Send a control message of this router to a neighbour, or through it to `to`: never queued, so its ttl is 0.

        Nothing is signed that does not fit the window and its slack, because the neighbour settles nothing: answers,
        questions and news to an app or service wait; all else is dropped and this returns False. A JOIN is repeated by
        its sender if the answer is missing.
        """
        body = _body(link, said)
        if not self.has_room(link, len(body)):
            waits = isinstance(said, WAITING) and link.standing is Standing.LOCAL and self.may_answer(link)
            if waits:
                link.unsaid = link.unsaid or deque()
                link.unsaid.append(body)
            return waits
        self._send(link, to or PublicKey(link.key), body, now)
        return True

    def answer(self, link: Link, number: int | None, answer: Any, now: Now) -> None:
        """Answer a request with a JSON value or a page of a list, by its number if it has one."""
        text = json_of(answer)
        self.say(link, Answer((text if number is None else with_number(number, text)).encode()), now)

    def may_answer(self, link: Link) -> bool:
        """Whether an answer over this link would not be lost; what asks for one is refused otherwise."""
        if link.standing is not Standing.LOCAL:
            return self.has_room(link)
        return len(link.unsaid) < UNSAID_MAX and sum(map(len, link.unsaid)) < UNSAID_BYTES_MAX

    def settled(self, link: Link, now: Now) -> None:
        """Send the answers that waited, as far as there is room now that something was settled."""
        while link.unsaid and _fits(link, len(link.unsaid[0])):
            self._send(link, PublicKey(link.key), link.unsaid.popleft(), now)

    def _send(self, link: Link, to: PublicKey, body: bytes, now: Now) -> None:
        expiry = expiry_min(now.judged_s + CONTROL_LIFE_S)
        self._put(link, seal_unicast(self._key, to, body, ttl_s=0, expiry_min=expiry))

    def pass_on(self, link: Link, wire: bytes) -> bool:
        """Send a message to this router on to a neighbour as it is; return False if there is no room for it now."""
        has_room = not link.unsaid and link.outgoing.takes_control(len(wire))
        if has_room:
            self._put(link, wire)
        return has_room

    def _put(self, link: Link, wire: bytes) -> None:
        n = link.outgoing.send(1, len(wire))
        link.fly(Flight(n, None, 0, 1))
        self._pending.effects.append(SendOwn(link.id, wire))

    def has_room(self, link: Link, size: int = 0) -> bool:
        """Whether a body of that many bytes may be sent on the link now; asked before one is made at any cost."""
        return not link.unsaid and _fits(link, size)


def _fits(link: Link, size: int) -> bool:
    return link.outgoing.takes_control(size + SEALED_BYTES)


def _body(link: Link, said: Said) -> bytes:
    match said:
        case Answer() | Inquiry():
            return encode_inquiry(said)
        case Wanted():
            return encode_wanted(said)
        case Hinted():
            return encode_hint(said, TO_SERVICE if link.standing is Standing.LOCAL else TO_ROUTER)
        case Redeem() | Redeemed() | AskTerms() | Terms():
            return encode_redemption(said)
        case Whereabouts() | AskWhereabouts():
            return encode_about_places(said)
        case _:
            return encode_control(said)
