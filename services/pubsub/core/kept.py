"""The state that the pub/sub service keeps on disk: the rows of cddl/pubsub-store.cddl, and their version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX
from router.core.wire.crypto import ID_BYTES, KEY_BYTES
from router.service.kept_rows import RowForm
from services.pubsub.core.comparison import begun, caught_up
from services.pubsub.core.conduct import clock_steps
from services.pubsub.core.meetings import interests, partners
from services.pubsub.core.meetings.filters import SECRET_BYTES
from services.pubsub.core.sending import own_rows

VERSION = 1
_TWO, _NUMBER = 16, 8
_RUN = range(own_rows.HEAD_BYTES + ID_BYTES, own_rows.HEAD_BYTES + ID_BYTES * own_rows.RUN_MAX + 1, ID_BYTES)
_HEARD = range(_TWO, _TWO + KEY_BYTES * caught_up.HEARD_MAX + 1, KEY_BYTES)

FORMS: Mapping[bytes, RowForm] = MappingProxyType({
    clock_steps.KEPT: RowForm("the clock", 0, range(_TWO, _TWO + 1)),
    interests.SECRET: RowForm("the secret of filters", 0, range(SECRET_BYTES, SECRET_BYTES + 1)),
    partners.KEPT: RowForm("a partner", KEY_BYTES, range(1, ADVERTISEMENT_BYTES_MAX + 1)),
    own_rows.OWN: RowForm("a message of this node", ID_BYTES, range(KEY_BYTES + _NUMBER, KEY_BYTES + _NUMBER + 1)),
    own_rows.RUN: RowForm("messages of this node", ID_BYTES, _RUN),
    begun.KEPT: RowForm("the beginning of a topic", KEY_BYTES, range(_NUMBER, _NUMBER + 1)),
    caught_up.MISSED: RowForm("the number of messages missed", KEY_BYTES, range(_TWO, _TWO + 1)),
    caught_up.CAUGHT_UP: RowForm("a figure for apps", KEY_BYTES + _NUMBER, _HEARD),
})  # fmt: skip
"""The forms of the rows, by the beginnings of their keys."""
