"""Answers about messages say that the node was restored, where the life before may have ended them."""

from __future__ import annotations

import pytest

from router.core.log.life import Restored
from router.core.why.id_prefix import parse_prefix
from router.disk.log.search import LogSnapshot, Search
from router.why.answers import not_one
from router.why.restored import with_restore

RESTORED = Restored(1_790_100_000_000, 1_790_000_000, 1_790_100_000)
SAID = (
    "restored on 2026-09-22 18:00:00 UTC from a snapshot of 2026-09-21 14:13:20 UTC; what it did in between is not in "
    "its log"
)


@pytest.mark.parametrize(
    ("accepted_s", "is_told"), [(None, True), (1_780_000_000, True), (1_790_050_000, True), (1_790_100_001, False)]
)
def test_of_a_message_accepted_before_the_restore_it_is_told(accepted_s: int | None, is_told: bool) -> None:
    answer = {"message": "ab", "accepted_ns": accepted_s and accepted_s * 10**9}
    assert with_restore(answer, None) == answer
    assert with_restore(answer, RESTORED) == (answer | {"restored": SAID} if is_told else answer)


def test_a_life_that_began_as_the_node_was_kept_of_several_is_told_as_such() -> None:
    kept = Restored(1_790_100_000_000, 1_790_100_000, 1_790_100_000)
    said = "kept on 2026-09-22 18:00:00 UTC, as another node ran with its key; what that one did is not in this log"
    assert with_restore({"accepted_ns": None}, kept)["restored"] == said


def test_of_a_message_that_is_not_known_the_error_tells_it() -> None:
    unknown = not_one("abcd", Search(LogSnapshot([], [], 0)).find(parse_prefix("abcd")))
    assert with_restore(unknown, RESTORED)["error"] == f"{unknown['error']}; this node was {SAID}"
    other = {"error": "the node is busy"}
    assert with_restore(other, RESTORED) == other and with_restore(unknown, None) == unknown
