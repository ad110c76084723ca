"""The base class of all errors that an app may meet, and the words for any failure."""

from __future__ import annotations

CAUSE_CHARS_MAX = 2_000
"""The most characters of a failure's text that are shown."""


class RouterError(Exception):
    """An app, its home or its node cannot do something; the text is a sentence with cause and remedy."""


def cause_of(error: BaseException) -> str:
    """Return a failure as people read it: a sentence as it is, anything else as Python shows it.

    It is somebody else's: if its text cannot be made, its class is named; a text too long is cut, and what no file or
    link can hold is written out."""
    try:
        said = f"{error}" if isinstance(error, RouterError) else repr(error)
    except BaseException as lack:
        said = f"{type(error).__name__}, whose text cannot be made ({type(lack).__name__})"
    said = said if len(said) <= CAUSE_CHARS_MAX else f"{said[:CAUSE_CHARS_MAX]}…"
    return said.encode(errors="backslashreplace").decode()
