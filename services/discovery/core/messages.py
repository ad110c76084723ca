"""Messages between discovery services, in the bodies of unicasts (specification, "Peer Discovery Service").

    [1 PEER_ADVERTISEMENT]     in the service's group and on the LAN: `router.core.wire.advert`
    [2 SAMPLE] [3 SAMPLED]     an exchange of views, with ages outside the signatures (R-D21)
    [4 MEET] [5 MET]           which groups both want (R-D20): `router.core.wire.meeting`
    [6 DIAL_ME] [7 DIALLED]    whether a node can be reached from outside (R-D23)
    [8 NAMED]                  what a node nearby calls itself, once groups are in common

Size and type are judged before anything is decoded. Signatures of advertisements are not checked.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from msgspec import Struct

from router.core.wire import shape
from router.core.wire.address import ADDRESS_ITEMS_MAX, PORT_MAX, TransportAddress, read_address
from router.core.wire.advert import (
    ADVERTISEMENT_BYTES_MAX,
    ADVERTISEMENT_ITEMS_MAX,
    Advertisement,
    read_advertisement,
)
from router.core.wire.codec import Malformed, encode, head
from router.core.wire.forms import MessageForm, read_form
from router.core.wire.meeting import MET_ITEMS_MAX, Meet, Met, meet_fields, met_fields, nonce, read_meet, read_met
from router.core.wire.reasons import REASON_MAX
from router.core.wire.text import TEXT_BYTES_MAX, clean

VIEW_MAX = 8
AGE_MAX = 255
SMALL_BYTES_MAX = 64
MET_BYTES_MAX = 1 << 15
DIALLED_BYTES_MAX = 512
VIEW_BYTES_MAX = 16 + VIEW_MAX * (4 + ADVERTISEMENT_BYTES_MAX)

_VIEW = b"\xa1\x64view"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}|")


class Entry(NamedTuple):
    """An entry of a view: an advertisement, and its age in periods, which is never reset (R-D11)."""

    age: int
    advert: Advertisement


class Sample(Struct, frozen=True):
    """A request for a part of the view, with a part of the sender's: 1 to 8 entries, its own first."""

    view: tuple[Entry, ...]


class Sampled(Struct, frozen=True):
    """The answer to SAMPLE: at most 8 entries."""

    view: tuple[Entry, ...]


class DialMe(Struct, frozen=True):
    """A request to dial the address from which the sender's link comes, at this port."""

    nonce: bytes
    port: int


class Dialled(Struct, frozen=True):
    """The answer to DIAL_ME: the address dialled, and the number of the reason why the sender was not found there."""

    nonce: bytes
    at: TransportAddress
    reason: int | None = None
    text: str = ""


class Named(Struct, frozen=True):
    """The name that a node says of itself, in the form of `node.name`; "": it has none."""

    name: str


Message = Advertisement | Sample | Sampled | Meet | Met | DialMe | Dialled | Named


def encode_message(value: Message) -> bytes:
    """Return the BODY of a message; raise ValueError if the other end would refuse it."""
    body = _encoded(value)
    decode_message(body)
    return body


def _encoded(value: Message) -> bytes:
    match value:
        case Advertisement():
            return value.message
        case Sample(view):
            return b"\x82\x02" + _view(view)
        case Sampled(view):
            return b"\x82\x03" + _view(view)
        case Meet():
            return encode([4, meet_fields(value)])
        case Met():
            return encode([5, met_fields(value)])
        case DialMe(own, port):
            return encode([6, {"n": own, "port": port}])
        case Dialled(own, at, reason, text):
            fields = {"n": own, "at": at.encoded(), "result": 0 if reason is None else int(reason)}
            said = clean(text)
            return encode([7, fields | ({"text": said} if said else {})])
        case Named(name):
            return encode([8, {"name": name}])


def _view(view: tuple[Entry, ...]) -> bytes:
    """Return the encoded map of a view; advertisements go into it as they were received (R-D11)."""
    return _VIEW + head(len(view), 4) + b"".join(b"\x82" + head(age, 0) + advert.wire for age, advert in view)


def decode_message(body: bytes) -> Message:
    """Return the message in the BODY of a unicast to a discovery service; else raise `Malformed`."""
    found: Message = read_form(body, "discovery", _FORMS)
    return found


def _sample(value: Any) -> Sample:
    return Sample(_entries(value, "SAMPLE", 1))


def _sampled(value: Any) -> Sampled:
    return Sampled(_entries(value, "SAMPLED", 0))


def _entries(value: Any, name: str, least: int) -> tuple[Entry, ...]:
    view = shape.array(shape.fields(value, name, ("view",))["view"], "view", least, VIEW_MAX)
    return tuple([_entry(*shape.array(one, "an entry", 2, 2)) for one in view])


def _entry(age: Any, advert: Any) -> Entry:
    return Entry(shape.uint(age, "age", AGE_MAX), read_advertisement(advert))


def _dial_me(value: Any) -> DialMe:
    found = shape.fields(value, "DIAL_ME", ("n", "port"))
    port = shape.uint(found["port"], "port", PORT_MAX)
    if not port:
        raise Malformed(f"port is 0; ports go from 1 to {PORT_MAX}")
    return DialMe(nonce(found["n"], "n"), port)


def _dialled(value: Any) -> Dialled:
    found = shape.fields(value, "DIALLED", ("n", "at", "result"), ("text",))
    result = shape.uint(found["result"], "result", REASON_MAX)
    text = shape.text(found["text"], "text", TEXT_BYTES_MAX) if "text" in found else ""
    return Dialled(nonce(found["n"], "n"), read_address(found["at"], "at"), result or None, text)


def _named(value: Any) -> Named:
    name = shape.text(shape.fields(value, "NAMED", ("name",))["name"], "name", SMALL_BYTES_MAX)
    if not _NAME.fullmatch(name):
        raise Malformed("name has other characters than letters, digits, dots, dashes and underscores")
    return Named(name)


_VIEW_ITEMS_MAX = 3 + VIEW_MAX * (2 + ADVERTISEMENT_ITEMS_MAX)
_FORMS: dict[int, MessageForm] = {
    1: MessageForm("an advertisement", ADVERTISEMENT_BYTES_MAX, ADVERTISEMENT_ITEMS_MAX, read_advertisement),
    2: MessageForm("SAMPLE", VIEW_BYTES_MAX, _VIEW_ITEMS_MAX, _sample),
    3: MessageForm("SAMPLED", VIEW_BYTES_MAX, _VIEW_ITEMS_MAX, _sampled),
    4: MessageForm("MEET", SMALL_BYTES_MAX, 3, read_meet),
    5: MessageForm("MET", MET_BYTES_MAX, MET_ITEMS_MAX, read_met),
    6: MessageForm("DIAL_ME", SMALL_BYTES_MAX, 5, _dial_me),
    7: MessageForm("DIALLED", DIALLED_BYTES_MAX, 9 + ADDRESS_ITEMS_MAX, _dialled),
    8: MessageForm("NAMED", 2 * SMALL_BYTES_MAX, 3, _named),
}
