"""Print plain characters instead of failing on a terminal without Unicode."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_PLAIN = {"…": "...", "⏎": "|", "→": "->", "·": "-", "×": "x", "–": "-", "—": "-", "’": "'"}


def show_what_it_can(stream: TextIO | None) -> None:
    """Let a stream without Unicode print similar plain characters instead of failing."""
    if isinstance(stream, io.TextIOWrapper) and not is_unicode(stream):
        stream.reconfigure(errors="plain")


def is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def _plain_characters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(one) or f"\\u{ord(one):04x}" for one in found), error.end


codecs.register_error("plain", _plain_characters)
