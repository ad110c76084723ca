"""The parts of a service's `settings.py`: `Struct`, `span` for numbers, `door` for URLs of doors of some kinds, `about`
for all others.

    class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        pages_max: Annotated[int, span(1, 1_000, "Pages of the guestbook.")] = 100

The sample file, `config check` and `config show` are made from it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Meta, Struct

from router.settings.config_peers import about
from router.settings.config_units import span

__all__ = ["Kind", "Struct", "about", "door", "span"]

Kind = Literal["udp", "tcp", "tls", "unix"]
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
_PLACE = rf"(?:\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]*):{_PORT}"
_TLS = r"\?(?:certificate=[^\s?&]+&key=[^\s?&]+|key=[^\s?&]+&certificate=[^\s?&]+)"
_FORMS: dict[Kind, tuple[str, str]] = {
    "udp": (rf"udp://{_PLACE}", "udp://HOST:PORT"),
    "tcp": (rf"tcp://{_PLACE}", "tcp://HOST:PORT"),
    "tls": (rf"tcp://{_PLACE}{_TLS}", "tcp://HOST:PORT?certificate=FILE&key=FILE"),
    "unix": (r"unix:[^\s?]+(?:\?[^\s?]+)?", "unix:PATH?mode=660&group=NAME"),
}
"""The URLs of doors, by kind: as a pattern, and as people read them."""


def door(sentence: str, kinds: Collection[Kind] = tuple(_FORMS), *, may_be_empty: bool = True) -> Meta:
    """Return the form and the description of a door's URL of one of these kinds; an empty one leaves the door
    closed."""
    patterns, forms = zip(*(_FORMS[kind] for kind in kinds), strict=True)
    empty = [""] if may_be_empty else []
    words = [*forms, *(["or empty"] if may_be_empty else [])]
    return Meta(
        pattern=rf"^(?:{'|'.join([*empty, *patterns])})\Z", extra={"form": ", ".join(words)}, description=sentence
    )
