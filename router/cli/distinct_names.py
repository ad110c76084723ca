"""Names in a column of a table, of which no two are alike."""

from __future__ import annotations

from collections.abc import Sequence

from router.cli.output import NAME_MAX, clipped, short_text
from router.overview.facts import short_key


def distinct(names: Sequence[tuple[str, str]], width: int = NAME_MAX) -> list[str]:
    """Return texts for (name, key) that fit a column and of which no two are alike: a long name is cut in its middle,
    and gets the beginning of its key where that is not enough."""
    cut = [_middle(name, width) if name else short_text("addr", bytes.fromhex(key)) for name, key in names]
    found = []
    for text, (name, key) in zip(cut, names, strict=True):
        mark = short_key(key)
        found.append(f"{_middle(name, max(1, width - len(mark) - 1))} {mark}" if name and cut.count(text) > 1 else text)
    return [clipped(text, width) for text in found]


def _middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}" if width > 2 else text[:width]
