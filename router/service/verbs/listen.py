"""A URL at which the router listens for a service."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar

from msgspec import Meta

from .verb import News, Request


class Listen(Request, frozen=True):
    """Have the router listen at this URL besides those of its configuration, as long as this service wants it; `""`
    ends that. `Listening` says where it does."""

    WORD: ClassVar[str] = "listen"

    url: Annotated[str, Meta(max_length=512)] = ""

    @property
    def about(self) -> Hashable:
        return self.WORD


class Listening(News, frozen=True):
    """The answer to `Listen`: where the router listens for this service now, `""` if nowhere; `problem` says why
    not."""

    WORD: ClassVar[str] = "listening"

    url: str
    problem: str = ""
