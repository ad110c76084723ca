"""The parts of a service's `settings.py`: `Struct`, `span` for numbers, `door` for URLs of doors, `about` for all
others.

    class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        pages_max: Annotated[int, span(1, 1_000, "Pages of the guestbook.")] = 100

The sample file, `config check` and `config show` are made from it.
"""

from __future__ import annotations

from msgspec import Meta, Struct

from router.settings.config_peers import about
from router.settings.config_units import span

__all__ = ["Struct", "about", "door", "span"]

_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
_PLACE = rf"(?:\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]*):{_PORT}"
_TLS = r"(?:\?(?:certificate=[^\s?&]+&key=[^\s?&]+|key=[^\s?&]+&certificate=[^\s?&]+))?"
_DOOR = rf"^(?:|udp://{_PLACE}|tcp://{_PLACE}{_TLS}|unix:[^\s?]+(?:\?[^\s?]+)?)\Z"


def door(sentence: str) -> Meta:
    """Return the form and the description of a door's URL; an empty one leaves the door closed."""
    form = (
        "udp://HOST:PORT, tcp://HOST:PORT, tcp://HOST:PORT?certificate=FILE&key=FILE, unix:PATH?mode=660&group=NAME, "
        "or empty"
    )
    return Meta(pattern=_DOOR, extra={"form": form}, description=sentence)
