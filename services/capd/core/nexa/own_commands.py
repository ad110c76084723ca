"""Commands of our own, between our pools; a Nexa node ignores them, as it ignores every unknown command.

    capdmaskq → capdqreply     capdgetheld → capdheld     capdrescind

A masked query is a `capdq` with a value and a mask over the first 16 bytes of the data. `capdgetheld` asks for the ids
of the messages that a pool holds, since on the deployed wire nothing lists them to a new neighbour. `capdrescind`
carries the secrets that end messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from msgspec import Struct

from router.core.wire.codec import TooLarge
from services.capd.core.message import ID_BYTES, SECRET_BYTES_MAX
from services.capd.core.pattern import KEY_BYTES, Pattern
from services.capd.core.serialisation import Reader, size_head, vector

HELD_IDS_MAX = 2_000
SECRETS_MAX = 16
_QUERY, _GET_HELD, _U64 = struct.Struct("<IBII"), struct.Struct("<QI"), struct.Struct("<Q")


class MaskedQuery(Struct, frozen=True):
    """A query for messages or ids that match a pattern; `type` may hold `SUBSCRIBE`."""

    cookie: int
    type: int
    start: int
    quantity: int
    pattern: Pattern


class GetHeld(Struct, frozen=True):
    """A request for the ids of held messages that may be passed on: with numbers beyond `after`, at most `quantity`."""

    after: int
    quantity: int = HELD_IDS_MAX


class HeldIds(Struct, frozen=True):
    """Ids of messages that are held. `after`: the number to continue with, 0 if there are no more."""

    after: int
    ids: tuple[bytes, ...]


class RescindSecrets(Struct, frozen=True):
    """Secrets, each of which ends the messages that carry its hash."""

    secrets: tuple[bytes, ...]


OwnCommand = MaskedQuery | GetHeld | HeldIds | RescindSecrets


def encode_own(value: OwnCommand) -> tuple[str, bytes]:
    """Return the name of a command and its payload."""
    match value:
        case MaskedQuery(cookie, kind, start, quantity, pattern):
            return "capdmaskq", _QUERY.pack(cookie, kind, start, quantity) + pattern.value + pattern.mask
        case GetHeld(after, quantity):
            return "capdgetheld", _GET_HELD.pack(after, quantity)
        case HeldIds(after, ids):
            return "capdheld", _U64.pack(after) + size_head(len(ids)) + b"".join(ids)
        case RescindSecrets(secrets):
            return "capdrescind", size_head(len(secrets)) + b"".join(map(vector, secrets))


def _masked_query(reader: Reader) -> MaskedQuery:
    cookie, kind, start, quantity = _QUERY.unpack(reader.take(_QUERY.size, "the query"))
    value, mask = reader.take(KEY_BYTES, "the value"), reader.take(KEY_BYTES, "the mask")
    return MaskedQuery(cookie, kind, start, quantity, Pattern(value, mask))


def _held(reader: Reader) -> HeldIds:
    after = reader.uint(8, "the number")
    count = _count(reader, "the list of ids", HELD_IDS_MAX)
    return HeldIds(after, tuple(reader.take(ID_BYTES, "an id") for _ in range(count)))


def _rescind(reader: Reader) -> RescindSecrets:
    count = _count(reader, "the list of secrets", SECRETS_MAX)
    return RescindSecrets(tuple(reader.vector("a secret", SECRET_BYTES_MAX) for _ in range(count)))


def _count(reader: Reader, name: str, most: int) -> int:
    count = reader.size(name)
    if count > most:
        raise TooLarge(f"{name} counts {count}; the limit is {most}")
    return count


OWN_READERS: dict[str, Callable[[Reader], OwnCommand]] = {
    "capdmaskq": _masked_query,
    "capdgetheld": lambda reader: GetHeld(*_GET_HELD.unpack(reader.take(_GET_HELD.size, "the request"))),
    "capdheld": _held,
    "capdrescind": _rescind,
}
