"""The members' signed words that this app has been given: each once, however many messages carry them (pure).

Anyone who can read a group can open a member's signed words and seal them again, as a new message of the group. The
member's signature shows that the words are unchanged, and so that they are the same.
"""

from __future__ import annotations

from router.core.wire.crypto import ID_BYTES, MessageId
from router.core.wire.packed_ids import PackedIds

SAID_MAX = 65_536
SAID_KEEP_S = 30 * 86_400
"""Seconds for which a journal remembers members' signed words, because a sender who repeats them chooses another
expiry."""
SAID_AGAIN = "a member of the group sent again what {sender} had said; this app was given it once"


class SaidAgain(Exception):
    """A member's signed words came before, in another message."""


class Said:
    """The newest signed words, `most` at most, each with the message that brought it first: 32 bytes of memory
    each."""

    def __init__(self, most: int = SAID_MAX) -> None:
        self._words = PackedIds(most)
        self._first = PackedIds(most)  # words and message, joined

    def __repr__(self) -> str:
        return f"<{len(self._words)} words of members>"

    def __contains__(self, said: MessageId) -> bool:
        return said in self._words

    def is_first(self, said: MessageId, message: MessageId) -> bool:
        """Whether this message brought these words first, as far as that is remembered."""
        return _joined(said, message) in self._first

    def note(self, said: MessageId, message: MessageId) -> None:
        """Remember words that came for the first time, and the message that brought them."""
        self._words.add(said)
        self._first.add(_joined(said, message))


def _joined(said: MessageId, message: MessageId) -> bytes:
    """Return one id for words and a message: neither can be chosen so that it is that of another pair."""
    return (int.from_bytes(said, "big") ^ int.from_bytes(message, "big")).to_bytes(ID_BYTES, "big")
