"""Messages between pub/sub services, the bodies of unicasts (specification, "Publish-Subscribe Service").

    [5 MEET] [6 MET]             which groups both want (R-D20): `router.core.wire.meeting`
    [7] [8 INTERESTS]            a question and its answer: filters of oneself and of others (R-C36)
    [9] [10 RINGS]               a question and its answer: members of shared topics, with ages (R-C32)
    [11] [12 COMPARE]            a question and its answer: which messages each has (R-C35)
    [13 HAVE]                    ids of large messages that can be asked for (R-C34)
    [15] [16 GROUPS]             a question and its answer: which of very many groups both want (R-D20)
    [19] [20 SUMS]               a question and its answer: in which of many topics both hold the same messages (R-C35)

Types 1 to 4 are SUB, UNSUB and their acknowledgements (`router.core.wire.pubsub`). A shared group is named by the topic
from a meeting; no message names a group itself. Size and type are checked before anything is decoded. Signatures are
not checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from router.core.wire import shape
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, ADVERTISEMENT_ITEMS_MAX, Advertisement, read_advertisement
from router.core.wire.codec import Malformed, encode, head
from router.core.wire.crypto import MessageId, PublicKey, Signature, SigningKey, verify
from router.core.wire.forms import MessageForm, read_form
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.meeting import MET_ITEMS_MAX, TAG_BYTES, Meet, Met, meet_fields, met_fields, read_meet, read_met
from services.pubsub.core.comparison.arrival_order import ORDER_BYTES_MAX
from services.pubsub.core.comparison.id_set import FINGERPRINT_BYTES

BODY_BYTES_MAX = 1 << 16
MEET_BYTES_MAX = 64
MET_BYTES_MAX = 1 << 15
HAVE_BYTES_MAX = 4096
FILTER_BYTES = 128
INTERESTS_MAX = 10
RINGS_MAX = 16
RING_MEMBERS_MAX = 10
ADVERTS_MAX = 64
AGE_MAX = 255
COMPARE_BYTES_MAX = 60_000
GROUPS_BYTES_MAX = 60_000
IDS_MAX = 64
ROUNDS_MAX = 64
"""Most frames of each side in an agreement by ranges."""

SUMS_MAX = 1_024
"""Most topics in a question about sums."""
SUM_BYTES = TAG_BYTES + FINGERPRINT_BYTES
SUMS_BYTES_MAX = SUMS_MAX * SUM_BYTES + 64
FOUND_MAX = 2

FILTER_LABEL = b"upsycle interests 1"


class Filter(Struct, frozen=True):
    """A service's filter of its groups, signed with its key; of two, that with the greater `rev` counts."""

    rev: int
    bits: bytes
    signature: Signature

    def is_signed_by(self, service: PublicKey) -> bool:
        return verify(service, _signed_filter(self.rev, self.bits), self.signature)


def make_filter(key: SigningKey, rev: int, bits: bytes) -> Filter:
    return Filter(rev, bits, key.sign(_signed_filter(rev, bits)))


def _signed_filter(rev: int, bits: bytes) -> bytes:
    return FILTER_LABEL + encode([rev, bits])


class Interested(NamedTuple):
    """Another node: the age of this knowledge in periods, its advertisement, and its pub/sub service's filter."""

    age: int
    advert: Advertisement
    filter: Filter


class AskInterests(Struct, frozen=True):
    """A request for filters, with the sender's own and some of others."""

    mine: Filter
    view: tuple[Interested, ...]


class TellInterests(Struct, frozen=True):
    """The answer to `AskInterests`."""

    mine: Filter
    view: tuple[Interested, ...]


class Member(NamedTuple):
    """A member of a ring: the place of its advertisement in the message, and its age in periods."""

    at: int
    age: int


class Ring(NamedTuple):
    """Some members of a shared topic."""

    t: bytes
    members: tuple[Member, ...]


class AskRings(Struct, frozen=True):
    """A request for ring members, with members of topics that are shared with the recipient."""

    adverts: tuple[Advertisement, ...]
    rings: tuple[Ring, ...]


class TellRings(Struct, frozen=True):
    """The answer to `AskRings`."""

    adverts: tuple[Advertisement, ...]
    rings: tuple[Ring, ...]


class Compare(Struct, frozen=True):
    """A step of a comparison of a topic's messages whose expiry minute is at least `lo` and less than `hi`.

    `m`: the negentropy frame (R-C35). `age`: seconds for which the topic has been wanted here; messages that the other
    took earlier are no news to the apps of this node."""

    t: bytes
    lo: int
    hi: int
    m: bytes
    age: int = UINT32_MAX


class Compared(Struct, frozen=True):
    """The answer to `Compare`. `order`: the ranks of the ids that `m` lists (`arrival_order`); `old`: messages with a
    lower rank came more than the asker's `age` ago."""

    t: bytes
    lo: int
    hi: int
    m: bytes
    order: bytes = b""
    old: int = 0


class Have(Struct, frozen=True):
    """Ids of messages of a topic that the sender holds, and sends on request."""

    t: bytes
    ids: tuple[MessageId, ...]


class AskGroups(Struct, frozen=True):
    """A step of the agreement `a` on groups by ranges, with its number. `m`: the frame (`group_sets`)."""

    a: bytes
    round: int
    m: bytes


class TellGroups(Struct, frozen=True):
    """The answer to the `AskGroups` of the same number."""

    a: bytes
    round: int
    m: bytes


class Sum(NamedTuple):
    """The fingerprint of the messages of a topic that the sender holds."""

    t: bytes
    sum: bytes


class AskSums(Struct, frozen=True):
    """A question whether the recipient holds the same messages of these topics: those that expire in minute `lo` or
    later."""

    number: int
    lo: int
    sums: tuple[Sum, ...]


class TellSums(Struct, frozen=True):
    """The answer to the `AskSums` of the same number: a byte for each topic, in its order. 0: the same; 1: others, or
    some are left out; 2: the answerer does not know yet."""

    number: int
    found: bytes


Message = (
    Meet
    | Met
    | AskInterests
    | TellInterests
    | AskRings
    | TellRings
    | Compare
    | Compared
    | Have
    | AskGroups
    | TellGroups
    | AskSums
    | TellSums
)


# -- writing ----------------------------------------------------------------------------------------------------------


def encode_message(value: Message) -> bytes:
    """Return the BODY of a message; raise ValueError if the other end would refuse it."""
    body = _encoded(value)
    decode_message(body)
    return body


def _encoded(value: Message) -> bytes:
    match value:
        case Meet():
            return encode([5, meet_fields(value)])
        case Met():
            return encode([6, met_fields(value)])
        case AskInterests(mine, view):
            return b"\x82\x07" + _interests(mine, view)
        case TellInterests(mine, view):
            return b"\x82\x08" + _interests(mine, view)
        case AskRings(adverts, rings):
            return b"\x82\x09" + _rings(adverts, rings)
        case TellRings(adverts, rings):
            return b"\x82\x0a" + _rings(adverts, rings)
        case Compare(t, lo, hi, m, age):
            return encode([11, {"t": t, "lo": lo, "hi": hi, "m": m, "age": age}])
        case Compared(t, lo, hi, m, order, old):
            return encode([12, {"t": t, "lo": lo, "hi": hi, "m": m, "order": order, "old": old}])
        case Have(t, ids):
            return encode([13, {"t": t, "ids": list(ids)}])
        case AskGroups(a, number, m) | TellGroups(a, number, m):
            return encode([15 if isinstance(value, AskGroups) else 16, {"a": a, "i": number, "m": m}])
        case AskSums(number, lo, sums):
            return encode([19, {"i": number, "lo": lo, "sums": b"".join(one.t + one.sum for one in sums)}])
        case TellSums(number, found):
            return encode([20, {"i": number, "found": found}])


def _interests(mine: Filter, view: tuple[Interested, ...]) -> bytes:
    """Return the encoded map; advertisements go into it as they were received (R-D11)."""
    others = b"".join(b"\x83" + head(age, 0) + advert.wire + _filter(one) for age, advert, one in view)
    return b"\xa2\x64mine" + _filter(mine) + b"\x64view" + head(len(view), 4) + others


def _filter(one: Filter) -> bytes:
    return encode([one.rev, one.bits, one.signature])


def _rings(adverts: tuple[Advertisement, ...], rings: tuple[Ring, ...]) -> bytes:
    known = b"\x64advs" + head(len(adverts), 4) + b"".join(one.wire for one in adverts)
    return b"\xa2" + known + b"\x65rings" + encode([[one.t, [list(each) for each in one.members]] for one in rings])


# -- reading ----------------------------------------------------------------------------------------------------------


def decode_message(body: bytes) -> Message:
    """Return the message in the BODY of a unicast to a pub/sub service; else raise `Malformed`."""
    found: Message = read_form(body, "pubsub", _FORMS)
    return found


def _read_interests(value: Any) -> tuple[Filter, tuple[Interested, ...]]:
    found = shape.fields(value, "INTERESTS", ("mine", "view"))
    view = shape.array(found["view"], "view", 0, INTERESTS_MAX)
    return _read_filter(found["mine"]), tuple([_read_interested(*shape.array(one, "an entry", 3, 3)) for one in view])


def _read_interested(age: Any, advert: Any, found: Any) -> Interested:
    return Interested(shape.uint(age, "age", AGE_MAX), read_advertisement(advert), _read_filter(found))


def _read_filter(value: Any) -> Filter:
    rev, bits, signature = shape.array(value, "a filter", 3, 3)
    return Filter(shape.uint(rev, "rev"), shape.octets(bits, "bits", FILTER_BYTES), shape.signature(signature, "sig"))


def _read_rings(value: Any) -> tuple[tuple[Advertisement, ...], tuple[Ring, ...]]:
    found = shape.fields(value, "RINGS", ("advs", "rings"))
    adverts = tuple([read_advertisement(one) for one in shape.array(found["advs"], "advs", 0, ADVERTS_MAX)])
    rows = shape.array(found["rings"], "rings", 1, RINGS_MAX)
    rings = tuple([_read_ring(len(adverts), *shape.array(one, "a ring", 2, 2)) for one in rows])
    if len({one.t for one in rings}) < len(rings):
        raise Malformed("a topic stands twice among the rings")
    return adverts, rings


def _read_ring(adverts: int, t: Any, members: Any) -> Ring:
    rows = shape.array(members, "a ring", 0, RING_MEMBERS_MAX)
    return Ring(_topic(t), tuple([_read_member(adverts, *shape.array(one, "a member", 2, 2)) for one in rows]))


def _read_member(adverts: int, index: Any, age: Any) -> Member:
    if shape.uint(index, "index", ADVERTS_MAX - 1) >= adverts:
        raise Malformed("an index points beyond the advertisements")
    return Member(index, shape.uint(age, "age", AGE_MAX))


def _read_compare(value: Any) -> tuple[bytes, int, int, bytes, int]:
    found = shape.fields(value, "COMPARE", ("t", "lo", "hi", "m", "age"))
    lo, hi, age = (shape.uint(found[one], one, UINT32_MAX) for one in ("lo", "hi", "age"))
    return _topic(found["t"]), lo, hi, shape.octets(found["m"], "m", 1, COMPARE_BYTES_MAX), age


def _read_compared(value: Any) -> tuple[bytes, int, int, bytes, bytes, int]:
    found = shape.fields(value, "COMPARED", ("t", "lo", "hi", "m", "order", "old"))
    lo, hi, old = (shape.uint(found[one], one, UINT32_MAX) for one in ("lo", "hi", "old"))
    order = shape.octets(found["order"], "order", 0, ORDER_BYTES_MAX)
    return _topic(found["t"]), lo, hi, shape.octets(found["m"], "m", 1, COMPARE_BYTES_MAX), order, old


def _read_have(value: Any) -> Have:
    found = shape.fields(value, "HAVE", ("t", "ids"))
    ids = [shape.message_id(one, "an id") for one in shape.array(found["ids"], "ids", 1, IDS_MAX)]
    return Have(_topic(found["t"]), tuple(ids))


def _read_groups(value: Any) -> tuple[bytes, int, bytes]:
    found = shape.fields(value, "GROUPS", ("a", "i", "m"))
    name, number = shape.octets(found["a"], "a", TAG_BYTES), shape.uint(found["i"], "i", ROUNDS_MAX - 1)
    return name, number, shape.octets(found["m"], "m", 1, GROUPS_BYTES_MAX)


def _read_sums(value: Any) -> tuple[int, int, tuple[Sum, ...]]:
    found = shape.fields(value, "SUMS", ("i", "lo", "sums"))
    number, lo = shape.uint(found["i"], "i", UINT32_MAX), shape.uint(found["lo"], "lo", UINT32_MAX)
    rows = shape.octets(found["sums"], "sums", SUM_BYTES, SUMS_MAX * SUM_BYTES)
    if len(rows) % SUM_BYTES:
        raise Malformed(f"sums has {len(rows)} bytes, which are no rows of {SUM_BYTES}")
    starts = range(0, len(rows), SUM_BYTES)
    return number, lo, tuple([Sum(rows[at : at + TAG_BYTES], rows[at + TAG_BYTES : at + SUM_BYTES]) for at in starts])


def _read_found(value: Any) -> tuple[int, bytes]:
    found = shape.fields(value, "SUMS", ("i", "found"))
    said = shape.octets(found["found"], "found", 1, SUMS_MAX)
    if max(said) > FOUND_MAX:
        raise Malformed(f"found has a {max(said)}; 0 to {FOUND_MAX} are known")
    return shape.uint(found["i"], "i", UINT32_MAX), said


def _topic(value: Any) -> bytes:
    return shape.octets(value, "t", TAG_BYTES)


def _to(kind: Callable[..., Message], read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], Message]:
    return lambda value: kind(*read(value))


_INTERESTS_ITEMS = 3 + 4 + 1 + INTERESTS_MAX * (6 + ADVERTISEMENT_ITEMS_MAX)
_INTERESTS_BYTES = 512 + INTERESTS_MAX * (512 + ADVERTISEMENT_BYTES_MAX)
_RINGS_ITEMS = 5 + ADVERTS_MAX * ADVERTISEMENT_ITEMS_MAX + RINGS_MAX * (3 + 3 * RING_MEMBERS_MAX)
_FORMS: dict[int, MessageForm] = {
    5: MessageForm("MEET", MEET_BYTES_MAX, 3, read_meet),
    6: MessageForm("MET", MET_BYTES_MAX, MET_ITEMS_MAX, read_met),
    7: MessageForm("INTERESTS", _INTERESTS_BYTES, _INTERESTS_ITEMS, _to(AskInterests, _read_interests)),
    8: MessageForm("INTERESTS", _INTERESTS_BYTES, _INTERESTS_ITEMS, _to(TellInterests, _read_interests)),
    9: MessageForm("RINGS", BODY_BYTES_MAX, _RINGS_ITEMS, _to(AskRings, _read_rings)),
    10: MessageForm("RINGS", BODY_BYTES_MAX, _RINGS_ITEMS, _to(TellRings, _read_rings)),
    11: MessageForm("COMPARE", BODY_BYTES_MAX, 11, _to(Compare, _read_compare)),
    12: MessageForm("COMPARED", BODY_BYTES_MAX, 13, _to(Compared, _read_compared)),
    13: MessageForm("HAVE", HAVE_BYTES_MAX, 5 + IDS_MAX, _read_have),
    15: MessageForm("GROUPS", BODY_BYTES_MAX, 7, _to(AskGroups, _read_groups)),
    16: MessageForm("GROUPS", BODY_BYTES_MAX, 7, _to(TellGroups, _read_groups)),
    19: MessageForm("SUMS", SUMS_BYTES_MAX, 7, _to(AskSums, _read_sums)),
    20: MessageForm("SUMS", SUMS_BYTES_MAX, 5, _to(TellSums, _read_found)),
}
