"""What is said over HTTP, in JSON, with the names of the reference: bytes in hexadecimal digits, times as Unix
seconds, ids as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from router.core.wire.codec import Malformed

from ..limits import Standing
from ..message import NEVER, NO_HASH, CapdMessage, shown_id
from ..pattern import Pattern
from ..priority import LIFE_S
from ..view import number

RELAY_S = 300
UINT32_MAX, UINT53_MAX = (1 << 32) - 1, (1 << 53) - 1
"""JSON's numbers are exact up to the second."""

Hex = Annotated[str, Meta(pattern=r"^([0-9A-Fa-f]{2})*$", description="Bytes in hexadecimal digits.")]
Hash = Annotated[
    str, Meta(pattern=r"^[0-9A-Fa-f]{64}$", description="An id as people see it: the zeros of its work first.")
]
Seconds = Annotated[int, Meta(ge=0, le=UINT53_MAX)]
Expiration = Annotated[int, Meta(ge=1, le=NEVER - 1, description="Seconds after `created`; absent: never.")]
RescindHash = Annotated[
    str, Meta(pattern=r"^[0-9A-Fa-f]{40}$", description="RIPEMD160(SHA256(secret)); absent: it cannot be rescinded.")
]


class SolvedMessage(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A message whose work is done."""

    data: Hex
    created: Seconds
    difficulty_bits: Annotated[int, Meta(ge=0, le=UINT32_MAX)] = msgspec.field(name="difficultyBits")
    nonce: Hex
    expiration: Expiration | None = None
    rescind_hash: RescindHash | None = msgspec.field(default=None, name="rescindHash")

    def message(self) -> CapdMessage:
        """Return the message."""
        return CapdMessage(
            bytes.fromhex(self.data),
            self.created,
            self.difficulty_bits,
            bytes.fromhex(self.nonce),
            NEVER if self.expiration is None else self.expiration,
            NO_HASH if self.rescind_hash is None else bytes.fromhex(self.rescind_hash),
        )


class UnsolvedMessage(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A message whose work the node is to do: it is passed on for `relayFor` seconds."""

    data: Hex
    relay_for: Annotated[int, Meta(ge=1, lt=LIFE_S)] = msgspec.field(default=RELAY_S, name="relayFor")
    expiration: Expiration | None = None
    rescind_hash: RescindHash | None = msgspec.field(default=None, name="rescindHash")


class Secret(Struct, frozen=True, forbid_unknown_fields=True):
    """What rescinds a message."""

    secret: Annotated[str, Meta(pattern=r"^([0-9A-Fa-f]{2})*$", max_length=1040)]


class ShownMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of the pool. `state`: relayed, local, faded, expired or rescinded; `size`: what it counts for."""

    hash: Hash
    created: int
    difficulty_bits: int = msgspec.field(name="difficultyBits")
    priority: float | str
    initial_priority: float | str = msgspec.field(name="initialPriority")
    pow_target: str = msgspec.field(name="powTarget")
    nonce: Hex
    size: int
    data: Hex
    state: str
    expiration: int | None = None
    rescind_hash: str | None = msgspec.field(default=None, name="rescindHash")


class PostResult(Struct, frozen=True, kw_only=True):
    """What became of a post. `held`: whether the pool held the message already; `state`: how it stands."""

    hash: Hash
    held: bool
    state: str | None = None


class MessagePage(Struct, frozen=True):
    """A page of matches, the newest first; `count`: how many match in all."""

    count: int
    messages: list[ShownMessage]


class IdPage(Struct, frozen=True):
    """A page of the ids of matches, the newest first; `count`: how many match in all."""

    count: int
    hashes: list[Hash]


class RescindedMessages(Struct, frozen=True):
    """The messages that this secret has ended now; none, if they had ended before."""

    rescinded: list[Hash]


class PoolState(Struct, frozen=True, kw_only=True):
    """The pool's size, its lines, and whether the node solves messages."""

    size: int
    count: int
    relay_priority: float | str = msgspec.field(name="relayPriority")
    min_priority: float | str = msgspec.field(name="minPriority")
    max_priority: float | str = msgspec.field(name="maxPriority")
    data_bytes_max: int = msgspec.field(name="dataBytesMax")
    solves: bool


class BadRequest(ValueError):
    """Raised for a request that cannot be understood; the text says why and what to write instead."""


def read_body(body: bytes, *kinds: type[Any]) -> Any:
    """Return the body as the first of these types that it can be; of several, which one is said by its fields. Raise
    `BadRequest`."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    kind = kinds[0]
    if len(kinds) > 1 and isinstance(value, Mapping) and not {"nonce", "difficultyBits", "created"} & value.keys():
        kind = kinds[1]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body is wrong: {error}") from None


def shown(message: CapdMessage, standing: Standing, now_s: int) -> dict[str, Any]:
    """Return a message as it is sent, with its priority at a Unix second."""
    value = ShownMessage(
        hash=shown_id(message.own_id()),
        created=message.create_time,
        difficulty_bits=message.difficulty_bits,
        priority=number(message.priority(now_s)),
        initial_priority=number(message.initial_priority),
        pow_target=f"{message.target:064x}",
        nonce=message.nonce.hex(),
        size=message.counted_bytes,
        data=message.data.hex(),
        state=standing.value,
        expiration=None if message.expiration == NEVER else message.expiration,
        rescind_hash=None if message.rescind_hash == NO_HASH else message.rescind_hash.hex(),
    )
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def id_of(text: str) -> bytes:
    """Return an id as it is sent. Raise `BadRequest`."""
    found = _hex(text, "the hash of a message")
    if len(found) != 32:
        raise BadRequest(f"the hash of a message has {len(found)} bytes instead of 32, as 64 hexadecimal digits")
    return found[::-1]


def pattern_of(parameters: Mapping[str, str]) -> Pattern:
    """Return the pattern of `prefix`, or of `value` and `mask`; with none of them, that of any data. Raise
    `BadRequest`."""
    if "prefix" in parameters and ("value" in parameters or "mask" in parameters):
        raise BadRequest("prefix stands alone; give it, or value and mask")
    if ("value" in parameters) != ("mask" in parameters):
        raise BadRequest("value and mask go together; give both, of the same length, or prefix")
    try:
        if "value" in parameters:
            return Pattern.of(_hex(parameters["value"], "value"), _hex(parameters["mask"], "mask"))
        return Pattern.prefix(_hex(parameters.get("prefix", ""), "prefix"))
    except Malformed as error:
        raise BadRequest(str(error)) from None


def count_of(parameters: Mapping[str, str], name: str, default: int, most: int, least: int = 0) -> int:
    """Return a whole number among the parameters. Raise `BadRequest`."""
    text = parameters.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= most):
        raise BadRequest(f"{name} is a whole number from {least} to {most}")
    return int(text)


def flag_of(parameters: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter is set to true. Raise `BadRequest`."""
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise BadRequest(f"{name} is true or false")
    return text == "true"


def _hex(text: str, name: str) -> bytes:
    try:
        if not text.isascii() or " " in text:
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest(f"{name} is written in hexadecimal digits, two for each byte") from None
