"""Link items: the control items between two neighbours, beside the messages that they pass on (TYPE 2-15).

    [2 {…}] hello      [3 signature] proof    [4 n] settled         [5 k reason ?text] refused
    [6 t0] ping        [7 t0 t1 t2 ?head] pong                      [8 reason ?text] goodbye
    [9 id [+ outcome]] outcome                [10 group count first last reason] missed
    [11 n] redelivered                        [12 run signature] claimed
    [13 run later-run signature] stopped

Unknown keys of the hello are ignored, so it can grow; everything else is closed. Messages are numbered from 1, per
connection and direction. Texts have at most 200 bytes and lose their control characters.

`form_of` judges an item by its first bytes and its length, before anything is decoded; the caller then checks whether
it is allowed in the present state, and only then decodes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from . import shape
from .codec import Malformed, TooLarge, decode, encode, first_of, head
from .crypto import ID_BYTES, MessageId, PublicKey, Signature, digest
from .reasons import reason_from
from .run_claim import LIFE_MAX, TAG_BYTES, RunClaim, RunPlace, RunStopped
from .succession import Former, read_formers
from .text import TEXT_BYTES_MAX, clean, counted, key_text, short

HELLO_BYTES_MAX = 2048
ITEM_BYTES_MAX = 256  # except for a hello and an outcome
OUTCOME_RECIPIENTS_MAX = 16_384
OUTCOME_BYTES_MAX = 1 << 20
OUTCOME_MORE_MAX = 1023
HELLO_ITEMS_MAX = 128  # the known keys make at most 96; the rest is for keys of later versions
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
_HELLO_KEYS = ("v", "role", "epoch", "dur", "frame", "msgs", "bytes", "feat", "nonce")


class UnknownItem(Malformed):
    """A link item of a TYPE that this version does not know."""


class Run(NamedTuple):
    """One run of a router: the number of its life (`router.core.log.life`), and the Unix millisecond of its start."""

    life: int
    start_ms: int


class Hello(Struct, frozen=True):
    """The first item in each direction. `epoch`: that of the sender's store; `key`: the sender's, present only if no
    TLS proves it.

    `pubsub`, `discovery`: the router's services with these roles, if they are public. `run`: a router's present run;
    `claim`: the same, signed by its key; `was`: statements by which its key has followed earlier ones, the oldest
    first."""

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
    pubsub: PublicKey | None = None
    discovery: PublicKey | None = None
    run: Run | None = None
    was: tuple[Former, ...] = ()
    claim: RunClaim | None = None


class Proof(Struct, frozen=True):
    """The signature over `proof_bytes` by the key in the sender's hello."""

    signature: Signature


class Settled(Struct, frozen=True):
    """The receiver's first `n` messages on this link are in the sender's custody, delivered, or refused."""

    n: int


class Refused(Struct, frozen=True):
    """The receiver's `k`-th message was refused; sent before the first `Settled` that covers it."""

    k: int
    reason: int
    text: str = ""


class Ping(Struct, frozen=True):
    """A request for a pong; `t0`: nanoseconds of the sender's clock."""

    t0: int


class LogHead(NamedTuple):
    """The extent of a router's event log: its last sequence number and the digest up to there."""

    seq: int
    digest: bytes


class Pong(Struct, frozen=True):
    """The answer to a ping: its `t0`; Unix nanoseconds at its arrival (`t1`) and at this answer (`t2`)."""

    t0: int
    t1: int
    t2: int
    head: LogHead | None = None


class Goodbye(Struct, frozen=True):
    """The reason why the sender closes the link; only `Settled` and `Refused` may follow."""

    reason: int
    text: str = ""


class RecipientOutcome(NamedTuple):
    """One recipient's key (or a number of recipients, if the node discloses no keys), state and reason number."""

    recipient: PublicKey | int
    state: str
    reason: int | None = None

    def __str__(self) -> str:
        one = self.recipient
        whom = counted(one, "recipient") if isinstance(one, int) else short(key_text("addr", one))
        return f"{self.state} for {whom}" + ("" if self.reason is None else f" ({reason_from(self.reason).word})")


class Outcome(Struct, frozen=True):
    """The outcome of an app's message at this router; only to local apps whose hello has the feature `outcome`.

    `more`: further messages of the app with the same outcome; only if the hello has the feature `outcome-runs`."""

    id: MessageId
    recipients: tuple[RecipientOutcome, ...]
    more: tuple[MessageId, ...] = ()

    def each(self) -> Iterator[Outcome]:
        """Yield the outcome of each message."""
        for id in (self.id, *self.more):
            yield Outcome(id, self.recipients)


class Missed(Struct, frozen=True):
    """`count` messages to the receiver, sent from `first` to `last`, were refused or expired; `group` None:
    unicasts."""

    group: PublicKey | None
    count: int
    first: MessageId
    last: MessageId
    reason: int


class Redelivered(Struct, frozen=True):
    """A warning that the next `n` messages on this link may have been sent to this receiver before."""

    n: int


class OtherRun(Struct, frozen=True):
    """The claim of another run that the receiver's key has signed: another node runs, or ran, with that key."""

    claim: RunClaim


class StoppedRun(Struct, frozen=True):
    """The statement, signed by the sender's key or the receiver's, that a run of that key has stopped as a copy."""

    said: RunStopped


Item = (
    Hello | Proof | Settled | Refused | Ping | Pong | Goodbye | Outcome | Missed | Redelivered | OtherRun | StoppedRun
)


def encode_item(item: Item) -> bytes:
    """Return the item's wire form without a frame; raise ValueError if our own code breaks a limit."""
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
        case Outcome(id, recipients, more):
            if not 1 <= len(recipients) <= OUTCOME_RECIPIENTS_MAX or len(more) > OUTCOME_MORE_MAX:
                most = f"{OUTCOME_RECIPIENTS_MAX} recipients and {OUTCOME_MORE_MAX} further messages"
                raise ValueError(f"an outcome names 1 to {most}")
            return encode([9, id, [_recipient(*one) for one in recipients], *([b"".join(more)] if more else [])])
        case Missed(group, count, first, last, reason):
            return encode([10, group, count, first, last, int(reason)])
        case Redelivered(n):
            return encode([11, n])
        case OtherRun(claim):
            return encode([12, list(claim.run), claim.signature])
        case StoppedRun(said):
            return encode([13, list(said.run), list(said.later), said.signature])


class ItemForm(NamedTuple):
    """The shape of the items of one TYPE: the TYPE is followed by `least` to `most` values."""

    kind: type[Item]
    name: str
    least: int
    most: int
    bytes_max: int
    items_max: int
    read: Callable[..., Item]


def form_of(beginning: bytes, size: int) -> ItemForm:
    """Return the form of an item of `size` bytes, judged by at least its first ten.

    Raises `UnknownItem`, `TooLarge` or `Malformed`."""
    form = _FORMS.get(beginning[1]) if len(beginning) > 1 else None
    if form is None or not 0x80 < beginning[0] < 0x98:
        raise _no_form(beginning)
    values = beginning[0] - 0x81
    if not form.least <= values <= form.most:
        raise Malformed(f"{form.name} has {values} values; {form.least} to {form.most} are allowed")
    if size > form.bytes_max:
        raise TooLarge(f"{form.name} of {size} bytes; the limit is {form.bytes_max}")
    return form


def decode_item(wire: bytes) -> Item:
    """Return the item in `wire`; raise `UnknownItem` for a TYPE of a later version, `Malformed` for other bad bytes."""
    return read_item(form_of(wire, len(wire)), wire)


def read_item(form: ItemForm, wire: bytes) -> Item:
    """Return the item in `wire`, whose first bytes have this form; raise `Malformed` if the rest breaks it."""
    if form.kind is Settled:
        return _decode_settled(wire)
    return form.read(*decode(wire, form.items_max)[1:])


def proof_bytes(side: str, dialler_hello: bytes, listener_hello: bytes) -> bytes:
    """Return the bytes that the `dialler` or the `listener` signs: label, own side, and digests of both hellos as sent.

    The side prevents reflection of a proof; the hellos prevent its reuse elsewhere and downgrades (R-B5, R-B7).
    """
    if side not in SIDES:
        raise ValueError(f'a link has a dialler and a listener, no "{side}"')
    return PROOF_LABEL + side.encode() + digest(dialler_hello) + digest(listener_hello)


def _encode_hello(hello: Hello) -> bytes:
    fields: dict[str, Any] = {
        "v": list(hello.versions),
        "role": hello.role,
        "epoch": hello.epoch,
        "dur": hello.durable,
        "frame": hello.frame_bytes_max,
        "msgs": hello.window_messages,
        "bytes": hello.window_bytes,
        "feat": list(hello.features),
        "nonce": hello.nonce,
    }
    if hello.key is not None:
        fields["key"] = hello.key
    if hello.name is not None:
        fields["name"] = clean(hello.name, NAME_BYTES_MAX)
    if hello.pubsub is not None:
        fields["pubsub"] = hello.pubsub
    if hello.discovery is not None:
        fields["discovery"] = hello.discovery
    if hello.run is not None:
        fields["run"] = list(hello.run)
    if hello.was:
        fields["was"] = [one.items() for one in hello.was]
    if hello.claim is not None:
        fields["runsig"] = [hello.claim.run.tag, hello.claim.signature]
    wire = encode([2, fields])
    try:
        decode_item(wire)
    except Malformed as error:
        raise ValueError(f"this hello would be refused: {error}") from None
    return wire


def _no_form(wire: bytes) -> Malformed:
    """Return the error that says why the first bytes of `wire` begin no item of this version."""
    try:
        _, kind = first_of(wire)
    except Malformed as error:
        return Malformed(f"a link item: {error}")
    if kind < 2:
        return Malformed("a message stands where a link item is read")
    return UnknownItem(f"link item type {kind} is unknown")


def _said(text: str) -> list[str]:
    said = clean(text)
    return [said] if said else []


def _recipient(recipient: PublicKey | int, state: str, reason: int | None = None) -> list[Any]:
    return [recipient, state] if reason is None else [recipient, state, int(reason)]


def _decode_settled(wire: bytes) -> Settled:
    """Decode like `decode` and `_settled`, several times as fast: this item comes with every batch."""
    raw = wire[2:]
    n = raw[0] if len(raw) == 1 else int.from_bytes(raw[1:9], "big")
    if head(n, 0) != raw:
        raise Malformed("settled without exactly one number")
    return Settled(n)


def _hello(fields: Any) -> Hello:
    found = shape.open_fields(fields, "hello", _HELLO_KEYS)
    versions = shape.array(found["v"], "v", 1, VERSIONS_MAX)
    features = shape.array(found["feat"], "feat", 0, FEATURES_MAX)
    run = _run(found["run"]) if "run" in found else None
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
        pubsub=shape.checked_key(found["pubsub"], "pubsub") if "pubsub" in found else None,
        discovery=shape.checked_key(found["discovery"], "discovery") if "discovery" in found else None,
        run=run,
        claim=_signed_run(run, found["runsig"]) if "runsig" in found else None,
        was=read_formers(found["was"]) if "was" in found else (),
    )


def _run(said: Any) -> Run:
    life, start_ms = shape.array(said, "run", 2, 2)
    return Run(shape.uint(life, "a life", LIFE_MAX), shape.uint(start_ms, "a start"))


def _signed_run(run: Run | None, said: Any) -> RunClaim | None:
    """Return the claim of the run in the same hello, which is none where that names no run."""
    tag, signature = shape.array(said, "runsig", 2, 2)
    place = _place([*(run or (0, 0)), tag])
    claim = RunClaim(place, shape.signature(signature, "signature"))
    return None if run is None else claim


def _place(said: Any) -> RunPlace:
    life, start_ms, tag = shape.array(said, "a run", 3, 3)
    numbers = shape.uint(life, "a life", LIFE_MAX), shape.uint(start_ms, "a start")
    return RunPlace(*numbers, shape.octets(tag, "tag", TAG_BYTES))


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


def _outcome(id: Any, recipients: Any, more: Any = None) -> Outcome:
    rows = shape.array(recipients, "recipients", 1, OUTCOME_RECIPIENTS_MAX)
    found = tuple(_recipient_outcome(*shape.array(row, "a recipient", 2, 3)) for row in rows)
    return Outcome(shape.message_id(id, "id"), found, () if more is None else _message_ids(more))


def _message_ids(joined: Any) -> tuple[MessageId, ...]:
    shape.octets(joined, "more", ID_BYTES, OUTCOME_MORE_MAX * ID_BYTES)
    if len(joined) % ID_BYTES:
        raise Malformed(f"more has {len(joined)} bytes, which are no whole ids")
    return tuple([MessageId(joined[at : at + ID_BYTES]) for at in range(0, len(joined), ID_BYTES)])


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


def _other_run(run: Any, signature: Any) -> OtherRun:
    return OtherRun(RunClaim(_place(run), shape.signature(signature, "signature")))


def _stopped_run(run: Any, later: Any, signature: Any) -> StoppedRun:
    return StoppedRun(RunStopped(_place(run), _place(later), shape.signature(signature, "signature")))


def _reason(value: Any) -> int:
    return shape.uint(value, "reason", REASON_MAX)


_FORMS: dict[int, ItemForm] = {
    2: ItemForm(Hello, "hello", 1, 1, HELLO_BYTES_MAX, HELLO_ITEMS_MAX, _hello),
    3: ItemForm(Proof, "proof", 1, 1, ITEM_BYTES_MAX, 3, _proof),
    4: ItemForm(Settled, "settled", 1, 1, ITEM_BYTES_MAX, 3, _settled),
    5: ItemForm(Refused, "refused", 2, 3, ITEM_BYTES_MAX, 5, _refused),
    6: ItemForm(Ping, "ping", 1, 1, ITEM_BYTES_MAX, 3, _ping),
    7: ItemForm(Pong, "pong", 3, 4, ITEM_BYTES_MAX, 8, _pong),
    8: ItemForm(Goodbye, "goodbye", 1, 2, ITEM_BYTES_MAX, 4, _goodbye),
    9: ItemForm(Outcome, "outcome", 2, 3, OUTCOME_BYTES_MAX, 5 + 4 * OUTCOME_RECIPIENTS_MAX, _outcome),
    10: ItemForm(Missed, "missed", 5, 5, ITEM_BYTES_MAX, 7, _missed),
    11: ItemForm(Redelivered, "redelivered", 1, 1, ITEM_BYTES_MAX, 3, _redelivered),
    12: ItemForm(OtherRun, "claimed", 2, 2, ITEM_BYTES_MAX, 7, _other_run),
    13: ItemForm(StoppedRun, "stopped", 3, 3, ITEM_BYTES_MAX, 11, _stopped_run),
}
