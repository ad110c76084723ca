"""The forms of a service's messages in the BODY of unicasts: `[type, map]`, numbered per service (R-A11).

Type and length are checked before anything is decoded, and the number of items before any value is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .codec import Malformed, TooLarge, decode, first_of


class UnknownMessage(Malformed):
    """A type of message that this version does not know."""


class MessageForm(NamedTuple):
    """The name of a type of message, the limits of its map, and the reader that returns its value."""

    name: str
    bytes_max: int
    items_max: int
    read: Callable[[Any], Any]


def read_form(body: bytes, service: str, forms: Mapping[int, MessageForm]) -> Any:
    """Return the value in the body, read by the form of its type; raise `UnknownMessage` if no form has that type, else
    `Malformed`."""
    count, kind = first_of(body)
    form = forms.get(kind)
    if count != 2:
        raise Malformed(f"a message to {service} has {count} values instead of 2")
    if form is None:
        raise UnknownMessage(f"{service} message type {kind} is unknown")
    if len(body) > form.bytes_max:
        raise TooLarge(f"{form.name} of {len(body)} bytes; the limit is {form.bytes_max}")
    return form.read(decode(body, 2 + form.items_max)[1])
