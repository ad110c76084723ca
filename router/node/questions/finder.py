"""Find the questions of this folder by their classes, so that a new one is a file and no entry in a list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from inspect import isabstract

from router.node import questions
from router.node.questions.question import Questions


def load_questions(*made: Questions) -> tuple[Questions, ...]:
    """Return `made`, and one instance of each other class of questions in this folder. A class that cannot be made
    without arguments and is not among `made` raises `TypeError`."""
    kinds = {type(one) for one in made}
    return (*made, *(kind() for kind in _load_kinds() if kind not in kinds))


def _load_kinds() -> Iterator[type[Questions]]:
    for one in pkgutil.iter_modules(questions.__path__, f"{questions.__name__}."):
        found = vars(importlib.import_module(one.name)).values()
        kinds = (kind for kind in found if isinstance(kind, type) and issubclass(kind, Questions))
        yield from (kind for kind in kinds if kind.__module__ == one.name and not isabstract(kind))
