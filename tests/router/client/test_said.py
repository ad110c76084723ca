"""Members' signed words, each remembered with the message that brought it first."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from router.client.said import Said
from router.core.wire.crypto import MessageId

DRAW = Random(4)


def an_id() -> MessageId:
    return MessageId(DRAW.randbytes(32))


def test_words_are_known_with_the_message_that_brought_them_first() -> None:
    said, pairs = Said(200), [(an_id(), an_id()) for _ in range(60)]
    for words, message in pairs:
        assert words not in said
        said.note(words, message)
    assert all(words in said and said.is_first(words, message) for words, message in pairs)
    for (words, _), (_, other) in pairwise(pairs):
        assert not said.is_first(words, other) and not said.is_first(words, an_id())


def test_the_newest_words_are_remembered() -> None:
    said, pairs = Said(20), [(an_id(), an_id()) for _ in range(100)]
    for words, message in pairs:
        said.note(words, message)
    kept = [words in said and said.is_first(words, message) for words, message in pairs]
    assert all(kept[-10:]) and sum(kept) <= 20
