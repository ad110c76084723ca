"""Inquiries to a router and their answers, in the body of a unicast to or from it.

An operator's command asks its node over the owner's socket; a router asks the next one `why`, if granted there.

    [7 {"ask": word, "arg": text}]     answered, on that link only, by     [8 bstr]     JSON

The words of operators are defined in `router/node/questions/` and `router/core/control/`, those between a service and
its router in `router/service/verbs/`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from . import shape
from .codec import Malformed, TooLarge, decode, encode, unframe

ASK_BYTES_MAX = 1024
SERVICE_BYTES_MAX = 64 * 1024  # of an inquiry from a service of the node
VALUE_BYTES_MAX = SERVICE_BYTES_MAX - 1024  # of a service's answer to its operator, as JSON, inside such an inquiry
REPORT = "report"  # the word by which a service in a process of its own tells its node what is wrong with it
ANSWER_BYTES_MAX = 1 << 20  # to an app; a neighbour's router answers at most `REPORT_BYTES_MAX` of `why/report.py`
WHENCE = "whence"  # the word that asks for the IP address that the open link of a router comes from
INTRODUCE = "introduce"  # the word by which a router asks an app for an answer that its uplinks may be shown
ASK = b"\x82\x07"
ANSWER = b"\x82\x08"
_ASK_ITEMS_MAX = 7
NUMBERED = "numbered"
"""The feature of a router that repeats the number of a service's request in its answer."""
ALL_NUMBERED = "all-numbered"
"""The feature of a router that repeats the number of every inquiry in its answer, also of an app's."""
KNOWN_TOLD = "known"
"""The feature of a router that wants to hear which of its multicasts were known at the other end: they are named by
`Refused` with the reason `duplicate`, and are settled all the same."""


PAGE, NEXT, LEFT_OUT = "page", "next", "left_out"
"""The fields of a list that is longer than an answer: some of its rows, the number of the row with which the next page
begins, to be asked for as the argument (none behind the last page), and how many rows come after these."""


class Inquiry(Struct, frozen=True):
    """A question or command to a router: a word and its argument, as `drop` and a recipient's key in hex."""

    ask: str
    argument: str = ""


class Answer(Struct, frozen=True):
    """The answer to an inquiry: JSON text."""

    text: bytes


def with_number(number: int, text: str) -> str:
    """Return an argument, or the JSON of an answer, with the number of its question."""
    return f"#{number} {text}"


def without_number(text: str) -> tuple[int | None, str]:
    """Return the number of a question and what stands behind it; None, and the text as it is, if it has none."""
    mark, _, rest = text.partition(" ") if text[:1] == "#" else ("", "", "")
    number = mark[1:]
    return (int(number), rest) if number.isascii() and number.isdecimal() and len(number) <= 18 else (None, text)


def numbered(mark: int | None, answer: bytes) -> bytes:
    """Return an answer as who asked knows it: under the number of the question, if that had one."""
    return answer if mark is None else with_number(mark, answer.decode()).encode()


def rows_in(answer: Any) -> Any:
    """Return the rows in an answer that is a list, or a page of one; any other answer as it is."""
    return answer[PAGE] if isinstance(answer, dict) and PAGE in answer else answer


def next_page(answer: Any) -> str:
    """Return the argument by which the next page of a list is asked for, "" if there is none."""
    return str(answer[NEXT]) if isinstance(answer, dict) and PAGE in answer and NEXT in answer else ""


def is_inquiry(body: bytes) -> bool:
    """Whether the body begins like an inquiry or an answer."""
    return body[:2] in (ASK, ANSWER)


def encode_inquiry(value: Inquiry | Answer) -> bytes:
    if isinstance(value, Answer):
        return encode([8, value.text])
    return encode([7, {"ask": value.ask, "arg": value.argument}])


def decode_inquiry(body: bytes, bytes_max: int = ASK_BYTES_MAX) -> Inquiry | Answer:
    """Return the inquiry (of at most `bytes_max` bytes) or the answer in `body`; raise `Malformed` if it is neither."""
    if body[:2] == ANSWER:
        text = unframe(body, 2)
        if len(text) > ANSWER_BYTES_MAX:
            raise TooLarge(f"an answer of {len(text)} bytes; the limit is {ANSWER_BYTES_MAX}")
        return Answer(text)
    if len(body) > bytes_max or body[:2] != ASK:
        raise Malformed("not an inquiry")
    fields = shape.fields(decode(body, _ASK_ITEMS_MAX)[1], "an inquiry", ("ask", "arg"))
    ask, argument = fields["ask"], fields["arg"]
    if not isinstance(ask, str) or not isinstance(argument, str):
        raise Malformed("the words of an inquiry are text")
    return Inquiry(ask, argument)


def no_service(name: str) -> str:
    """Return the beginning of the answer to a question for a service that the running node does not have."""
    return f'there is no service "{name}" here'
