"""The base class of all errors that an app may meet, and the words for any failure."""

from __future__ import annotations

CAUSE_CHARS_MAX = 2_000
"""The most characters of a failure's text that are shown."""


class RouterError(Exception):
    """An app, its home or its node cannot do something; the text is a sentence with cause and remedy."""


def cause_of(error: BaseException) -> str:
    """Return a failure as people read it: a sentence as it is, anything else as Python shows it.

    It is somebody else's: if its text cannot be made, its class is named; a text too long is cut, what no file or link
    can hold is written out, and what a terminal would obey is a space."""
    try:
        said = f"{error}" if isinstance(error, RouterError) else repr(error)
    except BaseException as lack:
        said = f"{type(error).__name__}, whose text cannot be made ({type(lack).__name__})"
    said = said if len(said) <= CAUSE_CHARS_MAX else f"{said[:CAUSE_CHARS_MAX]}…"
    said = said.encode(errors="backslashreplace").decode()
    return said if said.isprintable() else "".join(one if one.isprintable() else " " for one in said)


def line_in(error: BaseException, file: str) -> int:
    """Return the last line of a file, named by the end of its path, that a failure went through; 0: none."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
