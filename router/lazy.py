"""Public names of a package that are loaded when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers read this name as True; `typing` itself would cost 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load_by_name(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; `places`: the names that each module defines, separated by spaces."""

    def load(name: str) -> object:
        for place, names in places.items():
            if name in names.split():
                from pkgutil import resolve_name

                found: object = resolve_name(f"{place}:{name}")
                setattr(sys.modules[package], name, found)
                return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
