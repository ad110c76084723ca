"""What routers say to each other about points of rendezvous: a question and its answer, bodies like those of unicasts.

    [17 {"p" "but" ?"rec" ?"me"}]      who is near to this point; with `rec`: keep this there, and what lies there?
    [18 {"p" "kept" "near" "recs"}]    the answer

The question names neither group nor asker: `me`, an advertisement, is sent only where the asker wants to become known.
`but` holds the first 8 bytes of the keys that the asker knows near there, so that nobody tells it of them again. Form
and size are checked before anything is decoded; signatures are not checked here.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.core.wire import shape
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, ADVERTISEMENT_ITEMS_MAX, Advertisement, read_advertisement
from router.core.wire.codec import Malformed, encode, head
from router.core.wire.forms import MessageForm, read_form
from services.pubsub.core.rendezvous.points import PLACE_BYTES, POINT_BYTES
from services.pubsub.core.rendezvous.records import RECORD_BYTES

NEAR_MAX = 4
TOLD_MAX = 4
BUT_MAX = 12
"""Keys of which the asker says that it knows them; who is told so many tells of none that is farther than all these."""


class AskPoint(Struct, frozen=True):
    """A question about a point. `but`: the beginnings of keys that need not be told; `record`: to be left there; `me`:
    the asker's advertisement."""

    point: bytes
    but: tuple[bytes, ...] = ()
    record: bytes | None = None
    me: Advertisement | None = None


class TellPoint(Struct, frozen=True):
    """The answer: the nearest routers that are known; or, where a record came with the question, whether it is kept,
    and records of others that lie there."""

    point: bytes
    kept: bool
    near: tuple[Advertisement, ...]
    records: tuple[bytes, ...]


def encode_point_word(value: AskPoint | TellPoint) -> bytes:
    """Return the body of a word; raise ValueError if the other end would refuse it."""
    body = _encoded_word(value)
    decode_point_word(body)
    return body


def decode_point_word(body: bytes) -> AskPoint | TellPoint:
    """Return the word in a body; raise `UnknownMessage` if its type is not known, else `Malformed`."""
    found: AskPoint | TellPoint = read_form(body, "rendezvous", _FORMS)
    return found


def _encoded_word(value: AskPoint | TellPoint) -> bytes:
    """Return the encoded map, shortest names first; advertisements go into it as they were received (R-D11)."""
    parts = [b"\x61p" + head(len(value.point)) + value.point]
    if isinstance(value, AskPoint):
        if value.me is not None:
            parts.append(b"\x62me" + value.me.wire)
        but = b"".join(value.but)
        parts.append(b"\x63but" + head(len(but)) + but)
        if value.record is not None:
            parts.append(b"\x63rec" + head(len(value.record)) + value.record)
        return b"\x82\x11" + head(len(parts), 5) + b"".join(parts)
    parts.append(b"\x64kept" + encode(value.kept))
    parts.append(b"\x64near" + head(len(value.near), 4) + b"".join([one.wire for one in value.near]))
    parts.append(b"\x64recs" + encode(list(value.records)))
    return b"\x82\x12" + head(len(parts), 5) + b"".join(parts)


def _read_ask(value: Any) -> AskPoint:
    found = shape.fields(value, "a question about a point", ("p", "but"), ("rec", "me"))
    but = shape.octets(found["but"], "but", 0, BUT_MAX * PLACE_BYTES)
    if len(but) % PLACE_BYTES:
        raise Malformed(f"but has {len(but)} bytes, which {PLACE_BYTES} do not divide")
    return AskPoint(
        shape.octets(found["p"], "p", POINT_BYTES),
        tuple([but[at : at + PLACE_BYTES] for at in range(0, len(but), PLACE_BYTES)]),
        shape.octets(found["rec"], "rec", RECORD_BYTES) if "rec" in found else None,
        read_advertisement(found["me"]) if "me" in found else None,
    )


def _read_told(value: Any) -> TellPoint:
    found = shape.fields(value, "an answer about a point", ("p", "kept", "near", "recs"))
    return TellPoint(
        shape.octets(found["p"], "p", POINT_BYTES),
        shape.boolean(found["kept"], "kept"),
        tuple([read_advertisement(one) for one in shape.array(found["near"], "near", 0, NEAR_MAX)]),
        tuple([shape.octets(one, "a record", RECORD_BYTES) for one in shape.array(found["recs"], "recs", 0, TOLD_MAX)]),
    )


_ASK_BYTES = 512 + ADVERTISEMENT_BYTES_MAX
_TELL_BYTES = 512 + NEAR_MAX * ADVERTISEMENT_BYTES_MAX + TOLD_MAX * (RECORD_BYTES + 3)
_FORMS: dict[int, MessageForm] = {
    17: MessageForm("a question about a point", _ASK_BYTES, 9 + ADVERTISEMENT_ITEMS_MAX, _read_ask),
    18: MessageForm(
        "an answer about a point", _TELL_BYTES, 9 + NEAR_MAX * ADVERTISEMENT_ITEMS_MAX + TOLD_MAX, _read_told
    ),
}
