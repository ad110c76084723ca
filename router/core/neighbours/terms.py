"""The rights that a key has at this router by the configuration and by invitations, and their ends."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from router.core.wire.reasons import INVITE_ENDED, INVITE_REMOVED, Reason

from .directory import Directory
from .invitations import Invitations


class Held(NamedTuple):
    """Rights, and the Unix second at which the first of them ends; 0: none of them has an end."""

    rights: frozenset[str] = frozenset()
    until_s: int = 0


def terms_of(key: bytes, directory: Directory, invitations: Invitations, now_s: int) -> Held:
    """Return the rights that a key has now, and their first end."""
    ends = _ends(key, directory, invitations, now_s)
    first = min(ends.values(), default=inf)
    return Held(frozenset(ends), 0 if first == inf else int(first))


def has_all(
    key: bytes, rights: frozenset[str], until_s: int, directory: Directory, invitations: Invitations, now_s: int
) -> bool:
    """Whether a key has these rights already, each at least until then (0: without an end)."""
    ends = _ends(key, directory, invitations, now_s)
    return all(ends.get(one, 0) >= (until_s or inf) for one in rights)


def why_none(key: bytes, directory: Directory, invitations: Invitations, now_s: int) -> tuple[Reason, int]:
    """Return why a key has no rights any more, and the Unix second since when (0: not known)."""
    if directory.is_blocked(key):
        return Reason.BLOCKED, 0
    of_guest = [one for one in invitations if key in one.guests]
    known = directory.configured.get(key)
    ends = [one.grant_until_s for one in of_guest] + ([known.until_s] if known is not None else [])
    if over := [one for one in ends if 0 < one <= now_s]:
        return INVITE_ENDED, max(over)
    return (INVITE_REMOVED if of_guest else Reason.NOT_AUTHORISED), 0


def _ends(key: bytes, directory: Directory, invitations: Invitations, now_s: int) -> dict[str, float]:
    """Return the Unix second at which each right of a key ends."""
    ends: dict[str, float] = {}
    if not directory.is_blocked(key):
        for rights, until_s in _given(key, directory, invitations):
            if not 0 < until_s <= now_s:
                for one in rights:
                    ends[one] = max(ends.get(one, 0), until_s or inf)
    return ends


def _given(key: bytes, directory: Directory, invitations: Invitations) -> Iterator[tuple[frozenset[str], int]]:
    if (known := directory.configured.get(key)) is not None:
        yield known.grants, known.until_s
    for guest, _, one in invitations.owed():
        if guest == key:
            yield one.rights, one.grant_until_s
