"""The messages that a refusal for now holds back, and for how long."""

from __future__ import annotations

from router.core.routing.backoff import StreamBackoff

FIRST, SECOND, THIRD = (b"a", None), (b"a", b"x"), (b"b", None)
PAUSE_S = 1.0, 4.0


def test_a_stream_waits_by_itself_and_begins_again_where_it_was_held() -> None:
    held = StreamBackoff()
    assert not held and held.due(0) is None
    assert held.refuse(FIRST, 7, 10, PAUSE_S, 8) and held.refuse(SECOND, 5, 10.5, PAUSE_S, 8)
    assert held.holds_back(FIRST) and held.holds_back(SECOND) and not held.holds_back(THIRD)
    assert held.due(10.9) is None
    assert held.due(11) == 7 and not held.holds_back(FIRST) and held.holds_back(SECOND)
    assert held.due(12) == 5 and held.due(13) is None
    assert repr(held) == "<2 streams that were refused for now>"


def test_one_pause_for_all_that_is_refused_before_it_is_over() -> None:
    held = StreamBackoff()
    for arrival in (9, 8, 10):
        held.refuse(FIRST, arrival, 10, PAUSE_S, 8)
    assert held.due(11) == 8


def test_pauses_double_to_a_limit_and_what_is_taken_ends_that() -> None:
    held, now_s, pauses = StreamBackoff(), 0.0, []
    for _ in range(4):
        held.refuse(FIRST, 1, now_s, PAUSE_S, 8)
        begun_s = now_s
        while held.due(now_s) is None:
            now_s += 1
        pauses.append(now_s - begun_s)
    assert pauses == [1, 2, 4, 4]
    held.took(FIRST)
    assert not held


def test_what_is_taken_while_it_waits_does_not_let_it_go_early() -> None:
    held = StreamBackoff()
    held.refuse(FIRST, 1, 0, PAUSE_S, 8)
    held.took(FIRST)
    assert held.holds_back(FIRST)
    assert held.due(1) == 1
    held.refuse(FIRST, 1, 1, PAUSE_S, 8)
    assert held.due(2) == 1, "a short pause again"


def test_what_is_passed_over_is_where_it_begins_again() -> None:
    held = StreamBackoff()
    held.refuse(FIRST, 7, 0, PAUSE_S, 8)
    assert held.passes_over(FIRST, 5) and not held.passes_over(SECOND, 3)
    assert held.due(1) == 5 and not held.passes_over(FIRST, 5)


def test_nothing_is_tried_again_while_something_of_its_stream_is_in_flight() -> None:
    held = StreamBackoff()
    held.refuse(FIRST, 7, 0, PAUSE_S, 8)
    assert held.due(1, {FIRST}) is None and held.due(2, {SECOND}) == 7


def test_streams_are_limited_and_forgotten() -> None:
    held = StreamBackoff()
    assert held.refuse(FIRST, 1, 0, PAUSE_S, 1) and not held.refuse(SECOND, 2, 0, PAUSE_S, 1)
    assert held.refuse(FIRST, 3, 0, PAUSE_S, 1), "one that is known needs no more room"
    held.forget(FIRST)
    assert not held
    held.refuse(FIRST, 1, 0, PAUSE_S, 1)
    held.clear()
    assert not held
