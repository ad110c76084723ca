"""The forms of a verb: a request of a service to its router, or news of the router to a service.

Both are JSON objects in the argument of an inquiry, whose word names the verb; keys and ids are hexadecimal there,
other bytes base64. Where a deed of rules is not what travels, since several travel together or the host adds
something, the request stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import msgspec
from msgspec import Struct

from router.core.service.roles import Role
from router.core.wire.admin import Inquiry
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.heard import Heard

WRONG_ARGUMENT = (msgspec.ValidationError, msgspec.DecodeError)
"""The errors of an argument that is not of its verb's form."""


class VerbFault(RouterError):
    """A verb, or the part that carries it out, is wrong; the text names the classes, their files and the remedy."""


class Deed(Struct, frozen=True):
    """What rules want to be done."""


class _Travels(Struct, frozen=True):
    """A verb that travels under its word."""

    WORD: ClassVar[str] = ""

    def inquiry(self) -> Inquiry:
        """Return this verb as it travels."""
        return Inquiry(self.WORD, self.to_argument())

    def to_argument(self) -> str:
        """Return the JSON object that travels."""
        return msgspec.json.encode(self, enc_hook=_as_text).decode()

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        """Return the verb with this argument; raise one of `WRONG_ARGUMENT`."""
        found: Self = _decoder(cls)(argument)
        return found


class Request(_Travels, Deed, frozen=True, forbid_unknown_fields=True):
    """A service's request to its router, which answers it with a JSON object.

    `ROLES`: the roles that may make it, empty for every service; `OF_APPS`: whether apps of this node may, too;
    `ANSWERED_LATER`: the part that carries it out answers it itself, later, by the number with which it is called;
    messages do not wait for that. `BY_NODE`: a class of `router/node/questions/` carries it out instead of a part."""

    ROLES: ClassVar[frozenset[Role]] = frozenset()
    OF_APPS: ClassVar[bool] = False
    ANSWERED_LATER: ClassVar[bool] = False
    BY_NODE: ClassVar[bool] = False

    @property
    def about(self) -> Hashable:
        """Return what this is about: of two requests about the same, the later one holds. The first field names it."""
        return self.WORD, *[repr(getattr(self, name)) for name in self.__struct_fields__[:1]]

    def answered(self, answer: Mapping[str, Any]) -> Sequence[Heard]:
        """Return the events that follow from the answer; `{"error": sentence}` if the request failed."""
        return ()

    def given_up(self, error: str) -> Sequence[Heard]:
        """Return the events that follow if the request has failed and is not made again, where `answered` returns none;
        the operator is told besides."""
        return ()


class News(_Travels, Heard, frozen=True):
    """News of the router to a service, which is not answered. Fields that a newer router adds are ignored."""


def news_of(inquiry: Inquiry) -> News | None:
    """Return the event for a word of the router; None if no module has loaded a class of that word, so that no rules
    can expect it. Raise `VerbFault` if two have it."""
    kinds = [one for one in News.__subclasses__() if inquiry.ask == one.WORD]
    if len(kinds) > 1:
        raise VerbFault(same_word(kinds))
    return kinds[0].from_argument(inquiry.argument) if kinds else None


def place_of(kind: type) -> str:
    """Return a class as errors name it, with the file that defines it."""
    return f"{kind.__name__} of {kind.__module__.replace('.', '/')}.py"


def same_word(kinds: Sequence[type[Request | News]]) -> str:
    """Return the sentence about verbs that have the same word."""
    return f'{" and ".join(map(place_of, kinds))} have the word "{kinds[0].WORD}"; give one of them another WORD'


@cache
def _decoder(kind: type[Any]) -> Callable[[str], Any]:
    return msgspec.json.Decoder(kind, dec_hook=_from_text).decode


def _as_text(value: Any) -> str:
    if isinstance(value, PublicKey | MessageId):
        return value.hex()
    raise TypeError(f"a {type(value).__name__} does not travel; give a key, an id, or what JSON has")


def _from_text(kind: type[Any], text: Any) -> Any:
    """Return a key or id; whether a key is a point is asked where it matters (R-B2)."""
    if not (isinstance(text, str) and len(text) == 64 and issubclass(kind, PublicKey | MessageId)):
        raise ValueError("Expected 64 hexadecimal digits")
    found = kind(bytes.fromhex(text))
    if found.hex() != text:
        raise ValueError("Expected hexadecimal digits in lower case")
    return found
