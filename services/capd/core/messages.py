"""Messages to and from a CAPD pool, in the bodies of unicasts (cddl/capd.cddl).

    [1 POST] → [2 POSTED]     [3 GET] [4 QUERY] → [5 FOUND] or [6 FOUND_IDS]     [7 WATCH] [8 UNWATCH] → [9 DONE]
    [10 RESCIND] → [11 RESCINDED]     [12 INFO] → [13 POOL]     [14 MATCH]     [15] … [19]: between_pools.py
    [20 POST_MANY] → [21 POSTED_MANY]

`n` is the asker's number, repeated in the answer. MATCH carries a message that matches a standing query, and is sent
unasked. Priorities are byte strings that hold IEEE doubles, big-endian.
"""

from __future__ import annotations

import struct
from typing import Any

from msgspec import Struct

from router.core.wire import shape
from router.core.wire.codec import encode
from router.core.wire.forms import MessageForm, read_form
from router.core.wire.reasons import REASON_MAX
from router.core.wire.text import TEXT_BYTES_MAX, clean

from .between_pools import FORMS as BETWEEN_FORMS
from .between_pools import BetweenPools, encoded
from .limits import Standing
from .lives import QUERY_S_MAX
from .message import ID_BYTES, SECRET_BYTES_MAX
from .pattern import KEY_BYTES, Pattern

MESSAGE_BYTES_MAX = 1_000_000
"""Most bytes of a CAPD message that travels in a unicast."""
PAGE_MESSAGES_MAX, PAGE_IDS_MAX = 256, 8192
PAGE_BYTES = 1 << 18
"""Most bytes of messages on a page; a longer message is a page by itself."""
POST_MESSAGES_MAX = 256
"""Most messages that are posted together; their bytes are those of one message at most."""
LIFE_S_MAX = QUERY_S_MAX
NOT_HELD = "the pool does not hold the message"
"""The answer to an operator who asks for the state of a message that the pool does not hold."""
_SMALL_BYTES_MAX = 1024
_NUMBER_MAX = (1 << 32) - 1
_STANDINGS = tuple(Standing)
_DOUBLE = struct.Struct(">d")
_OUTCOME_FIELDS = ("id", "text", "held")


class Post(Struct, frozen=True):
    """A request to take a message; its canonical form is stored."""

    n: int
    message: bytes


class PostAnswer(Struct, frozen=True):
    """The answer to POST. `result`: 0, or the number of the reason why the message was not taken; `id`: empty if the
    bytes are no message; `held`: the message's state if the pool held it already."""

    n: int
    result: int
    id: bytes = b""
    text: str = ""
    held: Standing | None = None


class PostMany(Struct, frozen=True):
    """A request to take messages, each as if it came alone, in one transaction."""

    n: int
    messages: tuple[bytes, ...]


class PostOutcome(Struct, frozen=True):
    """What became of one message of several, in the words of `PostAnswer`."""

    result: int
    id: bytes = b""
    text: str = ""
    held: Standing | None = None


class PostManyAnswer(Struct, frozen=True):
    """The answer to POST_MANY: an outcome for each message, in their order."""

    n: int
    outcomes: tuple[PostOutcome, ...]


class Get(Struct, frozen=True):
    """A request for one message by its id, in whatever state it is."""

    n: int
    id: bytes


class Query(Struct, frozen=True):
    """A request for served messages that match, or for their ids: after the first `start`, at most `limit`."""

    n: int
    pattern: Pattern
    ids: bool = False
    start: int = 0
    limit: int = PAGE_MESSAGES_MAX


class Found(Struct, frozen=True):
    """The answer to GET, and to QUERY for messages; `count`: the number of all matches."""

    n: int
    count: int
    messages: tuple[tuple[Standing, bytes], ...]


class FoundIds(Struct, frozen=True):
    """The answer to QUERY for ids."""

    n: int
    count: int
    ids: tuple[bytes, ...]


class Watch(Struct, frozen=True):
    """A request to send each new message that matches, for `life` seconds from now."""

    n: int
    pattern: Pattern
    life: int


class Unwatch(Struct, frozen=True):
    """A request to end the standing query with this pattern."""

    n: int
    pattern: Pattern


class Done(Struct, frozen=True):
    """The answer to WATCH and UNWATCH. `result`: 0, or the number of the reason for a refusal."""

    n: int
    result: int = 0
    text: str = ""


class Rescind(Struct, frozen=True):
    """A request to end all messages that carry the hash of this secret. If the pool holds none, `Done` says so."""

    n: int
    secret: bytes


class Rescinded(Struct, frozen=True):
    """The answer to RESCIND: the ids of the messages that it ended, at most `PAGE_IDS_MAX`."""

    n: int
    ids: tuple[bytes, ...]


class Info(Struct, frozen=True):
    """A request for the pool's size and lines."""

    n: int


class PoolInfo(Struct, frozen=True):
    """The answer to INFO."""

    n: int
    size: int
    count: int
    relay: float
    least: float
    highest: float


class Match(Struct, frozen=True):
    """A message that matches a standing query of the recipient, and its state when it came."""

    standing: Standing
    message: bytes


Request = Post | PostMany | Get | Query | Watch | Unwatch | Rescind | Info
Answer = PostAnswer | PostManyAnswer | Found | FoundIds | Done | Rescinded | PoolInfo
Message = Request | Answer | Match | BetweenPools


def encode_message(value: Message) -> bytes:
    """Return the BODY of a message; raise ValueError if the other end would refuse it."""
    body = encode(_encoded(value))
    decode_message(body)
    return body


def _encoded(value: Message) -> list[Any]:
    match value:
        case Post(n, message):
            return [1, {"n": n, "message": message}]
        case PostAnswer(n, result, own_id, text, held):
            return [2, {"n": n, **_outcome(result, own_id, text, held)}]
        case Get(n, own_id):
            return [3, {"n": n, "id": own_id}]
        case Query(n, pattern, ids, start, limit):
            return [4, {"n": n, **_pattern(pattern), "ids": ids, "start": start, "limit": limit}]
        case Found(n, count, messages):
            rows = [[_STANDINGS.index(standing), message] for standing, message in messages]
            return [5, {"n": n, "count": count, "messages": rows}]
        case FoundIds(n, count, ids):
            return [6, {"n": n, "count": count, "ids": list(ids)}]
        case Watch(n, pattern, life):
            return [7, {"n": n, **_pattern(pattern), "life": life}]
        case Unwatch(n, pattern):
            return [8, {"n": n, **_pattern(pattern)}]
        case Done(n, result, text):
            return [9, {"n": n, "result": result, **_said(text)}]
        case Rescind(n, secret):
            return [10, {"n": n, "secret": secret}]
        case Rescinded(n, ids):
            return [11, {"n": n, "ids": list(ids)}]
        case Info(n):
            return [12, {"n": n}]
        case PoolInfo(n, size, count):
            relay, least, highest = map(_DOUBLE.pack, (value.relay, value.least, value.highest))
            return [13, {"n": n, "size": size, "count": count, "relay": relay, "min": least, "max": highest}]
        case Match(standing, message):
            return [14, {"standing": _STANDINGS.index(standing), "message": message}]
        case PostMany(n, messages):
            return [20, {"n": n, "messages": list(messages)}]
        case PostManyAnswer(n, outcomes):
            outcome = [_outcome(one.result, one.id, one.text, one.held) for one in outcomes]
            return [21, {"n": n, "outcomes": outcome}]
        case _:
            return encoded(value)


def _outcome(result: int, own_id: bytes, text: str, held: Standing | None) -> dict[str, Any]:
    known = {} if held is None else {"held": _STANDINGS.index(held)}
    return {"result": result, **({"id": own_id} if own_id else {}), **_said(text), **known}


def _said(text: str) -> dict[str, str]:
    said = clean(text, TEXT_BYTES_MAX)
    return {"text": said} if said else {}


def _pattern(pattern: Pattern) -> dict[str, bytes]:
    return {"value": pattern.value, "mask": pattern.mask}


def decode_message(body: bytes) -> Message:
    """Return the message in the BODY of a unicast to or from a CAPD pool. Raise `Malformed`."""
    found: Message = read_form(body, "a CAPD pool", _FORMS)
    return found


def _number(found: dict[str, Any]) -> int:
    return shape.uint(found["n"], "n", _NUMBER_MAX)


def _read_pattern(found: dict[str, Any]) -> Pattern:
    value, mask = (shape.octets(found[name], name, KEY_BYTES) for name in ("value", "mask"))
    return Pattern(value, mask)


def _text(found: dict[str, Any]) -> str:
    return shape.text(found["text"], "text", TEXT_BYTES_MAX) if "text" in found else ""


def _ids(value: Any) -> tuple[bytes, ...]:
    return tuple(shape.octets(one, "an id", ID_BYTES) for one in shape.array(value, "ids", 0, PAGE_IDS_MAX))


def _standing(value: Any) -> Standing:
    return _STANDINGS[shape.uint(value, "standing", len(_STANDINGS) - 1)]


def _message(value: Any) -> bytes:
    return shape.octets(value, "message", 0, MESSAGE_BYTES_MAX)


def _post(value: Any) -> Post:
    found = shape.fields(value, "POST", ("n", "message"))
    return Post(_number(found), _message(found["message"]))


def _posted(value: Any) -> PostAnswer:
    found = shape.fields(value, "POSTED", ("n", "result"), _OUTCOME_FIELDS)
    one = _read_outcome(found)
    return PostAnswer(_number(found), one.result, one.id, one.text, one.held)


def _read_outcome(found: dict[str, Any]) -> PostOutcome:
    own_id = shape.octets(found["id"], "id", ID_BYTES) if "id" in found else b""
    held = _standing(found["held"]) if "held" in found else None
    return PostOutcome(shape.uint(found["result"], "result", REASON_MAX), own_id, _text(found), held)


def _post_many(value: Any) -> PostMany:
    found = shape.fields(value, "POST_MANY", ("n", "messages"))
    return PostMany(
        _number(found), tuple(_message(one) for one in shape.array(found["messages"], "messages", 1, POST_MESSAGES_MAX))
    )


def _posted_many(value: Any) -> PostManyAnswer:
    found = shape.fields(value, "POSTED_MANY", ("n", "outcomes"))
    outcomes = shape.array(found["outcomes"], "outcomes", 1, POST_MESSAGES_MAX)
    read = (_read_outcome(shape.fields(one, "an outcome", ("result",), _OUTCOME_FIELDS)) for one in outcomes)
    return PostManyAnswer(_number(found), tuple(read))


def _get(value: Any) -> Get:
    found = shape.fields(value, "GET", ("n", "id"))
    return Get(_number(found), shape.octets(found["id"], "id", ID_BYTES))


def _query(value: Any) -> Query:
    found = shape.fields(value, "QUERY", ("n", "value", "mask", "ids", "start", "limit"))
    start, limit = (shape.uint(found[name], name, _NUMBER_MAX) for name in ("start", "limit"))
    return Query(_number(found), _read_pattern(found), shape.boolean(found["ids"], "ids"), start, limit)


def _found(value: Any) -> Found:
    found = shape.fields(value, "FOUND", ("n", "count", "messages"))
    rows = [
        shape.array(one, "a message", 2, 2) for one in shape.array(found["messages"], "messages", 0, PAGE_MESSAGES_MAX)
    ]
    messages = tuple((_standing(standing), _message(message)) for standing, message in rows)
    return Found(_number(found), shape.uint(found["count"], "count", _NUMBER_MAX), messages)


def _found_ids(value: Any) -> FoundIds:
    found = shape.fields(value, "FOUND_IDS", ("n", "count", "ids"))
    return FoundIds(_number(found), shape.uint(found["count"], "count", _NUMBER_MAX), _ids(found["ids"]))


def _watch(value: Any) -> Watch:
    found = shape.fields(value, "WATCH", ("n", "value", "mask", "life"))
    return Watch(_number(found), _read_pattern(found), shape.uint(found["life"], "life", LIFE_S_MAX))


def _unwatch(value: Any) -> Unwatch:
    found = shape.fields(value, "UNWATCH", ("n", "value", "mask"))
    return Unwatch(_number(found), _read_pattern(found))


def _done(value: Any) -> Done:
    found = shape.fields(value, "DONE", ("n", "result"), ("text",))
    return Done(_number(found), shape.uint(found["result"], "result", REASON_MAX), _text(found))


def _rescind(value: Any) -> Rescind:
    found = shape.fields(value, "RESCIND", ("n", "secret"))
    return Rescind(_number(found), shape.octets(found["secret"], "secret", 0, SECRET_BYTES_MAX))


def _rescinded(value: Any) -> Rescinded:
    found = shape.fields(value, "RESCINDED", ("n", "ids"))
    return Rescinded(_number(found), _ids(found["ids"]))


def _info(value: Any) -> Info:
    return Info(_number(shape.fields(value, "INFO", ("n",))))


def _pool(value: Any) -> PoolInfo:
    found = shape.fields(value, "POOL", ("n", "size", "count", "relay", "min", "max"))
    size, count = shape.uint(found["size"], "size"), shape.uint(found["count"], "count", _NUMBER_MAX)
    lines = [_DOUBLE.unpack(shape.octets(found[name], name, 8))[0] for name in ("relay", "min", "max")]
    return PoolInfo(_number(found), size, count, *lines)


def _match(value: Any) -> Match:
    found = shape.fields(value, "MATCH", ("standing", "message"))
    return Match(_standing(found["standing"]), _message(found["message"]))


_ONE_MAX = MESSAGE_BYTES_MAX + 64
_IDS_BYTES_MAX = 64 + PAGE_IDS_MAX * (ID_BYTES + 2)
_OUTCOMES_BYTES_MAX = 64 + POST_MESSAGES_MAX * (ID_BYTES + TEXT_BYTES_MAX + 64)
_FORMS: dict[int, MessageForm] = {
    1: MessageForm("POST", _ONE_MAX, 5, _post),
    2: MessageForm("POSTED", _SMALL_BYTES_MAX, 11, _posted),
    3: MessageForm("GET", _SMALL_BYTES_MAX, 5, _get),
    4: MessageForm("QUERY", _SMALL_BYTES_MAX, 13, _query),
    5: MessageForm("FOUND", _ONE_MAX + 4 * PAGE_MESSAGES_MAX, 7 + 3 * PAGE_MESSAGES_MAX, _found),
    6: MessageForm("FOUND_IDS", _IDS_BYTES_MAX, 7 + PAGE_IDS_MAX, _found_ids),
    7: MessageForm("WATCH", _SMALL_BYTES_MAX, 9, _watch),
    8: MessageForm("UNWATCH", _SMALL_BYTES_MAX, 7, _unwatch),
    9: MessageForm("DONE", _SMALL_BYTES_MAX, 7, _done),
    10: MessageForm("RESCIND", _SMALL_BYTES_MAX, 5, _rescind),
    11: MessageForm("RESCINDED", _IDS_BYTES_MAX, 5 + PAGE_IDS_MAX, _rescinded),
    12: MessageForm("INFO", _SMALL_BYTES_MAX, 3, _info),
    13: MessageForm("POOL", _SMALL_BYTES_MAX, 13, _pool),
    14: MessageForm("MATCH", _ONE_MAX, 5, _match),
    20: MessageForm("POST_MANY", _ONE_MAX + 4 * POST_MESSAGES_MAX, 5 + POST_MESSAGES_MAX, _post_many),
    21: MessageForm("POSTED_MANY", _OUTCOMES_BYTES_MAX, 5 + 9 * POST_MESSAGES_MAX, _posted_many),
    **BETWEEN_FORMS,
}
