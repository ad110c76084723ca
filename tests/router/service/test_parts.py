"""Rules made of parts: each gets the events that concern it, in order, and the earliest of their wakes counts."""

from __future__ import annotations

from typing import Any

from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.forms import UnknownMessage
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.parts import Parts

ME = SigningKey(bytes(32)).public


class Listener:
    """A part that records its events and messages, and returns the given deeds."""

    def __init__(self, *deeds: c.Deed) -> None:
        self.deeds = list(deeds)
        self.heard: list[Any] = []

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        self.heard.append(heard)
        return self.deeds

    def read(self, message: c.Message, said: Any, now: c.Now) -> list[c.Deed]:
        self.heard.append(said)
        return [c.Wake(now.wall_s + 1)]


def decode(body: bytes) -> object:
    if body == b"7":
        return 7
    if body == b"word":
        return "word"
    raise UnknownMessage("it is unknown") if body == b"unknown" else Malformed("it is malformed")


def unicast(body: bytes) -> c.Message:
    return c.Message(MessageId(bytes(32)), body, source=ME)


def test_every_part_hears_what_is_no_unicast_and_the_earliest_wake_counts() -> None:
    first, second = Listener(c.Wake(30), c.Leave("a")), Listener(c.Wake(20), c.Leave("b"))
    parts = Parts("bell", (first, second), {}, decode)
    assert parts.hear(c.Started(ME), c.Now(10, 0)) == [c.Leave("a"), c.Leave("b"), c.Wake(20)]
    group = c.Message(MessageId(bytes(32)), b"", group=ME)
    parts.hear(group, c.Now(10, 0))
    assert first.heard == second.heard == [c.Started(ME), group]


def test_a_part_is_woken_by_its_own_wake_alone() -> None:
    first, second = Listener(c.Wake(30)), Listener(c.Wake(20))
    parts = Parts("bell", (first, second), {}, decode)
    parts.hear(c.Started(ME), c.Now(10, 0))
    second.deeds = []
    assert parts.hear(c.Tick(), c.Now(20, 10)) == [c.Wake(30)]
    assert first.heard == [c.Started(ME)] and second.heard == [c.Started(ME), c.Tick()]


def test_a_wake_is_returned_again_only_when_it_changes_or_after_its_tick() -> None:
    part = Listener(c.Wake(20))
    parts = Parts("bell", (part,), {}, decode)
    assert [parts.hear(c.Started(ME), c.Now(10, 0)) for _ in range(2)] == [[c.Wake(20)], []]
    part.deeds = [c.Wake(15)]
    assert parts.hear(c.Started(ME), c.Now(10, 0)) == [c.Wake(15)]
    assert parts.hear(c.Tick(), c.Now(14, 4)) == [c.Wake(15)], "the tick came early"


def test_a_clock_that_is_set_back_delays_no_part_and_one_set_forward_wakes_none_early() -> None:
    """The host has waited for the requested time, whatever the wall clock shows then."""
    part = Listener(c.Wake(1_000_030))
    parts = Parts("bell", (part,), {}, decode)
    parts.hear(c.Started(ME), c.Now(1_000_000, 0))
    part.deeds = []
    assert parts.hear(c.Tick(), c.Now(900_025, 25)) == [c.Wake(900_030)]
    assert parts.hear(c.Tick(), c.Now(2_000_029, 29)) == [c.Wake(2_000_030)]
    assert part.heard == [c.Started(ME)]
    assert parts.hear(c.Tick(), c.Now(900_030, 30)) == [] and part.heard == [c.Started(ME), c.Tick()]


def test_a_unicast_goes_to_the_reader_of_its_type() -> None:
    first, second = Listener(), Listener()
    parts = Parts("bell", (first, second), {int: second}, decode)
    assert parts.hear(unicast(b"7"), c.Now(10, 0)) == [c.Wake(11)]
    assert (first.heard, second.heard) == ([], [7])
    for body, refusal in (
        (b"word", c.Refuse(Reason.UNSUPPORTED, "this node hears no str")),
        (b"unknown", c.Refuse(Reason.UNSUPPORTED, "it is unknown")),
        (b"", c.Refuse(Reason.MALFORMED, "it is malformed")),
    ):
        assert parts.hear(unicast(body), c.Now(10, 0)) == [refusal]
    assert second.heard == [7]


def test_a_question_that_no_part_answers_is_answered() -> None:
    parts = Parts("bell", (Listener(),), {}, decode)
    [refused] = parts.hear(c.Asked(3, "count"), c.Now(0, 0))
    assert isinstance(refused, c.Answer) and refused.number == 3
    assert refused.value["error"].startswith('the service bell has no answer to "count" now, and perhaps is of another')
