"""Calls of all parts of the router; one that fails is named, since it may be somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from router.core.wire.errors import cause_of, line_in
from router.service.verbs.verb import VerbFault, place_of

from .part import Part


def call_each(parts: Iterable[Part], method: Callable[..., None], *arguments: Any) -> None:
    """Call a method of `Part` on each of these, in order. Raise `VerbFault` if one fails: what the others have decided
    with it is half done, and must not be committed."""
    for part in parts:
        try:
            getattr(part, method.__name__)(*arguments)
        except Exception as error:
            said = f"{failed_place(type(part), error)} failed in {method.__name__}: {cause_of(error)}"
            raise VerbFault(f"{said}; what was decided is half done, so the node ends: mend that file") from error


def failed_place(part: type[Part], error: Exception) -> str:
    """Return the part, its file, and the line of that which the failure went through."""
    line = line_in(error, f"{part.__module__.replace('.', '/')}.py")
    return f"{place_of(part)}{f', line {line},' if line else ''}"
