"""The reasons for which a guestbook refuses a page: numbers from the range for services of one's own, words and
sentences."""

from __future__ import annotations

from router.core.wire.reasons import Reason

FULL = Reason.declare(300, "guestbook:full", "The guestbook has no page left.", later=True)
EMPTY = Reason.declare(301, "guestbook:empty", "A page of a guestbook says something.")
