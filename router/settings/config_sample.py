"""The commented sample of a configuration, written from the Structs that check it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import wrap

from msgspec import NODEFAULT, Struct, inspect

from router.settings.config_text import about, bare, toml_value

COMMENT_WIDTH = 108


def sample(root: type[Struct], live: Mapping[str, object]) -> str:
    """Return a file that sets only `live` (by name: "node.role") and lists all other settings as comments."""
    return "\n".join("\n".join(_section(one, live)) + "\n" for one in _described(root).fields)


def options(name: str, root: type[Struct], live: Mapping[str, object] | None = None) -> str:
    """Return the section of a service with its settings as comments; `live`: the settings to set, None if the section
    itself is a comment."""
    place = f"services.{name}"
    lines = [f"{'#' if live is None else ''}[{place}]", *_comment(" ".join((root.__doc__ or "").split()))]
    values = {f"{place}.{key}": value for key, value in (live or {}).items()}
    return "\n".join((*lines, *_fields(place, _described(root), values))) + "\n"


@cache
def _described(root: type[Struct]) -> inspect.StructType:
    described = inspect.type_info(root)
    assert isinstance(described, inspect.StructType)
    return described


def _section(section: inspect.Field, live: Mapping[str, object]) -> Iterator[str]:
    inner = bare(section.type)
    if isinstance(inner, inspect.VarTupleType):
        block = inner.item_type
        assert isinstance(block, inspect.StructType)
        yield from _comment(" ".join((block.cls.__doc__ or "").split()))
        yield f"#[[{section.name}]]"
    elif isinstance(inner, inspect.StructType):
        block = inner
        yield f"[{section.name}]"
        yield from _comment(" ".join((block.cls.__doc__ or "").split()))
    else:
        yield from _comment(about(section))
        return
    yield from _fields(section.name, block, live)


def _fields(place: str, block: inspect.StructType, live: Mapping[str, object]) -> Iterator[str]:
    for one in block.fields:
        name = f"{place}.{one.name}"
        yield ""
        yield from _comment(" ".join((about(one), _range(one.name, bare(one.type)))).strip())
        if name in live:
            yield f"{one.name} = {toml_value(live[name])}"
        else:
            default = '"ADDRESS"' if one.default is NODEFAULT else toml_value(one.default)
            words = _plainly(one.name, one.default)
            yield f"#{one.name} = {default}" + (f"  # {words}" if words else "")


@cache
def _comment(text: str) -> tuple[str, ...]:
    return tuple(wrap(text, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False))


def _range(name: str, kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType(ge=least, le=most) | inspect.FloatType(ge=least, le=most):
            return f"({_bound(name, least)} to {_bound(name, most)})"
        case inspect.LiteralType(values=words):
            return "(" + " or ".join(f'"{word}"' for word in words if word) + ")"
        case inspect.VarTupleType(item_type=inspect.LiteralType(values=words)):
            return "(any of " + ", ".join(f'"{word}"' for word in words) + ")"
        case _:
            return ""


def _bound(name: str, value: float | None) -> str:
    return _plainly(name, value) or toml_value(value) + (" s" if value and _TIME.search(name) else "")


_SIZE = re.compile(r"_bytes(_max|_min|_initial)?$")
_TIME = re.compile(r"(?<!per)_s(_max|_min)?$")
_BYTES = ((1 << 50, " PiB"), (1 << 40, " TiB"), (1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"))
_SECONDS = ((86_400, " day"), (3600, " hour"), (60, " minute"))


def _plainly(name: str, value: object) -> str:
    """Return a size or time in a larger unit (`8 MiB`, `7 days`), "" if it is no whole number of any."""
    if not isinstance(value, int | float) or not value:
        return ""
    for unit, word in _BYTES if _SIZE.search(name) else _SECONDS if _TIME.search(name) else ():
        if value % unit == 0:
            count = int(value // unit)
            return f"{count}{word}" + ("s" if count > 1 and not word.endswith("B") else "")
    return ""
