"""A service's question to its own router, as an operator asks it."""

from __future__ import annotations

from typing import Any, Literal

from router.core.wire.heard import Heard

from .verb import Deed

INQUIRIES_MAX = 64
"""Most questions of one service that wait for their answers; further ones are answered with an error at once."""

Word = Literal["status", "peers", "queue", "groups", "metrics", "service", "why"]


class Inquire(Deed, frozen=True):
    """Ask the own router what its operator may ask: `status`, `peers`, `queue`, `groups`, `metrics` (counts, load, and
    why the node is not ready), `service` with the name of another service, which answers as to `status`, or `why` with
    the id of a message; `Told` with the same tag answers. 64 may wait, and each costs the router about a millisecond,
    so ask when somebody wants to know."""

    word: Word
    argument: str = ""
    tag: str = ""


class Told(Heard, frozen=True):
    """The answer to the `Inquire` with this tag: a JSON value, as the command of that name prints it with `--json`, or
    why there is none (`error`). `is_stopping`: because the node stops."""

    tag: str
    word: str
    answer: Any = None
    error: str = ""
    is_stopping: bool = False
