"""What an operator's command asks its node over the owner's socket, inside the body of a unicast to the router; and
what one router asks the next, `why`, where that one's operator grants it.

    [7 {"ask": word, "arg": text}]     answered, on that link only, by     [8 bstr]     JSON

The words are the node's (`router/inquiries.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from . import shape
from .codec import Malformed, decode, encode

ASK_BYTES_MAX = 1024
_ASK = b"\x82\x07"
_ANSWER = b"\x82\x08"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A word and its argument: `status`, or `drop` and a recipient's key as hex."""

    ask: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """JSON, as text."""

    text: bytes


def is_inquiry(body: bytes) -> bool:
    """Or an answer to one."""
    return body[:2] in (_ASK, _ANSWER)


def encode_inquiry(value: Inquiry | Answer) -> bytes:
    if isinstance(value, Answer):
        return encode([8, value.text])
    return encode([7, {"ask": value.ask, "arg": value.argument}])


def decode_inquiry(body: bytes) -> Inquiry | Answer:
    """`Malformed` if the body is neither."""
    if body[:2] == _ANSWER:
        _, text = shape.array(decode(body), "an answer", 2, 2)
        return Answer(shape.octets(text, "the text of an answer", 0, 1 << 20))
    if len(body) > ASK_BYTES_MAX or body[:2] != _ASK:
        raise Malformed("not an inquiry")
    fields = shape.array(decode(body), "an inquiry", 2, 2)[1]
    if not isinstance(fields, dict) or set(fields) != {"ask", "arg"}:
        raise Malformed("an inquiry has the keys ask and arg")
    ask, argument = fields["ask"], fields["arg"]
    if not isinstance(ask, str) or not isinstance(argument, str):
        raise Malformed("the words of an inquiry are text")
    return Inquiry(ask, argument)
