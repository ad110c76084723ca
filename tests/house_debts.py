"""What breaks the house rules for now: each list may only shrink."""

from __future__ import annotations

LONG = frozenset({
    "router/core/routing/admission.py:admit",
    "router/core/routing/delivery.py:Delivery",
    "router/core/routing/examination.py:examine",
    "router/node/limits.py:core_limits",
})  # fmt: skip
"""Functions and classes over the limit, by file and name."""

HOOKED = frozenset({
    "router/core/link/session.py:machine",
})  # fmt: skip
"""Parts that another object's methods assign to, by its file and their name in it."""

SHARED_NAMES = {
    "router": "Answer CaughtUp Join Leave Link Message Node Now Pull Refused Store",
    "services/dmq": "MsgDone St",
}
"""Public class names that several files of a room define, by the room."""
