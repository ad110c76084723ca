"""The state that the pub/sub service keeps on disk: the rows of cddl/pubsub-store.cddl, and their version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX
from router.core.wire.crypto import ID_BYTES, KEY_BYTES
from router.service.kept_rows import Form
from services.pubsub.core import begun, caught_up, clock_steps, interests, own_rows, partners
from services.pubsub.core.filters import SECRET_BYTES

VERSION = 1
_TWO, _NUMBER = 16, 8
_RUN = range(own_rows.HEAD_BYTES + ID_BYTES, own_rows.HEAD_BYTES + ID_BYTES * own_rows.RUN_MAX + 1, ID_BYTES)
_HEARD = range(_TWO, _TWO + KEY_BYTES * caught_up.HEARD_MAX + 1, KEY_BYTES)

FORMS: Mapping[bytes, Form] = MappingProxyType({
    clock_steps.KEPT: Form("the clock", 0, range(_TWO, _TWO + 1)),
    interests.SECRET: Form("the secret of filters", 0, range(SECRET_BYTES, SECRET_BYTES + 1)),
    partners.KEPT: Form("a partner", KEY_BYTES, range(1, ADVERTISEMENT_BYTES_MAX + 1)),
    own_rows.OWN: Form("a message of this node", ID_BYTES, range(KEY_BYTES + _NUMBER, KEY_BYTES + _NUMBER + 1)),
    own_rows.RUN: Form("messages of this node", ID_BYTES, _RUN),
    begun.KEPT: Form("the beginning of a topic", KEY_BYTES, range(_NUMBER, _NUMBER + 1)),
    caught_up.MISSED: Form("the number of messages missed", KEY_BYTES, range(_TWO, _TWO + 1)),
    caught_up.CAUGHT_UP: Form("a figure for apps", KEY_BYTES + _NUMBER, _HEARD),
})  # fmt: skip
"""The forms of the rows, by the beginnings of their keys."""
