"""Repeated lines on standard error are counted instead of printed."""

from __future__ import annotations

import logging

import pytest

from router.actors.few_of_a_kind import FewOfAKind
from router.core.wire.text import SUBJECT


def record(at_s: float, line: int = 1, subject: object = None, level: int = logging.WARNING) -> logging.LogRecord:
    """Return a line logged at that second, about something else each time unless a subject is given."""
    about = at_s if subject is None else subject
    found = logging.LogRecord("router", level, "router/service.py", line, "%s was refused", (about,), None)
    found.created = at_s
    return found


def test_a_flood_of_one_kind_is_cut_off_and_counted_and_others_are_not() -> None:
    few = FewOfAKind(lines_max=3, span_s=10)
    assert [few.filter(record(at)) for at in range(8)] == [True] * 3 + [False] * 5
    assert few.filter(record(8, line=2)), "another place has its own count"
    later = record(10)
    assert few.filter(later)
    assert later.getMessage() == "10 was refused (and 5 more lines like this since the last one)"
    again = record(11)
    assert few.filter(again) and again.getMessage() == "11 was refused"


def test_of_equal_lines_in_a_row_the_first_is_printed_and_the_rest_are_counted() -> None:
    few = FewOfAKind(lines_max=10, span_s=10)
    assert [few.filter(record(at, subject="it")) for at in (0, 1, 2)] == [True, False, False]
    assert few.filter(record(3, line=2, subject="it")) and few.filter(record(4, subject="it")), "not in a row"
    later = record(10, subject="it")
    assert few.filter(later)
    assert later.getMessage() == "it was refused (and 2 more lines like this since the last one)"


def test_equal_errors_are_printed() -> None:
    few = FewOfAKind(lines_max=10, span_s=10)
    assert all(few.filter(record(at, subject="it", level=logging.ERROR)) for at in range(9))


def test_line_whose_arguments_do_not_fit_ends_nothing_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    odd, handler = record(0, subject="no number"), logging.StreamHandler()
    odd.msg = "%d"
    handler.addFilter(FewOfAKind())
    handler.handle(odd)
    assert "--- Logging error ---" in capsys.readouterr().err


def test_of_two_services_that_log_at_one_place_each_has_its_own_count() -> None:
    few = FewOfAKind(lines_max=3, span_s=10)
    lines = {name: [record(at) for at in range(5)] for name in ("bell", "pubsub")}
    for name, those in lines.items():
        for one in those:
            one.__dict__[SUBJECT] = name
        assert [few.filter(one) for one in those] == [True] * 3 + [False] * 2, name


def test_what_is_rare_is_always_written() -> None:
    few = FewOfAKind(lines_max=1, span_s=10)
    assert all(few.filter(record(at)) for at in range(0, 100, 10))
