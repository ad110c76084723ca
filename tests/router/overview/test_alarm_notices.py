"""Alarms of the node about itself are notices: the bad ones first, each with what to do."""

from __future__ import annotations

from collections import Counter

from router.overview.facts import NodeFacts, with_answer
from router.overview.notices import ATTENTION, BAD, Notice, Situation, headline, notices


def test_alarms_are_notices_and_bad_ones_are_the_headline() -> None:
    rows = [
        {"alarm": "queue-filling", "level": "warning", "peer": "ab", "text": "the queue of bob is full; bring it back"},
        {"alarm": "unaccounted", "level": "bad", "peer": "cd", "text": "the log says so; keep both"},
    ]
    seen = Situation(with_answer(NodeFacts(), "status", {"address": "ef", "alarms": rows}), {}, Counter(), 0)
    found = notices(seen)
    assert found == [
        Notice(BAD, "The log says so.", "Keep both."),
        Notice(ATTENTION, "The queue of bob is full.", "Bring it back."),
    ]
    assert headline(seen, found) == found[0]


def test_a_key_that_another_one_has_the_place_of_is_the_headline() -> None:
    said = {"at": ["ab"], "problem": "this node's key was renewed and another has its place at hub; restore a snapshot"}
    found = notices(Situation(with_answer(NodeFacts(), "status", {"superseded": said}), {}, Counter(), 0))
    expected = "This node's key was renewed and another has its place at hub."
    assert found == [Notice(BAD, expected, "Restore a snapshot.")]
