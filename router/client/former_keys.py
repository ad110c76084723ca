"""Messages that the former key of a correspondent has signed, after this app was told that the key was renewed.

What was written before the renewal may still be on its way, and no message says when it was signed. So such a message
is given to the app, which is told, until the renewal's `until_s`; afterwards it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from router.core.wire.errors import RouterError
from router.core.wire.renewal import Renewal
from router.core.wire.text import key_text, short

SAY_AGAIN_S = 60.0
"""Least seconds between two sentences about the former key of one correspondent."""


class FormerKey(RouterError):
    """A message is of a key whose place another one has had for so long that nothing honest is on its way."""


class FormerKeys:
    """Judges such messages; `problem` gets a sentence about those that are given to the app."""

    def __init__(self, problem: Callable[[str], None], wall_s: Callable[[], float]) -> None:
        self._problem = problem
        self._wall_s = wall_s
        self._said_s: dict[bytes, float] = {}

    def __repr__(self) -> str:
        return f"<former keys of {len(self._said_s)} correspondents have signed>"

    def judge(self, renewal: Renewal) -> None:
        """Tell of a message that this former key has signed. Raise `FormerKey` if it is to be refused."""
        now_s, former = self._wall_s(), short(key_text("addr", renewal.old))
        if now_s >= renewal.until_s:
            raise FormerKey(f"it is signed by {former}, a key that was renewed; its owner signs by the new one")
        if now_s - self._said_s.get(renewal.old, -inf) >= SAY_AGAIN_S:
            self._said_s[bytes(renewal.old)] = now_s
            new = short(key_text("addr", renewal.new))
            said = f"a message is signed by {former}, a key whose place {new} has taken"
            self._problem(f"{said}: unless it was on its way before, who wrote it is a thief; ask at the new address")
