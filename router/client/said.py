"""The members' signed words that this app has been given: each once, however many messages carry them (pure).

Anyone who can read a group can open a member's signed words and seal them again, as a new message of the group. The
member's signature shows that the words are unchanged, and so that they are the same.
"""

from __future__ import annotations

from collections import OrderedDict

from router.core.wire.crypto import MessageId

SAID_MAX = 65_536
SAID_KEEP_S = 30 * 86_400
"""Seconds for which a journal remembers members' signed words, because a sender who repeats them chooses another
expiry."""
SAID_AGAIN = "a member of the group sent again what {sender} had said; this app was given it once"


class SaidAgain(Exception):
    """A member's signed words came before, in another message."""


class Said:
    """The newest `most` signed words, each with the message that brought it first: some 260 bytes of memory each."""

    def __init__(self, most: int = SAID_MAX) -> None:
        self._most = most
        self._first: OrderedDict[MessageId, MessageId] = OrderedDict()

    def __repr__(self) -> str:
        return f"<{len(self._first)} words of members>"

    def first(self, said: MessageId) -> MessageId | None:
        """Return the message that brought these words first; None if none is remembered."""
        return self._first.get(said)

    def note(self, said: MessageId, message: MessageId) -> None:
        self._first[said] = message
        if len(self._first) > self._most:
            self._first.popitem(last=False)
