"""Check deeds when the rules return them, so that nothing enters a service's state that its router would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from router.core.log.events import EACH
from router.core.wire.admin import VALUE_BYTES_MAX
from router.core.wire.crypto import MessageId
from router.core.wire.errors import RouterError
from router.service.contract import Answer, LogEvent
from router.service.verbs.answer import as_json
from router.service.verbs.log_event import NotedEvent

EVENT_BYTES_MAX = 16 * 1024


class WrongDeed(RouterError):
    """A deed that cannot be carried out; the text says why and what to do."""


def event_of(note: LogEvent, declared: frozenset[str]) -> dict[str, Any]:
    """Return the event in the form kept until the node's log has it. Raises `WrongDeed`."""
    found: dict[str, Any] = {"event": note.event}
    ids = note.messages if note.message is None else (note.message, *note.messages)
    if ids:
        found["message"] = b"".join([one if type(one) is MessageId else MessageId(one) for one in ids]).hex()
    if note.reason is not None:
        found["reason"] = int(note.reason)
    if note.fields or note.each:
        found["fields"] = {**note.fields, **{EACH + name: _each(note, name, ids) for name in note.each}}
    if why := fault_of(found, declared):
        raise WrongDeed(f"it noted {why}")
    return found


def _each(note: LogEvent, name: str, ids: Sequence[MessageId]) -> str:
    values = note.each[name]
    joined = ",".join(map(str, values))
    if len(values) != len(ids) or joined.count(",") != max(0, len(values) - 1):
        text = f"it noted the event {note.event} of {len(ids)} messages with {len(values)} values of {name}"
        raise WrongDeed(f"{text}; note one without a comma for each message")
    return joined


def fault_of(event: dict[str, Any], declared: frozenset[str]) -> str:
    """Return why the node's log would refuse this event, "" if it would not."""
    named = f'the event "{event.get("event")}"'
    if event.get("event") not in declared:
        return f"{named}, which its events.py does not declare: it declares {', '.join(sorted(declared)) or 'none'}"
    try:
        text = msgspec.json.encode(event)
        msgspec.json.decode(text, type=NotedEvent)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        return f"{named} in a form that the log does not take: {error}"
    if len(text) > EVENT_BYTES_MAX:
        return f"{named} with {len(text)} bytes, where {EVENT_BYTES_MAX} are the limit: note less of it"
    return ""


def answer_of(answer: Answer) -> Answer:
    """Return the answer, or instead an error that names size and limit. Raises `WrongDeed` if it is no JSON."""
    try:
        size = len(as_json(answer.value).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongDeed(f"it answered an operator with something that is no JSON: {error}") from None
    if size <= VALUE_BYTES_MAX:
        return answer
    said = f"the service answered with {size} bytes, where {VALUE_BYTES_MAX} are the limit"
    return Answer(answer.number, {"error": f"{said}: ask it for a part, or let it answer in parts"})
