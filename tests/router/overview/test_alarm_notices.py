"""Alarms of the node about itself are notices: the bad ones first, each with what to do."""

from __future__ import annotations

from collections import Counter

from router.core.wire.text import key_text, short
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


def test_a_full_queue_is_told_once_and_by_the_address_that_commands_take() -> None:
    full, other = "72" * 32, "73" * 32
    rows = [
        {"alarm": "queue-filling", "level": "warning", "peer": one, "text": f"the queue of {one} is full; drop it"}
        for one in (full, other)
    ]
    facts = with_answer(NodeFacts(), "status", {"alarms": rows})
    waiting = {"recipient": full, "messages": 20, "limit_messages": 20, "limit_bytes": 1}
    found = notices(Situation(with_answer(facts, "queue", [waiting]), {}, Counter(), 0))
    [first, second] = found
    address = key_text("addr", bytes.fromhex(full))
    assert first.text == f"The queue of {short(address)} is 100 % full." and full not in first.remedy
    assert f"`router queue drop {address}` clears" in first.remedy
    assert second.text == f"The queue of {other} is full."
    named = with_answer(facts, "queue", [waiting | {"name": "my laptop"}])
    [first, _] = notices(Situation(named, {}, Counter(), 0))
    assert f"`router queue drop {address}` clears" in first.remedy
