"""Why a CAPD pool turns a message away, or holds it no longer."""

from __future__ import annotations

from router.core.wire.reasons import Reason

BAD_WORK = Reason.declare(128, "capd:bad-work", "The message's work is not done: its id is not below its target.")
BELOW_LINE = Reason.declare(
    129, "capd:below-line", "The message's priority is below what the pool takes now: do more work."
)
FUTURE = Reason.declare(
    130, "capd:future", "The message says that it is from the future: set the clock, or date it back a few seconds."
)
TOO_LARGE = Reason.declare(131, "capd:too-large", "The message has more data than the pool takes in one.")
MALFORMED = Reason.declare(132, "capd:malformed", "The bytes are no CAPD message.")
DISPLACED = Reason.declare(133, "capd:displaced", "Messages of higher priority took the message's place in the pool.")
EXPIRED = Reason.declare(134, "capd:expired", "The message's own expiration has come.")
RESCINDED = Reason.declare(135, "capd:rescinded", "Its sender has rescinded the message.")
FADED = Reason.declare(136, "capd:faded", "The message was ten minutes old, so its priority was used up.")
TOO_MANY_QUERIES = Reason.declare(
    137, "capd:too-many-queries", "The pool keeps no more standing queries: end one, or ask again later."
)
