"""Link items: what two neighbours say to each other beside the messages they pass on (TYPE 2-15).

    [2 {…}] hello      [3 signature] proof    [4 n] settled         [5 k reason ?text] refused
    [6 t0] ping        [7 t0 t1 t2 ?head] pong                      [8 reason ?text] goodbye
    [9 id [+ outcome]] outcome                [10 group count first last reason] missed
    [11 n] redelivered

The hello's unknown keys are ignored, so it can grow; everything else is closed. Numbers of messages count
from 1, per connection and direction. Texts have at most 200 bytes and lose their control characters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import shape
from .codec import Malformed, TooLarge, decode, encode, head
from .crypto import ID_BYTES, MessageId, PublicKey, Signature, digest
from .text import TEXT_BYTES_MAX, clean

ITEM_BYTES_MAX = 1024
OUTCOME_RECIPIENTS_MAX = 16_384
OUTCOME_BYTES_MAX = 1 << 20
STATE_BYTES_MAX = 32
VERSIONS_MAX = 16
FEATURES_MAX = 16
FEATURE_BYTES_MAX = 32
NAME_BYTES_MAX = 64
EPOCH_BYTES = 8
NONCE_BYTES = 16
REASON_MAX = (1 << 16) - 1
ROLES = ("app", "router")
SIDES = ("dialler", "listener")
PROOF_LABEL = b"upsycle link proof 1"

_SETTLED = b"\x82\x04"
_OUTCOME_TYPE = 9
_HELLO_KEYS = ("v", "role", "epoch", "dur", "frame", "msgs", "bytes", "feat", "nonce")


class UnknownItem(Malformed):
    """A link item of a TYPE that this version does not know."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First in each direction. `epoch`: of the store; `key`: only where no TLS proves it."""

    versions: tuple[int, ...]
    role: str
    epoch: bytes
    durable: bool
    frame_bytes_max: int
    window_messages: int
    window_bytes: int
    features: tuple[str, ...]
    nonce: bytes
    key: PublicKey | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """By the key of the sender's hello, over `proof_bytes`."""

    signature: Signature


@dataclass(frozen=True, slots=True)
class Settled:
    """Your first `n` messages on this link are in my keeping, delivered, or refused."""

    n: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Your `k`-th message was refused; always before the first `Settled` that covers it."""

    k: int
    reason: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """`t0`: nanoseconds of the sender's clock."""

    t0: int


class LogHead(NamedTuple):
    """How far a router's event log reaches: the last sequence number, and the digest up to there."""

    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    """`t0` of the ping; `t1` and `t2`: Unix nanoseconds at its arrival here and at this answer."""

    t0: int
    t1: int
    t2: int
    head: LogHead | None = None


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Why this end closes; nothing but `Settled` and `Refused` comes after it."""

    reason: int
    text: str = ""


class RecipientOutcome(NamedTuple):
    """One recipient's key (or how many, where the node tells no names), its state, a reason number."""

    recipient: PublicKey | int
    state: str
    reason: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of your message here; only to local apps whose hello has the feature `outcome`."""

    id: MessageId
    recipients: tuple[RecipientOutcome, ...]


@dataclass(frozen=True, slots=True)
class Missed:
    """`count` messages for you, `first` to `last`, were refused or expired. No group: they were unicasts."""

    group: PublicKey | None
    count: int
    first: MessageId
    last: MessageId
    reason: int


@dataclass(frozen=True, slots=True)
class Redelivered:
    """The next `n` messages on this link may have been handed over before."""

    n: int


Item = Hello | Proof | Settled | Refused | Ping | Pong | Goodbye | Outcome | Missed | Redelivered


def encode_item(item: Item) -> bytes:
    """The item's wire form (no frame). ValueError if a limit would be broken: a fault of ours."""
    match item:
        case Settled(n):
            return _SETTLED + head(n, 0)
        case Hello():
            return _encode_hello(item)
        case Proof(signature):
            return encode([3, signature])
        case Refused(k, reason, text):
            return encode([5, k, int(reason), *_said(text)])
        case Ping(t0):
            return encode([6, t0])
        case Pong(t0, t1, t2, log_head):
            return encode([7, t0, t1, t2, *([] if log_head is None else [list(log_head)])])
        case Goodbye(reason, text):
            return encode([8, int(reason), *_said(text)])
        case Outcome(id, recipients):
            if not 1 <= len(recipients) <= OUTCOME_RECIPIENTS_MAX:
                raise ValueError(f"an outcome names 1 to {OUTCOME_RECIPIENTS_MAX} recipients")
            return encode([_OUTCOME_TYPE, id, [_recipient(*one) for one in recipients]])
        case Missed(group, count, first, last, reason):
            return encode([10, group, count, first, last, int(reason)])
        case Redelivered(n):
            return encode([11, n])


def decode_item(wire: bytes) -> Item:
    """The item in `wire`; `UnknownItem` for a TYPE of a later version, else `Malformed`."""
    if wire[:2] == _SETTLED:
        return _decode_settled(wire)
    limit = OUTCOME_BYTES_MAX if wire[1:2] == bytes((_OUTCOME_TYPE,)) else ITEM_BYTES_MAX
    if len(wire) > limit:
        raise TooLarge(f"a link item of {len(wire)} bytes; the limit is {limit}")
    value = shape.array(decode(wire), "a link item", 1, limit)
    kind = shape.uint(value[0], "the type of a link item")
    if kind in (0, 1):
        raise Malformed("a message stands where a link item is read")
    if kind not in _READERS:
        raise UnknownItem(f"link item type {kind} is unknown")
    name, least, most, reader = _READERS[kind]
    return reader(*shape.array(value[1:], name, least, most))


def proof_bytes(side: str, dialler_hello: bytes, listener_hello: bytes) -> bytes:
    """What the `dialler` or the `listener` signs: label, own side, and both hellos as sent.

    The side keeps a proof from being reflected, the hellos from being moved or downgraded (R-B5, R-B7).
    """
    if side not in SIDES:
        raise ValueError(f'a link has a dialler and a listener, no "{side}"')
    return PROOF_LABEL + side.encode() + digest(dialler_hello) + digest(listener_hello)


def _encode_hello(hello: Hello) -> bytes:
    fields: dict[str, Any] = {
        "v": list(hello.versions), "role": hello.role, "epoch": hello.epoch, "dur": hello.durable,
        "frame": hello.frame_bytes_max, "msgs": hello.window_messages, "bytes": hello.window_bytes,
        "feat": list(hello.features), "nonce": hello.nonce,
    }  # fmt: skip
    if hello.key is not None:
        fields["key"] = hello.key
    if hello.name is not None:
        fields["name"] = clean(hello.name, NAME_BYTES_MAX)
    wire = encode([2, fields])
    try:
        decode_item(wire)
    except Malformed as error:
        raise ValueError(f"this hello would be refused: {error}") from None
    return wire


def _said(text: str) -> list[str]:
    said = clean(text)
    return [said] if said else []


def _recipient(recipient: PublicKey | int, state: str, reason: int | None = None) -> list[Any]:
    return [recipient, state] if reason is None else [recipient, state, int(reason)]


def _decode_settled(wire: bytes) -> Settled:
    """What `decode` and `_settled` do, several times as fast: this item comes with every batch."""
    raw = wire[2:]
    n = raw[0] if len(raw) == 1 else int.from_bytes(raw[1:9], "big")
    if head(n, 0) != raw:
        raise Malformed("settled without exactly one number")
    return Settled(n)


def _hello(fields: Any) -> Hello:
    found = shape.open_fields(fields, "hello", _HELLO_KEYS)
    versions = shape.array(found["v"], "v", 1, VERSIONS_MAX)
    features = shape.array(found["feat"], "feat", 0, FEATURES_MAX)
    return Hello(
        versions=tuple(shape.uint(one, "a version") for one in versions),
        role=shape.word(found["role"], "role", ROLES),
        epoch=shape.octets(found["epoch"], "epoch", EPOCH_BYTES),
        durable=shape.boolean(found["dur"], "dur"),
        frame_bytes_max=shape.uint(found["frame"], "frame"),
        window_messages=shape.uint(found["msgs"], "msgs"),
        window_bytes=shape.uint(found["bytes"], "bytes"),
        features=tuple(shape.text(one, "a feature", FEATURE_BYTES_MAX) for one in features),
        nonce=shape.octets(found["nonce"], "nonce", NONCE_BYTES),
        key=shape.checked_key(found["key"], "key") if "key" in found else None,
        name=shape.text(found["name"], "name", NAME_BYTES_MAX) if "name" in found else None,
    )


def _proof(signature: Any) -> Proof:
    return Proof(shape.signature(signature, "signature"))


def _settled(n: Any) -> Settled:
    return Settled(shape.uint(n, "n"))


def _refused(k: Any, reason: Any, text: Any = "") -> Refused:
    return Refused(shape.uint(k, "k"), _reason(reason), shape.text(text, "text", TEXT_BYTES_MAX))


def _ping(t0: Any) -> Ping:
    return Ping(shape.uint(t0, "t0"))


def _pong(t0: Any, t1: Any, t2: Any, *log_head: Any) -> Pong:
    times = shape.uint(t0, "t0"), shape.uint(t1, "t1"), shape.uint(t2, "t2")
    return Pong(*times, *map(_log_head, log_head))


def _log_head(value: Any) -> LogHead:
    seq, log_digest = shape.array(value, "a log head", 2, 2)
    return LogHead(shape.uint(seq, "seq"), shape.octets(log_digest, "digest", ID_BYTES))


def _goodbye(reason: Any, text: Any = "") -> Goodbye:
    return Goodbye(_reason(reason), shape.text(text, "text", TEXT_BYTES_MAX))


def _outcome(id: Any, recipients: Any) -> Outcome:
    rows = shape.array(recipients, "recipients", 1, OUTCOME_RECIPIENTS_MAX)
    found = tuple(_recipient_outcome(*shape.array(row, "a recipient", 2, 3)) for row in rows)
    return Outcome(shape.message_id(id, "id"), found)


def _recipient_outcome(recipient: Any, state: Any, *reason: Any) -> RecipientOutcome:
    name = "a recipient"
    whom = shape.uint(recipient, name) if type(recipient) is int else shape.public_key(recipient, name)
    if state == "":
        raise Malformed("a recipient's state is empty")
    return RecipientOutcome(whom, shape.text(state, "state", STATE_BYTES_MAX), *map(_reason, reason))


def _missed(group: Any, count: Any, first: Any, last: Any, reason: Any) -> Missed:
    return Missed(
        None if group is None else shape.public_key(group, "group"),
        shape.uint(count, "count"),
        shape.message_id(first, "first"),
        shape.message_id(last, "last"),
        _reason(reason),
    )


def _redelivered(n: Any) -> Redelivered:
    return Redelivered(shape.uint(n, "n"))


def _reason(value: Any) -> int:
    return shape.uint(value, "reason", REASON_MAX)


_READERS: dict[int, tuple[str, int, int, Callable[..., Item]]] = {
    2: ("hello", 1, 1, _hello),
    3: ("proof", 1, 1, _proof),
    4: ("settled", 1, 1, _settled),
    5: ("refused", 2, 3, _refused),
    6: ("ping", 1, 1, _ping),
    7: ("pong", 3, 4, _pong),
    8: ("goodbye", 1, 2, _goodbye),
    _OUTCOME_TYPE: ("outcome", 2, 2, _outcome),
    10: ("missed", 5, 5, _missed),
    11: ("redelivered", 1, 1, _redelivered),
}
