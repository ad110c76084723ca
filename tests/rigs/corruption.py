"""Values with one thing wrong, to show what a reader refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def corrupted(value: Any) -> Iterator[Any]:
    """Yield copies of the value, each with one thing wrong somewhere: another type or size, a part lost, doubled or
    added."""
    yield from _instead_of(value)
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield value[:at] + value[at + 1 :]
            yield [*value[:at], one, *value[at:]]
            yield from ([*value[:at], other, *value[at + 1 :]] for other in corrupted(one))
    if isinstance(value, dict):
        yield value | {"zz": 0}
        for key, one in value.items():
            rest = {name: other for name, other in value.items() if name != key}
            yield rest
            yield rest | {f"{key}x": one}
            yield from (value | {key: other} for other in corrupted(one))


def _instead_of(value: Any) -> Iterator[Any]:
    yield from (None, True, -1, 7, 1 << 40, b"", b"x" * 31, "", "x" * 300, [], {})
    if type(value) in (bytes, str):
        yield from (value[:-1], value + value[:1], value + value)
    if type(value) is int:
        yield from (value + 1, -value - 1, value << 16, value << 32, str(value))
