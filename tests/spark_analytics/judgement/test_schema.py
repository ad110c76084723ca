"""The analytics read the log with the columns and words with which the router writes it."""

import pytest

from router.core.log import events
from router.core.log.line import COLUMNS as WRITTEN
from router.core.log.segment import SCHEMA as WRITTEN_SCHEMA
from router.core.log.segment import file_name
from router.disk.log.eventlog import ASIDE, PRUNED
from spark_analytics.judgement import schema


def test_the_columns_are_those_that_the_router_writes() -> None:
    assert list(schema.COLUMNS.items()) == list(WRITTEN.items())
    assert schema.SCHEMA == WRITTEN_SCHEMA


def test_the_words_are_those_that_the_router_writes() -> None:
    assert set(schema.OUTWARD_EVENTS) == events.OUTWARD_EVENTS
    assert set(schema.TURNED_EVENTS) == events.TURNED_EVENTS
    assert set(schema.STATE_EVENTS) == events.STATE_EVENTS
    assert set(schema.ENDS) < set(schema.OUTWARD_EVENTS)


@pytest.mark.parametrize(
    ("path", "role", "seq"),
    [
        ("log/" + file_name(10), "segment", 10), (file_name(10), "segment", 10), ("tail-44.jsonl", "tail", 44),
        (f"s3://bucket/a/{PRUNED}", "pruned", None), (f"log/{ASIDE}{file_name(7)}", "aside", None),
        (".open-0000000000000010", None, None), ("log/events-10.jsonl", None, None), ("notes.txt", None, None),
        ("events-0000000000000010.jsonl/", None, None), (".pruned.jsonl.ab12", None, None),
    ],
)  # fmt: skip
def test_a_name_says_what_a_file_is(path: str, role: str | None, seq: int | None) -> None:
    assert (schema.role(path), schema.named_seq(path)) == (role, seq)
