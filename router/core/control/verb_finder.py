"""The verbs of services and the parts that carry them out, found by their class in the files of their folders."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from router.core.wire.errors import cause_of, line_in
from router.service.verbs.verb import News, Request, VerbFault

from .part import Part
from .verb_part import VerbPart

VERBS = "router.service.verbs"


def load_verbs() -> tuple[type[VerbPart], ...]:
    """Return the parts, in the order of their files' names, with all verbs loaded. Raises `VerbFault`."""
    for package in (VERBS, _here()):
        for found in pkgutil.iter_modules(_load(package)):
            _load(f"{package}.{found.name}")
    return tuple(sorted(VerbPart.__subclasses__(), key=_place))


def load_parts() -> tuple[type[Part], ...]:
    """Return all parts of a router: those of this folder, and those that carry out a verb. Raises `VerbFault`."""
    verbs = load_verbs()
    others = (one for one in Part.__subclasses__() if one.__module__.startswith(f"{_here()}."))
    return (*sorted((one for one in others if one is not VerbPart), key=_place), *verbs)


def requests_of(modules: Sequence[str] = ()) -> list[type[Request]]:
    """Return the requests that are loaded from the folder of verbs, and from these modules or what lies in them."""
    return [one for one in Request.__subclasses__() if _is_of(one, modules)]


def news_of_verbs(modules: Sequence[str] = ()) -> list[type[News]]:
    """Return the news that is loaded from the same places."""
    return [one for one in News.__subclasses__() if _is_of(one, modules)]


def _is_of(kind: type, modules: Sequence[str]) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{one}.") for one in (VERBS, *modules))


def _here() -> str:
    return __name__.rpartition(".")[0]


def _place(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _load(module: str) -> Sequence[str]:
    """Import a module; return where the modules in it lie. Raises `VerbFault`."""
    try:
        found: Sequence[str] = getattr(importlib.import_module(module), "__path__", ())
    except Exception as error:  # it may be somebody else's file
        file = f"{module.replace('.', '/')}.py"
        line = line_in(error, file)
        where = f" (line {line})" if line else ""
        raise VerbFault(f"{file} cannot be loaded{where}: {cause_of(error)}; mend that file") from error
    return found
