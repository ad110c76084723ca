"""Whether a message to one address was sealed, as far as a node can tell: by the first bytes of its body, which are
open, while it holds them."""

from __future__ import annotations

from typing import Any

from router.core.routing.parcel import Parcel
from router.core.wire.message import UNICAST, body_at
from router.core.wire.unicast_seal import BEGINS

SEALED = "sealed for its recipient: no router on the way can read it"
OPEN = "in the open: each router on the way can read it"


def sealed_json(held: tuple[Parcel, int] | None) -> dict[str, Any]:
    """Return the part of an answer that says so: `sealed`, which is None if the bytes are gone; of a message of a
    group, nothing. `held`: the message's parcel and its index in it."""
    if held is None:
        return {"sealed": None}
    parcel, index = held
    if parcel.kind != UNICAST:
        return {}
    wire = parcel.wire(index)
    return {"sealed": wire.startswith(BEGINS, body_at(wire, 0, len(wire)))}
