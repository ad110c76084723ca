"""The version and the form of the rows that a service keeps, checked when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from router.core.wire.codec import Malformed, encode, first_of
from router.core.wire.errors import RouterError
from router.service import contract as c

STATE = b"state"
"""The key of the row that is read first; a list that begins with the version."""


class BadState(RouterError):
    """A state that this version of a service did not write; the text says what to do."""


class RowForm(NamedTuple):
    """The rows whose keys begin alike: how many bytes follow in the key, and how many a value may have."""

    name: str
    key_bytes: int
    value_bytes: range


def judge(kept: Mapping[bytes, bytes], service: str, version: int, forms: Mapping[bytes, RowForm]) -> list[c.Deed]:
    """Return the deeds that record the version, none if it is there. A state without one is that of the first version,
    which recorded none. Raise `BadState` if it is another, or if a row cannot be of this version."""
    found = kept.get(STATE)
    if found is not None and found != encode([version]):
        raise BadState(
            f"the state of {service} is of version {_version(found)}, and this program knows version {version}; start "
            f"the program that wrote it, or stop the node and move services/{service} of the home away: it begins anew"
        )
    for key in kept:
        prefix = key[: key.find(b"/") + 1] or key
        form = forms.get(prefix)
        if form is None:
            continue
        size = len(kept[key])
        if len(key) != len(prefix) + form.key_bytes or size not in form.value_bytes:
            raise BadState(
                f"{form.name} in the state of {service} has {size} bytes under a key of {len(key)}, which this program "
                f"does not write; stop the node, and replace services/{service} of the home by a backup or move it away"
            )
    return [] if found is not None else [c.Put(STATE, encode([version]))]


def _version(row: bytes) -> str:
    try:
        return str(first_of(row)[1]) if len(row) > 1 and row[0] == 0x81 else row.hex()
    except Malformed:
        return row.hex()
