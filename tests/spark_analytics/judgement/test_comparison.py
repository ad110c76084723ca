"""What the heads of logs in another audit's summary show about the logs that are given here."""

from __future__ import annotations

import json

import pytest

from spark_analytics.judgement.chain import Seal
from spark_analytics.judgement.comparison import (
    ABSENT,
    BEYOND,
    OTHER,
    SAME,
    UNKNOWN,
    Head,
    NotASummary,
    compared,
    heads_in,
)

ROUTER, STRANGER, DIGEST = "a" * 64, "b" * 64, "d" * 64
SEALS = (
    Seal(ROUTER, 1, 40, None, "d40", 3, False, "pruned.jsonl"),  # three footers folded into one
    Seal(ROUTER, 41, 50, "d40", "d50", 1, True, "events-41"),
    Seal(ROUTER, 51, 60, "d50", "d60", 1, True, "events-51"),
)


@pytest.mark.parametrize(
    ("event", "digest", "result", "path"),
    [(60, "d60", SAME, ""), (50, "d50", SAME, ""), (40, "d40", SAME, ""), (60, "x", OTHER, "events-51"),
     (55, "x", OTHER, "events-51"), (40, "x", OTHER, "pruned.jsonl"), (20, "x", UNKNOWN, ""), (61, "d60", BEYOND, "")],
)  # fmt: skip
def test_a_head_is_on_this_history_or_on_another_one(event: int, digest: str, result: str, path: str) -> None:
    [found] = compared([Head("theirs", ROUTER, event, digest)], SEALS)
    assert found == ("theirs", ROUTER, event, digest, result, path, 60)


def test_of_a_log_that_is_not_given_nothing_is_known() -> None:
    [found] = compared([Head("theirs", STRANGER, 5, "x")], SEALS)
    assert (found.result, found.last) == (ABSENT, 0)


def test_heads_are_read_from_a_summary_each_once() -> None:
    rows = [{"router": ROUTER, "event": 60, "digest": DIGEST}] * 2
    found = heads_in("theirs", json.dumps({"verdict": "good", "heads": rows}).encode())
    assert found == (Head("theirs", ROUTER, 60, DIGEST),)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is no JSON"), (b"[" * 100_000, "is no JSON"), (b"\xff", "is no JSON"), (b"7", "is no summary of an audit"),
     (b"{}", "is no summary"), (b'{"verdict": "good"}', "names no heads of logs: make that audit again"),
     (b'{"verdict": "good", "heads": []}', "names no head of a log, so nothing can be compared"),
     (b'{"verdict": "good", "heads": 7}', "in another form"),
     (b'{"verdict": "good", "heads": [{}]}', "in another form"),
     (b'{"verdict": "good", "heads": [{"router": 1, "event": "x", "digest": ""}]}', "in another form")],
)  # fmt: skip
def test_what_is_no_summary_is_refused_with_what_to_name(content: bytes, said: str) -> None:
    with pytest.raises(NotASummary, match=said):
        heads_in("theirs", content)


@pytest.mark.parametrize(
    "odd",
    [{"event": "1e999"}, {"event": "Infinity"}, {"event": "NaN"}, {"event": "60.5"}, {"event": "true"}, {"event": "-1"},
     {"event": "9223372036854775808"}, {"event": '"60"'}, {"router": '"addr1\\u001b[2J"'}, {"router": '"\\ud800"'},
     {"router": f'"{ROUTER.upper()}"'}, {"router": f'"{ROUTER}\\n"'}, {"digest": '"d60"'}, {"digest": "[]"}],
)  # fmt: skip
def test_a_head_that_no_log_has_is_refused_and_goes_nowhere(odd: dict[str, str]) -> None:
    """The summary comes from somebody else, and what it names goes into tables and onto the terminal."""
    row = {"router": f'"{ROUTER}"', "event": "60", "digest": f'"{DIGEST}"', **odd}
    head = ", ".join(f'"{name}": {value}' for name, value in row.items())
    text = f'{{"verdict": "good", "heads": [{{{head}}}]}}'
    with pytest.raises(NotASummary, match="in another form"):
        heads_in("theirs", text.encode())
