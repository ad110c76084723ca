"""Operators' questions to a service, and its answers."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta

from .verb import News, Request


class Asked(News, frozen=True):
    """An operator's question: a command asks through the node. `Answer` it with the same number, at once or later."""

    WORD: ClassVar[str] = "asked"

    number: int
    word: str
    argument: str = ""

    def to_argument(self) -> str:
        """Return the text that travels: the number, the word and the argument, with spaces between."""
        return f"{self.number} {self.word}" + (f" {self.argument}" if self.argument else "")

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        """Return the question in this text."""
        number, _, rest = argument.partition(" ")
        word, _, more = rest.partition(" ")
        return cls(int(number), word, more)


LOOK_AT_GROUPS = "look-at-groups"
"""The question that no rules hear: the host joins and leaves as the home's groups are, then answers."""


class Answer(Request, frozen=True):
    """Answer an operator's question with a JSON value of at most 64,512 bytes; a larger one becomes an error that says
    so. A map with `error` ends the operator's command with that sentence."""

    WORD: ClassVar[str] = "answer"

    number: Annotated[int, Meta(ge=0)]
    value: Any

    def to_argument(self) -> str:
        """Return the JSON object that travels: whatever `json` takes for the value, but no number that is none."""
        return as_json({"number": self.number, "value": self.value})


def as_json(value: Any) -> str:
    """Return JSON as it goes to the router: compact, with characters of any script unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
