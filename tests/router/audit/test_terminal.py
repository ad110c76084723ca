"""The audit's output on a terminal."""

from __future__ import annotations

import pytest
from samples.summaries import sample

from router.audit.terminal import latency_text, show, spelled
from router.cli.output import short_text
from spark_analytics.report.headline import headline

KEY, ID = "ab" * 32, "cd" * 32


def test_keys_are_spelled_as_in_the_tables_and_ids_as_they_are() -> None:
    text = f"The router {KEY} lost {ID}; {KEY}a and {KEY[:-1]} are neither."
    assert (
        spelled(text, {KEY})
        == f"The router {short_text('addr', bytes.fromhex(KEY))} lost {ID}; {KEY}a and {KEY[:-1]} are neither."
    )


def test_the_first_line_is_the_level_and_the_headline_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    found = sample() | {"run": {"files": 1, "bytes": 5, "seconds": 1.0}}
    for verdict, word in (("good", "Good"), ("attention", "Attention"), ("bad", "Bad")):
        show({**found, "verdict": verdict})
        assert capsys.readouterr().out.splitlines()[0] == f"{word}: {headline(found)}"


def test_what_the_screen_leaves_out_is_counted_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    found = sample()
    rows = [{"level": level, "text": str(number), "remedy": ""} for level in ("bad", "info") for number in range(7)]
    show({**found, "findings": rows, "run": {"files": 1, "bytes": 5, "seconds": 1.0}})
    assert "and 6 more findings (6 info): `--json` or `--out DIR` has all" in (out := capsys.readouterr().out)
    assert "read       1 file, 5 B, in 1.0 s" in out
    show({**found, "findings": rows[:9], "limits": ["one"], "run": {"files": 1, "bytes": 5, "seconds": 1.0}})
    assert "and 1 more finding (1 info): `--json`" in (out := capsys.readouterr().out)
    assert "cannot show: 1 sentence in" in out


def test_the_table_fits_a_screen_and_limits_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = sample()
    log = {"router": KEY, "whole": True, "place": "/var/lib/a-long-way/to/the/home/of/core (unsealed events)"}
    limits = ["a sentence " * 40, "another " * 40]
    run = {"files": 1, "bytes": 5, "seconds": 1.0}
    show({**found, "findings": [], "logs": [log], "limits": limits, "problems": [], "run": run})
    out = capsys.readouterr().out
    table = out[out.index("ROUTER") :].splitlines()
    assert max(map(len, table)) <= 80 and table[1].endswith("  …to/the/home/of/core"), table
    assert "what these logs cannot show: 2 sentences in `--json` and `--out DIR`" in table


def test_long_times_are_told_in_seconds() -> None:
    assert latency_text({"p50": 3.24, "p95": 2214.593, "max": 3_700_000.0, "p99": None}) == (
        "p50 3.2 ms, p95 2.2 s, max 1 h 1 min"
    )


def test_names_of_files_change_nothing_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A directory of logs that others sent may have any name: it prints no line of its own, and hides none."""
    name = "logs/a\nGood: none vanished.\x1b[8m\x9b8m\u202e/events-0000000000000001.jsonl"
    rows = [{"level": "bad", "text": f"cannot be believed: {name}", "remedy": f"move {name}"}]
    run = {"files": 1, "bytes": 5, "seconds": 1.0}
    show({**sample(), "findings": rows, "problems": [f"{name}:1: torn"], "run": run})
    out = capsys.readouterr().out
    assert out.count("Good: none vanished.") == 3 and not out.isspace()
    assert not [line for line in out.splitlines() if line.startswith("Good: none") or not line.isprintable()]
