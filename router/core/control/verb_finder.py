"""The parts that carry out one verb of services each, found by their class in the files of this folder."""

from __future__ import annotations

import importlib
import pkgutil

from .verb_part import VerbPart


def load_verbs() -> tuple[type[VerbPart], ...]:
    """Return the parts, in the order of their files' names."""
    package = __name__.rpartition(".")[0]
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{found.name}")
    return tuple(sorted(VerbPart.__subclasses__(), key=lambda one: (one.__module__, one.__qualname__)))
