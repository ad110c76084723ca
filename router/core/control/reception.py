"""The reception of messages to this router itself: which part hears each of them, by the tables that the parts state.

A unicast to a router is heard by the type of its body, a request of a service by its verb, an operator's order by its
word (specification, "JOIN & LEAVE messages"; R-C4, R-C10, R-C15, R-C26).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from router.core.neighbours.advertisements import Advertised
from router.core.neighbours.directory import Standing
from router.core.routing.intake import ArrivedMessage
from router.core.routing.kernel import Kernel, Said
from router.core.routing.links import Link
from router.core.wire.admin import (
    ASK_BYTES_MAX,
    SERVICE_BYTES_MAX,
    Answer,
    Inquiry,
    decode_inquiry,
    is_inquiry,
    without_number,
)
from router.core.wire.codec import Malformed
from router.core.wire.control import CARRIED, UnknownControl, decode_control
from router.core.wire.crypto import InvalidKey
from router.core.wire.errors import cause_of
from router.core.wire.hint import TO_ROUTER, decode_hint
from router.core.wire.list_page import json_of
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.redemption import decode_redemption, is_redemption
from router.core.wire.whereabouts import decode_about_places, is_about_places
from router.service.verbs.verb import WRONG_ARGUMENT, Request, VerbFault, place_of

from .addressed import ADVERTISED, body_of, kind_in_group, out_of_place
from .introductions import Introductions
from .part import Part, Refused
from .part_calls import failed_place
from .questions import AwaitedAnswers
from .verb_tables import table_faults


class Verb(NamedTuple):
    """A request that is heard, and who carries it out."""

    kind: type[Request]
    part: type[Part]
    method: Callable[..., dict[str, Any] | None]


NO_ROOM = Reason.RATE_LIMITED, "the answer has no room: settle what this router has sent to you, and ask again"


class Reception:
    """Passes each message to the part that hears it. Raises `VerbFault` if two parts hear the same, or a verb has a
    form that cannot be heard."""

    def __init__(
        self, kernel: Kernel, questions: AwaitedAnswers, introductions: Introductions, parts: Iterable[Part]
    ) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._speaker = kernel.speaker
        self._questions = questions
        self._introductions = introductions
        self._hears: dict[type, Callable[[Link, Any, Now], Refused]] = {}
        self._orders: dict[str, tuple[type[Part], Callable[[str, Now], Any]]] = {}
        self._verbs: dict[str, Verb] = {}
        parts = tuple(parts)
        for fault in table_faults([type(part) for part in parts]):
            raise VerbFault(fault)
        for part in parts:
            self._read_tables(part)

    def __repr__(self) -> str:
        return f"<reception of {len(self._hears)} bodies, {len(self._verbs)} verbs and {len(self._orders)} orders>"

    def _read_tables(self, part: Part) -> None:
        for kind, method in part.HEARS.items():
            if issubclass(kind, Request):
                self._verbs[kind.WORD] = Verb(kind, type(part), method.__get__(part))
            else:
                self._hears[kind] = method.__get__(part)
        for word, method in part.ORDERS.items():
            self._orders[word] = type(part), method.__get__(part)

    @property
    def words(self) -> frozenset[str]:
        """Return the words of the verbs and orders that are heard."""
        return frozenset((*self._verbs, *self._orders))

    def judge(self, link: Link, row: ArrivedMessage, data: bytes) -> Refused:
        """Return why a message for this router is refused before it is verified, or None."""
        if row.head.kind == MULTICAST and kind_in_group(self._directory, link, row, data) is None:
            return Reason.NO_SUBSCRIBERS, ""
        most = SERVICE_BYTES_MAX if link.key in self._directory.services else ASK_BYTES_MAX
        is_awaited = self._introductions.awaits(link) or self._questions.awaits(link.key)
        return out_of_place(link, row, data, is_awaited=is_awaited, ask_bytes_max=most)

    def overhear(self, link: Link, row: ArrivedMessage, data: bytes, now: Now) -> None:
        """Handle a multicast as a subscriber of the groups of this node's services; other subscribers get it as
        well."""
        if self.judge(link, row, data) is None:
            self.hear(link, row, data, now)

    def hear(self, link: Link, row: ArrivedMessage, data: bytes, now: Now) -> Refused:
        """Handle a message for this router that passed `judge`; return why it is refused, or None."""
        start, end = body_of(row, data)
        body = data[start:end]
        if row.head.kind == MULTICAST:
            kind = kind_in_group(self._directory, link, row, data)
            if kind == ADVERTISED:
                return self._hear(link, Advertised(link.key, body), now)
            if kind is None:
                return Reason.NO_SUBSCRIBERS, ""
        if body[:2] == CARRIED:
            return None  # the carried message is judged separately, together with its carrier
        try:
            said = _read(body)
        except UnknownControl as error:
            return Reason.UNSUPPORTED, str(error)
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        if isinstance(said, Answer) and self._introductions.awaits(link):
            self._introductions.answered(link, data[row.start : row.end], row.head.expiry_min, now)
            return None
        if isinstance(said, Inquiry) and not self._speaker.may_answer(link):
            return NO_ROOM
        if isinstance(said, Inquiry):
            if said.ask in self._verbs:
                return self._request(link, said, now)
            if link.owner and link.standing is Standing.LOCAL and said.ask in self._orders:
                self._order(link, said, now)
                return None
        return self._hear(link, said, now)

    def _hear(self, link: Link, said: Said | Advertised, now: Now) -> Refused:
        """Pass a body on; acks and reports that no part hears need no action."""
        method = self._hears.get(type(said))
        return None if method is None else method(link, said, now)

    def _request(self, link: Link, inquiry: Inquiry, now: Now) -> Refused:
        """Carry out a request of a service, or of an app if the verb is for them as well; return why it is refused.

        It is answered once what follows from it is committed."""
        verb = self._verbs[inquiry.ask]
        kind = verb.kind
        number, _ = without_number(inquiry.argument)
        if kind.OF_APPS and link.standing is not Standing.LOCAL:
            return Reason.NOT_AUTHORISED, f"only services and apps of this node may say {kind.WORD}"
        if not kind.OF_APPS and link.key not in self._directory.services:
            return Reason.NOT_AUTHORISED, f"only services that node.services names may say {kind.WORD}"
        if kind.ROLES and not any(self._directory.has_role(link.key, role) for role in kind.ROLES):
            roles = " or ".join(f'"{role}"' for role in sorted(kind.ROLES))
            answer: dict[str, Any] | None = {"error": f"only the service with the role {roles} may say {kind.WORD}"}
        else:
            answer = self._carried_out(verb, link, inquiry, now)
        if answer is not None:
            self._speaker.answer(link, number, as_answer(verb, answer), now)
        return None

    def _carried_out(self, verb: Verb, link: Link, inquiry: Inquiry, now: Now) -> dict[str, Any] | None:
        """Return the answer of the part; an error if it failed before it decided anything. Raise `VerbFault` if it
        failed later: what is decided by half must not be committed."""
        before = self._decided(link)
        number, argument = without_number(inquiry.argument)
        try:
            more = [number] if verb.kind.ANSWERED_LATER else []
            answer = verb.method(link, verb.kind.from_argument(argument), now, *more)
        except Exception as error:  # it may be somebody else's part
            has_decided = self._decided(link) != before
            if isinstance(error, (*WRONG_ARGUMENT, InvalidKey)) and not has_decided:
                return {"error": f"{verb.kind.WORD}: {str(error)[:200]}"}
            return self._failed(place_of(verb.kind), verb.part, error, has_decided=has_decided)
        if answer is None and not verb.kind.ANSWERED_LATER:
            said = f"{place_of(verb.part)} answered {place_of(verb.kind)} with nothing; return a JSON object, or say"
            return {"error": f"{said} ANSWERED_LATER in the verb"}
        return answer

    @staticmethod
    def _failed(what: str, part: type[Part], error: Exception, *, has_decided: bool) -> dict[str, Any]:
        """Return the answer that names the part, its file and line, and the cause; raise `VerbFault` if it has decided
        something before it failed."""
        said = f"{failed_place(part, error)} failed on {what}: {cause_of(error)}"
        if has_decided:
            raise VerbFault(f"{said}; it had decided something before, so the node ends: mend that file") from error
        return {"error": said}

    def _decided(self, link: Link) -> tuple[object, ...]:
        """Return a value that changes with whatever parts decide together."""
        pending = self._kernel.pending
        changes = [len(getattr(pending.changes, name)) for name in pending.changes.__slots__]
        return len(pending.effects), len(link.unsaid), changes, self._kernel.revision()

    def _order(self, link: Link, order: Inquiry, now: Now) -> None:
        """Carry out an order of the operator, and answer it once that is committed."""
        part, method = self._orders[order.ask]
        before = self._decided(link)
        number, argument = without_number(order.argument)
        try:
            answer = method(argument, now)
            json_of(answer)
        except Exception as error:  # it may be somebody else's part
            has_decided = self._decided(link) != before
            if isinstance(error, ValueError) and not has_decided:  # also msgspec's: the argument does not fit
                answer = {"error": str(error)[:400]}
            else:
                answer = self._failed(f'the order "{order.ask}"', part, error, has_decided=has_decided)
        self._speaker.answer(link, number, answer, now)


def as_answer(verb: Verb, answer: object) -> dict[str, Any]:
    """Return the answer of a part; an error instead if it is no JSON object."""
    try:
        json.dumps(answer)
        why = f"something of type {type(answer).__name__}"
    except (TypeError, ValueError, RecursionError) as error:
        why = f"what JSON does not have ({cause_of(error)})"
    else:
        if isinstance(answer, dict):
            return answer
    said = f"{place_of(verb.part)} answered {place_of(verb.kind)} with {why}; return a JSON object"
    return {"error": said}


def _read(body: bytes) -> Said:
    """Return the value of a body; raise `Malformed` or `UnknownControl`."""
    if is_redemption(body):
        return decode_redemption(body)
    if body[:2] == TO_ROUTER:
        return decode_hint(body)
    if is_about_places(body):
        return decode_about_places(body)
    return decode_inquiry(body, SERVICE_BYTES_MAX) if is_inquiry(body) else decode_control(body)
