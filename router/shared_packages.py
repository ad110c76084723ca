"""The packages `services` and `transports`, to which every directory on Python's path may add a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name

_OWN = Path(__file__).parents[1]


def complete(name: str) -> None:
    """Import the package, and add to it the folders of that name on Python's path, if another one stands before ours,
    as an empty folder of a user's does in PYTHONPATH."""
    package = resolve_name(name)
    places = list(getattr(package, "__path__", ()))
    if str(_OWN / name) not in places:
        found = (Path(place) / name for place in (*sys.path, str(_OWN)))
        places += [str(one) for one in found if (one / "__init__.py").is_file()]
        package.__path__ = list(dict.fromkeys(places))
