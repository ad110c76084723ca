"""HTML and SVG as values: any value that is not `Markup` is escaped, so text from a log can never become a tag."""

from __future__ import annotations

import html
from unicodedata import category

TEXT_MAX = 240
"""Most characters shown of one text from a log."""

SAID_MAX = 4000
"""Most characters shown of one of the program's own texts, which may contain several from a log."""

_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_VOID = frozenset(("br", "hr", "meta", "input", "wbr"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def plain(value: object, most: int = TEXT_MAX) -> str:
    """Return the value as one visible line: controls, marks of direction and lone surrogates are shown by number."""
    text = str(value)
    cut = text[:most] + "…" if len(text) > most else text
    if cut.isprintable():
        return cut
    return "".join(f"‹U+{ord(each):04X}›" if category(each) in _INVISIBLE else each for each in cut)


def text(value: object, most: int = TEXT_MAX) -> Markup:
    """Return the value escaped and bounded."""
    return value if isinstance(value, Markup) else Markup(html.escape(plain(value, most)))


def join(*parts: object) -> Markup:
    """Join the parts; None is left out."""
    return Markup("".join(text(part, SAID_MAX) for part in parts if part is not None))


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. `class_` is class, `data_tip` is data-tip; an attribute that is None or False is left out."""
    inside = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{text(value, SAID_MAX)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{element}{inside}>" if element in _VOID else f"<{element}{inside}>{join(*children)}</{element}>")


def _attribute(key: str) -> str:
    camel = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio", "patternunits": "patternUnits"}
    return camel.get(key) or key.rstrip("_").replace("_", "-")
