"""Reads many rows of a service's state at once, as rules may: from its disk in one reading, or from any mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def kept_under(kept: Mapping[bytes, bytes], prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys of a service's state that begin so, without the prefix, each with its value, in order."""
    under = getattr(kept, "under", None)
    if under is None:
        return sorted((key[len(prefix) :], value) for key, value in kept.items() if key.startswith(prefix))
    found: list[tuple[bytes, bytes]] = under(prefix)
    return found


def kept_values(kept: Mapping[bytes, bytes], keys: Sequence[bytes]) -> list[bytes]:
    """Return the values of these keys of a service's state, in one reading of its disk."""
    several = getattr(kept, "several", None)
    if several is None:
        return [kept[key] for key in keys]
    found: list[bytes] = several(keys)
    return found


def has_room(kept: Mapping[bytes, bytes]) -> bool:
    """Whether the disk of a service's state has room for more. Without, rules should refuse what they would have to
    keep; when it is fuller still nothing can be kept, and the service stops."""
    return bool(getattr(kept, "has_room", True))
