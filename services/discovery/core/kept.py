"""The state that discovery keeps on disk: the rows of cddl/discovery-store.cddl, their version, and their checks at a
start."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, decode_advertisement
from router.core.wire.codec import Malformed
from router.core.wire.crypto import KEY_BYTES
from router.service import contract as c
from router.service.kept_rows import BadState, RowForm, judge
from services.discovery.core import exchanges, shared_groups
from services.discovery.core.lan import part

VERSION = 1
_AGREED = range(KEY_BYTES, KEY_BYTES * shared_groups.AGREED_MAX + 1, KEY_BYTES)
_REMEDY = "put a backup of the directory in its place, or stop the node and move it away"

FORMS: Mapping[bytes, RowForm] = MappingProxyType({
    part.KEPT: RowForm("what is allowed on local networks", 0, range(2, part.KEPT_BYTES_MAX + 1)),
    shared_groups.KEPT: RowForm("the list of routers with groups in common", 0, _AGREED),
    exchanges.KEPT: RowForm("an advertisement", KEY_BYTES, range(1, ADVERTISEMENT_BYTES_MAX + 1)),
    exchanges.SEED: RowForm("a seed", KEY_BYTES, range(1)),
})  # fmt: skip
"""The forms of the rows, by the beginnings of their keys."""


class LanRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The row about local networks, as JSON."""

    mode: Literal["allowed", "everywhere", "off"] = "allowed"
    networks: Annotated[tuple[Annotated[str, Meta(max_length=part.NETWORK_CHARS_MAX)], ...], Meta(
        max_length=part.NETWORKS_MAX
    )] = ()  # fmt: skip


def first(setup: c.Setup) -> list[c.Deed]:
    """Return the deeds that record the version of the kept rows; raise `BadState` if this program did not write them
    so."""
    deeds = judge(setup.kept, setup.name, VERSION, FORMS)
    for key, row in setup.kept.items():
        try:
            if key == part.KEPT:
                msgspec.json.decode(row, type=LanRow)
            elif key.startswith(exchanges.KEPT):
                decode_advertisement(row)
        except (Malformed, msgspec.DecodeError, UnicodeDecodeError) as error:
            form = FORMS[part.KEPT if key == part.KEPT else exchanges.KEPT]
            raise BadState(f"{form.name} in the state of {setup.name} cannot be read: {error}; {_REMEDY}") from None
    return deeds
