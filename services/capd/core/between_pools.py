"""Messages between our own pools, in the bodies of unicasts (cddl/capd.cddl): one lists what it holds, the other asks.

    [15 CATCH_UP] → [16 HELD]     [17 WANT] → [18 BRING]     [16 HELD] and [19 SECRETS] are also sent unasked

A pool numbers the messages that it takes. CATCH_UP names the last number that its sender knows of; the HELD that
answers it names, in `upto`, the last number that it covers. A HELD about messages that were just taken has no `upto`.
BRING says how many of the ids in WANT it has handled, from the first on; the asker asks again for the rest.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.core.wire import shape
from router.core.wire.forms import MessageForm

from .message import ID_BYTES, SECRET_BYTES_MAX

HELD_IDS_MAX = 1024
BRING_MESSAGES_MAX = 256
BRING_BYTES = 1 << 18
"""Bytes of messages in one BRING; a longer message travels alone."""
SECRETS_MAX = 64
_MESSAGE_BYTES_MAX = 1_000_000
_NUMBER_MAX = (1 << 32) - 1


class CatchUp(Struct, frozen=True):
    """A request for the ids of messages that are held above the relay line, with numbers beyond `after`."""

    after: int


class Held(Struct, frozen=True):
    """Ids of messages above the relay line. `upto`: the last number that was looked at, None if the messages were just
    taken; `more`: whether there may be greater numbers."""

    ids: tuple[bytes, ...]
    upto: int | None = None
    more: bool = False


class Want(Struct, frozen=True):
    """A request for messages by their ids."""

    n: int
    ids: tuple[bytes, ...]


class Bring(Struct, frozen=True):
    """The answer to WANT: the messages among its first `done` ids that are held and may be passed on."""

    n: int
    done: int
    messages: tuple[bytes, ...]


class Secrets(Struct, frozen=True):
    """Secrets that have ended messages."""

    secrets: tuple[bytes, ...]


BetweenPools = CatchUp | Held | Want | Bring | Secrets


def encoded(value: BetweenPools) -> list[Any]:
    """Return a message as its type and its map."""
    match value:
        case CatchUp(after):
            return [15, {"after": after}]
        case Held(ids, upto, more):
            return [16, {"ids": list(ids), "more": more, **({} if upto is None else {"upto": upto})}]
        case Want(n, ids):
            return [17, {"n": n, "ids": list(ids)}]
        case Bring(n, done, messages):
            return [18, {"n": n, "done": done, "messages": list(messages)}]
        case Secrets(secrets):
            return [19, {"secrets": list(secrets)}]


def _ids(value: Any) -> tuple[bytes, ...]:
    return tuple(shape.octets(one, "an id", ID_BYTES) for one in shape.array(value, "ids", 0, HELD_IDS_MAX))


def _number(value: Any) -> int:
    return shape.uint(value, "n", _NUMBER_MAX)


def _catch_up(value: Any) -> CatchUp:
    return CatchUp(shape.uint(shape.fields(value, "CATCH_UP", ("after",))["after"], "after"))


def _held(value: Any) -> Held:
    found = shape.fields(value, "HELD", ("ids", "more"), ("upto",))
    upto = shape.uint(found["upto"], "upto") if "upto" in found else None
    return Held(_ids(found["ids"]), upto, shape.boolean(found["more"], "more"))


def _want(value: Any) -> Want:
    found = shape.fields(value, "WANT", ("n", "ids"))
    return Want(_number(found["n"]), _ids(found["ids"]))


def _bring(value: Any) -> Bring:
    found = shape.fields(value, "BRING", ("n", "done", "messages"))
    messages = shape.array(found["messages"], "messages", 0, BRING_MESSAGES_MAX)
    read = tuple(shape.octets(one, "a message", 0, _MESSAGE_BYTES_MAX) for one in messages)
    return Bring(_number(found["n"]), shape.uint(found["done"], "done", HELD_IDS_MAX), read)


def _secrets(value: Any) -> Secrets:
    found = shape.array(shape.fields(value, "SECRETS", ("secrets",))["secrets"], "secrets", 0, SECRETS_MAX)
    return Secrets(tuple(shape.octets(one, "a secret", 0, SECRET_BYTES_MAX) for one in found))


_SMALL_BYTES_MAX = 64
_IDS_BYTES_MAX = 64 + HELD_IDS_MAX * (ID_BYTES + 2)
FORMS: dict[int, MessageForm] = {
    15: MessageForm("CATCH_UP", _SMALL_BYTES_MAX, 3, _catch_up),
    16: MessageForm("HELD", _IDS_BYTES_MAX, 7 + HELD_IDS_MAX, _held),
    17: MessageForm("WANT", _IDS_BYTES_MAX, 5 + HELD_IDS_MAX, _want),
    18: MessageForm("BRING", _MESSAGE_BYTES_MAX + 4 * BRING_MESSAGES_MAX, 7 + BRING_MESSAGES_MAX, _bring),
    19: MessageForm("SECRETS", 64 + SECRETS_MAX * (SECRET_BYTES_MAX + 3), 3 + SECRETS_MAX, _secrets),
}
