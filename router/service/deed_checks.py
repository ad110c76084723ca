"""Check deeds when the rules return them: each field has its type, and what it names exists.

So nothing enters a service's state that cannot be carried out, or that its router would refuse, and the event that led
to a wrong deed is the one that is blamed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import msgspec

from router.core.log.events import EACH
from router.core.wire.admin import VALUE_BYTES_MAX
from router.core.wire.crypto import MessageId
from router.core.wire.errors import RouterError
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.reasons import Reason, by_word
from router.service import contract as c
from router.service.contract import Answer, LogEvent
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.verbs.answer import as_json
from router.service.verbs.log_event import NotedEvent
from router.service.verbs.verb import Request

EVENT_BYTES_MAX = 16 * 1024
KEY_BYTES_MAX = 511
"""The longest key of a service's state: what LMDB allows."""
QUESTIONS_MAX = 1_000
"""Most questions that wait for an answer; the node itself waits for fewer. An answer to an older one is not judged."""
DOORS_MAX = 1_000
"""Most doors that rules may name by `Connect` besides those that they open."""
SHOWN_CHARS_MAX = 60
STREAMS = ("tcp", "unix")
"""Schemes of doors for streams."""
_HOSTS = frozenset(
    one
    for words in (c, d, o)
    for one in vars(words).values()
    if isinstance(one, type) and issubclass(one, c.Deed) and one is not c.Deed and not issubclass(one, Request)
)
"""The deeds that a host carries out itself; all others are requests to its router."""
_FORMS_OF_THEIR_OWN = frozenset((c.LogEvent, o.Advertise))
"""Deeds that are judged elsewhere: their forms say more than types do."""
_BYTES = (bytes, bytearray, memoryview)


class WrongDeed(RouterError):
    """A deed that cannot be carried out; the text says why and what to do."""


class DeedChecks:
    """Judges the deeds of one service. `doors`: the URLs of its doors, by name; `doubt` is told of a deed that its
    router will not carry out, with the field and the range."""

    def __init__(
        self, doors: Mapping[str, str] = {}, doubt: Callable[[c.Deed, Exception], None] = lambda deed, why: None
    ) -> None:
        self._doors = dict(doors)
        self._doubt = doubt
        self._connect_doors = 0
        self._asked: dict[int, bool] = {}  # number of a question: whether it was answered

    def __repr__(self) -> str:
        return f"<checks of deeds: {len(self._doors)} doors, {len(self._asked)} questions>"

    def asked(self, number: int) -> None:
        """Record a question, which may then be answered."""
        self._asked[number] = False
        if len(self._asked) > QUESTIONS_MAX:
            del self._asked[next(iter(self._asked))]

    def answered(self, number: int) -> None:
        """Record that a question was answered."""
        self._asked[number] = True

    def unanswered(self, number: int) -> None:
        """Record that the answer to a question is not given after all."""
        self._asked[number] = False

    def judge(self, deed: object, *, hears_message: bool) -> c.Deed:
        """Return the deed as it is to be carried out; raise `WrongDeed`. `hears_message`: a message is being heard."""
        if type(deed) is c.Put:  # as most are
            check_put(deed)
            return deed
        if type(deed) is c.Write and _has_usual_types(deed) and deed.door in self._doors:
            return deed
        _check_kind(deed)
        assert isinstance(deed, c.Deed)
        if type(deed) in _FORMS_OF_THEIR_OWN:
            return deed
        if (beyond := _check_types(deed)) is not None:
            self._doubt(deed, beyond)
        self._check_its_door(deed)
        match deed:
            case c.Send(ttl_s=ttl_s) | c.Publish(ttl_s=ttl_s) if not 0 <= ttl_s <= UINT32_MAX:
                raise _wrong(deed, "ttl_s", f"{ttl_s} is none, where 0 to {UINT32_MAX} seconds are allowed")
            case c.Publish(once=True, until_s=None):
                raise _wrong(deed, "until_s", "it is None, and what is published once is valid until a time; give it")
            case c.Wake(at_s) if at_s != at_s:
                raise _wrong(deed, "at_s", "it is no number")
            case c.Refuse(_, text):
                if not hears_message:
                    said = "it returned Refuse without a message to refuse"
                    raise WrongDeed(f"{said}; return it when it hears the message")
                return c.Refuse(reason_of(deed), text)
            case c.HandOver(ip=ip) if ip:
                _check_ip(deed)
            case Answer():
                self._check_question(deed)
                return answer_of(deed)
            case o.Attest():
                try:
                    deed.signed()
                except ValueError as error:
                    raise _wrong(deed, "label", str(error)) from None
        return deed

    def _check_its_door(self, deed: c.Deed) -> None:
        match deed:
            case c.Write(door):
                self._check_door(deed, door, ())
            case c.HandOver(door) | c.MarkKnown(door) | c.KeepOpen(door):
                self._check_door(deed, door, STREAMS)
            case d.UseInterfaces(door) | d.WriteOnClose(door):
                self._check_door(deed, door, ("multicast",))
            case c.Connect(door):
                self._name_door(deed, door)
                self._check_door(deed, door, STREAMS)

    def _check_door(self, deed: object, door: str, schemes: tuple[str, ...]) -> None:
        """Raise `WrongDeed` if there is no such door, or if it is of none of these kinds; any will do if none is
        named."""
        if door not in self._doors:
            known = ", ".join(f'"{one}"' for one in self._doors) or "none"
            raise _wrong(deed, "door", f'it has no door "{door[:SHOWN_CHARS_MAX]}"; its doors are {known}')
        scheme = self._doors[door].partition(":")[0]
        if scheme and schemes and scheme not in schemes:
            kinds = "streams" if schemes is STREAMS else "multicast"
            raise _wrong(deed, "door", f'its door "{door}" is one of {scheme}, and this is for doors of {kinds}')

    def _name_door(self, deed: c.Connect, door: str) -> None:
        if door in self._doors:
            return
        if self._connect_doors >= DOORS_MAX:
            raise _wrong(deed, "door", f"{DOORS_MAX} doors have been named so; use one of them again")
        self._connect_doors += 1
        self._doors[door] = ""

    def _check_question(self, deed: Answer) -> None:
        oldest = next(iter(self._asked), 0)
        if self._asked.get(deed.number, deed.number >= oldest):
            why = "was answered already" if deed.number in self._asked else "was not asked"
            raise _wrong(deed, "number", f"question {deed.number} {why}; answer each with its own number, once")
        if deed.number in self._asked:
            self.answered(deed.number)


def _check_ip(deed: c.HandOver) -> None:
    try:
        ip_address(deed.ip)
    except ValueError:
        raise _wrong(deed, "ip", f'"{deed.ip[:SHOWN_CHARS_MAX]}" is no IP address') from None


def check_put(deed: c.Put) -> None:
    """Raise `WrongDeed` if a state cannot keep this."""
    key, value = deed.key, deed.value
    if type(key) is not bytes or not (type(value) is bytes or value is None) or type(deed.secret) is not bool:
        _check_types(deed)
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise _wrong(deed, "key", f"it has {len(deed.key)} bytes, where 1 to {KEY_BYTES_MAX} are allowed")


def _has_usual_types(deed: c.Write) -> bool:
    return type(deed.data) is bytes and type(deed.peer) is str and type(deed.door) is str


def _check_kind(deed: object) -> None:
    if type(deed) in _HOSTS or isinstance(deed, Request):
        return
    said = f"it returned {_shown(deed)} among its deeds"
    raise WrongDeed(f"{said}; return a list of deeds as router/service/contract.py defines them")


def _shown(value: object) -> str:
    """Return a value that is no deed as an error shows it: by its class alone, unless that is one of Python's own whose
    text cannot fail or be without end."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__name__[:SHOWN_CHARS_MAX]} itself"
    if kind in (str, bytes):
        assert isinstance(value, str | bytes)
        text = repr(value[:SHOWN_CHARS_MAX])
        return f"{text[:SHOWN_CHARS_MAX]}{'…' if len(value) > SHOWN_CHARS_MAX else ''}, of type {kind.__name__},"
    if value is None or value is True or value is False:
        return f"{value}"
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"something of type {name[:SHOWN_CHARS_MAX]}"


def _check_types(deed: Any) -> WrongDeed | None:
    """Raise `WrongDeed` for a field of a wrong type; return it for one beyond the range of a request to the router,
    which says itself what it takes."""
    kind = type(deed)
    for name in kind.__struct_fields__:
        if isinstance(value := getattr(deed, name), str) and not value.isascii() and not _travels(value):
            raise _wrong(deed, name, "it has half of a character (a surrogate), which no file or link can hold")
    try:
        msgspec.convert({name: getattr(deed, name) for name in kind.__struct_fields__}, kind, builtin_types=_BYTES)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$.")
        expected, got, found = what.replace("`", "").partition(", got ")
        name = path.rstrip("`").partition(".")[0].partition("[")[0]
        if not got and kind not in _HOSTS:
            return _wrong(deed, name, f"{expected[:1].lower()}{expected[1:]}")
        remedy = ": give key.hex()" if isinstance(getattr(deed, name, None), bytes) and "str" in expected else ""
        raise _wrong(deed, name, f"{expected[:1].lower()}{expected[1:]}{got}{found}{remedy}") from None
    return None


def _travels(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(deed: object, name: str, why: str) -> WrongDeed:
    return WrongDeed(f"it returned {type(deed).__name__} with a wrong {name}: {why}")


def reason_of(deed: c.Refuse) -> Reason:
    """Return the reason of a refusal, which rules may name by its word. Raises `WrongDeed` if there is none."""
    if isinstance(deed.reason, Reason):
        return deed.reason
    if (reason := by_word(deed.reason)) is None:
        said = f'no reason has the word "{deed.reason[:SHOWN_CHARS_MAX]}"'
        raise _wrong(deed, "reason", f"{said}; declare it in reasons.py, or use one of the router's")
    return reason


def event_of(note: LogEvent, declared: frozenset[str]) -> dict[str, Any]:
    """Return the event in the form kept until the node's log has it. Raises `WrongDeed`."""
    try:
        found = _as_kept(note)
    except (TypeError, ValueError, AttributeError) as error:
        raise WrongDeed(f'it noted the event "{note.event}" with a field of a wrong type: {error}') from None
    if why := fault_of(found, declared):
        raise WrongDeed(f"it noted {why}")
    return found


def _as_kept(note: LogEvent) -> dict[str, Any]:
    found: dict[str, Any] = {"event": note.event}
    ids = note.messages if note.message is None else (note.message, *note.messages)
    if ids:
        found["message"] = b"".join([one if type(one) is MessageId else MessageId(one) for one in ids]).hex()
    if note.reason is not None:
        found["reason"] = int(note.reason)
    if note.fields or note.each:
        found["fields"] = {**note.fields, **{EACH + name: _each(note, name, ids) for name in note.each}}
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
