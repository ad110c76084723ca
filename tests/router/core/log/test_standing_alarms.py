"""Each alarm is said once when it is raised and once when it is over; what stands follows from the events alone."""

from __future__ import annotations

import pytest

from router.core.log.alarms import CLOCK, EACH_MAX, FILLING, GAP, LEVELS, UNACCOUNTED, Fields, NodeAlarm, StandingAlarms
from router.core.wire.text import key_text

ALICE, BOB = bytes((1,)) * 32, bytes((2,)) * 32


class Log:
    """What a log says of alarms, and what a node that reads it again knows."""

    def __init__(self) -> None:
        self.alarms, self.said = StandingAlarms(), list[Fields]()

    def find(
        self, *found: NodeAlarm, kinds: tuple[str, ...] = (UNACCOUNTED,), at_s: int = 7
    ) -> list[tuple[object, object]]:
        new = self.alarms.changes(found, kinds, at_s)
        self.said += new
        for fields in new:
            self.alarms.note(fields)
        again = StandingAlarms()
        for fields in self.said:
            again.note(fields)
        loaded = StandingAlarms()
        loaded.load(self.alarms.rows())
        assert set(again) == set(self.alarms) == set(loaded), "what stands is in the log"
        return [(dict(fields)["state"], dict(fields).get("peer", b"")) for fields in new]


def test_an_alarm_is_raised_once_and_over_once() -> None:
    log = Log()
    lost = NodeAlarm(UNACCOUNTED, ALICE, 1, 9)
    assert log.find(lost) == [("raised", ALICE)]
    assert log.find(lost) == []
    assert log.find(lost, NodeAlarm(UNACCOUNTED, BOB, 2)) == [("raised", BOB)]
    assert log.find(kinds=(CLOCK, GAP)) == [], "of kinds that were not looked for nothing is over"
    more = NodeAlarm(UNACCOUNTED, ALICE, 3)
    assert log.find(more, NodeAlarm(UNACCOUNTED, BOB, 2)) == [("raised", ALICE)], "more is lost"
    [stands] = [one for one in log.alarms if one.recipient == ALICE]
    assert (stands.number, stands.since_s) == (3, 7)
    assert log.find(NodeAlarm(UNACCOUNTED, BOB, 1)) == [("over", ALICE)]
    assert log.find() == [("over", BOB)] and not len(log.alarms)


def test_a_queue_that_fills_faster_is_not_said_again_and_the_most_urgent_are_named() -> None:
    log = Log()
    queues = [NodeAlarm(FILLING, bytes((n,)) * 32, 3600 - n) for n in range(EACH_MAX + 3)]
    said = log.find(*queues, kinds=(FILLING,))
    assert len(said) == EACH_MAX + 1 and said[-1] == ("raised", b"")
    assert ("raised", queues[0].recipient) not in said, "the last to be full"
    assert log.find(*(one._replace(number=60) for one in queues), kinds=(FILLING,)) == []
    assert {one.since_s for one in log.alarms} == {7}


def test_the_alarm_without_a_recipient_counts_all_that_are_not_named_and_itself() -> None:
    log = Log()
    log.find(NodeAlarm(UNACCOUNTED, b"", 9))
    many = [NodeAlarm(UNACCOUNTED, bytes((n,)) * 32, 1) for n in range(1, EACH_MAX + 3)]
    log.find(NodeAlarm(UNACCOUNTED, b"", 9), *many)
    assert {one.recipient: one.number for one in log.alarms}[b""] == 9 + 2
    assert len(log.alarms) == EACH_MAX + 1


def test_nothing_stands_since_a_second_that_is_still_to_come() -> None:
    alarms = StandingAlarms()
    for recipient, since_s in ((ALICE, 86_400), (BOB, 5)):
        alarms.note(NodeAlarm(UNACCOUNTED, recipient, 1, since_s=since_s).fields("raised"))
    alarms.settle(7)
    assert [one.since_s for one in alarms] == [7, 5]
    assert [dict(one)["since_s"] for one in alarms.changes([], (UNACCOUNTED,), 9)] == [7, 5]


@pytest.mark.parametrize("kind", [*LEVELS, "of-a-later-version"])
def test_the_sentence_says_what_is_wrong_and_what_to_do(kind: str) -> None:
    for recipient in (ALICE, b""):
        said = NodeAlarm(kind, recipient, 1200, 4).text("alice", "/home/node")
        assert said.count("; ") == 1 and all(said.split("; ")), said
        assert ("alice" in said) is bool(recipient) or kind in (CLOCK, GAP)
    assert "1,200" in said or "20 min" in said or "1200" in said


def test_commands_in_the_sentence_can_be_typed_as_they_are() -> None:
    address = key_text("addr", ALICE)
    for name in ("", "alice"):
        full = NodeAlarm(FILLING, ALICE).text(name, "/home/node")
        assert full.endswith(f"clear it: `router queue drop {address}`") and ALICE.hex()[:8] not in full
    assert (
        NodeAlarm(UNACCOUNTED, ALICE, 6)
        .text("", "/home/node")
        .startswith(f"the log says that 6 messages for {address} ")
    )
    assert "`router audit /home/node` names" in NodeAlarm(UNACCOUNTED, ALICE, 6).text("", "/home/node")


def test_fields_that_are_no_alarm_change_nothing() -> None:
    alarms = StandingAlarms()
    for fields in ((("alarm", 7),), (("alarm", UNACCOUNTED), ("peer", "text"), ("state", "raised")), ()):
        alarms.note(fields)
    assert not len(alarms)
    with pytest.raises((ValueError, TypeError)):
        alarms.load([[1, 2]])
    for n in range(1000):
        alarms.note((("alarm", f"kind-{n}"), ("state", "raised")))
    assert len(alarms) == len(LEVELS) * (EACH_MAX + 1)
