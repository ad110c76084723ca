"""A question's file: its header, its parameters, its names; all files of the folder are of the form."""

from __future__ import annotations

import re
from time import time_ns

import pytest

from router.audit.ask.catalogue import QUESTIONS, all_questions
from router.audit.ask.question import QuestionError, choose_question, parse_question
from router.audit.publish import GOLD
from router.core.wire.text import key_text

TEXT = """-- Which?
-- id: id; the id
-- at: time = 2026-03-12; the time
-- level: level = info; the level
-- limit: number = 20; how many rows
WITH found AS (SELECT * FROM message WHERE id LIKE concat($id, '%') AND first_t <= $at AND level = $level)
SELECT id FROM found JOIN delivery ON TRUE LIMIT $limit"""
RAW = bytes(range(32))
DAY_NS = 86_400 * 10**9


def test_a_question_has_what_its_header_says() -> None:
    found = parse_question("which one", TEXT)
    assert (found.asks, found.tables, found.usage) == ("Which?", ("delivery", "message"), '"which one" id=ID')
    assert [(one.name, one.kind, one.default) for one in found.parameters] == [
        ("id", "id", None), ("at", "time", "2026-03-12"), ("level", "level", "info"), ("limit", "number", "20"),
    ]  # fmt: skip


@pytest.mark.parametrize("said", ["0A1b2", RAW.hex(), key_text("msg", RAW)])
def test_parameters_become_literals(said: str) -> None:
    given = {"id": said, "limit": "007", "at": "1970-01-01T00:00:01", "level": "Bad "}
    sql = parse_question("which one", TEXT).filled(given)
    digits = RAW.hex() if len(said) > 5 else "0a1b2"
    assert f"concat('{digits}', '%') AND first_t <= 1000000000 AND level = 'bad')" in sql and sql.endswith("LIMIT 7")


def test_a_time_may_be_said_by_how_long_ago_it_was() -> None:
    before = time_ns() - DAY_NS
    sql = parse_question("which one", TEXT).filled({"id": "abcd", "at": "1d"})
    found = re.search(r"first_t <= (\d+)", sql)
    assert found is not None and before - 1000 <= int(found[1]) <= time_ns() - DAY_NS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, '"which one" needs id, the id: router ask OUT "which one" id=ID'),
        ({"id": "abcd", "limits": "3"}, 'has no parameter "limits": it has id, at, level, limit'),
        ({"id": "abc"}, "too short to look up"),
        ({"id": "' OR TRUE --"}, "not the beginning of a message id"),
        ({"id": "abcd", "limit": "0"}, "a whole number from 1 to 1,000,000 is needed"),
        ({"id": "abcd", "limit": "1; DROP TABLE message"}, "a whole number from 1"),
        ({"id": "abcd", "limit": "²"}, "a whole number from 1"),
        ({"id": "abcd", "level": "worst"}, 'level="worst": a level is needed: bad, warning, info'),
        ({"id": "abcd", "level": "' OR TRUE --"}, "a level is needed"),
        ({"id": "abcd", "at": "soon"}, "'soon' is no time: write 2026-03-12"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_a_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(QuestionError) as raised:
        parse_question("which one", TEXT).filled(given)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1", "must begin with a comment line"),
        ("-- Which?", "and go on with SQL"),
        ("-- Which?\n-- limit number\nSELECT 1", "is no parameter: write"),
        ("-- Which?\n-- limit: colour; which\nSELECT $limit", "is no parameter: write"),
        ("-- Which?\nSELECT $limit", "the SQL uses the parameters ['limit']"),
        ("-- Which?\n-- limit: number; rows\nSELECT 1", "the header names others"),
    ],
)
def test_a_file_that_is_not_of_the_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_question("odd", text)
    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["hot groups", "Hot-Groups", "hot_groups ", "HOT  groups"])
def test_a_name_is_found_in_any_spelling(name: str) -> None:
    assert choose_question(all_questions(), name).name == "hot groups"


@pytest.mark.parametrize(
    ("name", "said"),
    [("hot group", "did you mean hot groups"), ("the readers", '"hot readers"'), ("zzz", "`router ask OUT` lists")],
)
def test_an_unknown_name_gets_the_nearest(name: str, said: str) -> None:
    with pytest.raises(QuestionError) as raised:
        choose_question(all_questions(), name)
    assert said.replace('"', "") in str(raised.value).replace('"', "")


def test_every_file_is_a_question_with_a_limit_about_published_tables() -> None:
    found = all_questions()
    assert len(found) == len(list(QUESTIONS.iterdir()))
    for one in found.values():
        assert one.tables and {*one.tables} <= {*GOLD}, one.name
        assert one.asks[0].isupper() and one.asks[-1] in "?.", one.name
        assert one.sql.rstrip().endswith("LIMIT $limit"), f"{one.name}: an answer must be bounded"
        assert "ORDER BY" in one.sql.splitlines()[-2], f"{one.name}: which rows are in the answer must be certain"
