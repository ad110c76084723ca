"""The sentences about the files of a log, and their remedies."""

from __future__ import annotations

import pytest
from test_sentences import BROKEN_LOG, hole
from test_summary import WHOLE, A, evidence, summary

from spark_analytics.judgement.chain import TWO_HISTORIES
from spark_analytics.judgement.evidence import BEGUN_ANEW, File
from spark_analytics.judgement.log_files import UNLISTED, UNREADABLE, Problem
from spark_analytics.judgement.tails import TAKEN_AWAY


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        (f"holds the event 3 otherwise than a/1: {TWO_HISTORIES}", "Nobody signed these events, and the router signed"),
        (f"tells unsigned events: {TAKEN_AWAY}", "Nobody signed these events, and the router signed others."),
        (f"{UNREADABLE}: no right", "Give the audit the right to read them"),
        ("the lines have another digest", "Put back an unharmed copy"),
    ],
)
def test_what_to_do_about_a_file_is_by_what_is_wrong_with_it(problem: str, remedy: str) -> None:
    bad = evidence(BROKEN_LOG, files=(File("a/2", A, "bad", 3, 4, 9),), problems=(Problem("a/2", 4, problem),))
    [finding] = summary(bad)["findings"]
    assert remedy in finding["remedy"]


def test_a_file_that_is_bad_is_told_once() -> None:
    bad = evidence(BROKEN_LOG, files=(File("a/2", A, "bad", 3, 4, 9),), problems=(Problem("a/2", 4, "odd"),))
    assert len(summary(bad)["findings"]) == 1


@pytest.mark.parametrize(("why", "is_said"), [("no file given holds them", False), (f"x: {BEGUN_ANEW}", True)])
def test_what_to_do_of_a_log_begun_anew(why: str, is_said: bool) -> None:
    [finding] = summary(evidence(BROKEN_LOG, holes=(hole(why),)))["findings"]
    assert ("audit its older log, if there is a copy, for itself" in finding["remedy"]) == is_said


def test_a_directory_that_cannot_be_listed_is_bad() -> None:
    """The directory may contain whole logs."""
    found = summary(evidence(WHOLE, problems=(Problem("a/log", 0, f"{UNLISTED}: Permission denied"),)))
    [finding] = [row for row in found["findings"] if row["level"] == "bad"]
    assert finding["text"].startswith(f"The directory a/log {UNLISTED} (Permission denied). ")
    assert not [row for row in found["findings"] if row["level"] == "warning"]


def test_where_a_fork_makes_a_hole_no_file_is_asked_for() -> None:
    why = "from 3 on the files tell two histories, and none counts"
    [finding] = summary(evidence(BROKEN_LOG, holes=(hole(why),)))["findings"]
    assert finding["remedy"] == "Audit each of the two histories for itself."
