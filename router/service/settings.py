"""What a service's `settings.py` is written with: `Struct`, `span` for numbers, `about` for everything else.

    class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        pages_max: Annotated[int, span(1, 1_000, "Pages of the guestbook.")] = 100

The sample file, `config check` and `config show` are made from it.
"""

from __future__ import annotations

from msgspec import Struct

from router.settings.config_peers import about
from router.settings.config_units import span

__all__ = ["Struct", "about", "span"]
