"""Spans of time on the command line, the program's versions, and what a shell completes, by value."""

from __future__ import annotations

import json
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from router.actors.process import program
from router.cli import main
from router.cli.completion import SHELLS, VARIABLE
from router.cli.invite import SpanParameter
from router.cli.move import _since_s
from router.cli.spans import Minutes, Seconds, WholeMinutes, WholeSeconds
from router.cli.version import versions
from router.cli.when import When
from router.settings.durations import UNITS_S, is_of_seconds, span_s, with_seconds


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [(Seconds(0), "90", 90.0), (Seconds(0), "1.5", 1.5), (Seconds(0), "1.5h", 5400.0), (Seconds(0), "500m", 30_000.0),
     (WholeSeconds(0), "0", 0), (WholeSeconds(0), "5d", 432_000), (WholeSeconds(0), "1.5m", 90),
     (WholeMinutes(1), "90", 90), (WholeMinutes(1), "2w", 20_160), (WholeMinutes(1), "90s", None),
     (WholeMinutes(1), "120s", 2),
     (Minutes(0), "1.5", 1.5), (Minutes(0), "90s", 1.5), (Minutes(0), "1h", 60.0),
     (When(), "2d", -172_800.0), (When(), "1.5h", -5400.0)],
)  # fmt: skip
def test_a_span_has_its_unit_or_that_of_the_option(kind: click.ParamType[Any], text: str, found: float | None) -> None:
    if found is None:
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)
    else:
        assert kind.convert(text, None, None) == found


@pytest.mark.parametrize("text", ["", "d", "5 d", "5D", "-5d", "5dd", "1e3d", "nan", "nand", "1234567890123456d", "٣d"])
@pytest.mark.parametrize("kind", [Seconds(0), WholeSeconds(0), WholeMinutes(1)], ids=lambda kind: type(kind).__name__)
def test_what_is_no_span_is_refused_in_words(kind: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is no (whole )?number of (seconds|minutes), nor a number with its"):
        kind.convert(text, None, None)


def test_every_unit_is_the_one_before_times_so_much() -> None:
    assert [span_s(f"1{unit}") for unit in UNITS_S] == [1, 60, 3600, 24 * 3600, 7 * 24 * 3600]


def test_settings_of_seconds_may_be_spans() -> None:
    given = {"ttl_s": "5d", "a": [{"retry_s_max": "1.5m"}, "5d"], "pulls_per_s": "5d", "name": "5d", "idle_s": "5x"}
    found = {"ttl_s": 432_000, "a": [{"retry_s_max": 90}, "5d"], "pulls_per_s": "5d", "name": "5d", "idle_s": "5x"}
    assert with_seconds(given) == found
    assert with_seconds("0.5s", "hello_s") == 0.5
    assert not is_of_seconds("handshakes_per_s_per_prefix")


def test_an_invitation_lasts_for_a_span_or_until_a_time() -> None:
    until = datetime.now(UTC) + timedelta(days=30)
    assert abs(SpanParameter().convert(until.isoformat(), None, None) - 30 * 86_400) < 300
    with pytest.raises(click.BadParameter, match="nor a time to come"):
        SpanParameter().convert("2020-01-01", None, None)


def test_an_address_is_not_announced_from_a_time_that_is_over() -> None:
    with pytest.raises(click.BadParameter, match="1970-01-02 00:00 UTC is over: leave --since out"):
        _since_s(86_400 * 10**9)
    assert _since_s(-3600.0) > time.time() + 3500


def test_a_message_lives_for_as_many_days_as_are_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--home", str(tmp_path), "pub", "friends", "x", "--ttl", "50000d"])
    assert result.exit_code == 2 and "4320000000 is not in the range" in result.output
    result = CliRunner().invoke(main, ["--home", str(tmp_path), "pub", "friends", "x", "--ttl", "99999999999d"])
    assert result.exit_code == 2 and "8639999999913600 is not in the range" in result.output


@pytest.mark.parametrize("option", [["--minutes", "25h"], ["--seconds", "25h"]])
def test_chaos_reads_spans(option: list[str]) -> None:
    result = CliRunner().invoke(main, ["chaos", *option])
    assert result.exit_code == 2 and "is not in the range" in result.output


def test_the_version_is_told_to_people_and_with_json_all_versions_to_programs() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"router, version {versions()['router']}\n"
    for arguments in (["--version", "--json"], ["--json", "--version"]):
        found = json.loads(CliRunner().invoke(main, arguments).output)
        assert found == versions() and set(found) == {"router", "python", "lmdb", "pynacl", "libsodium", "openssl"}
        assert re.match(r"\d+\.\d+", found["libsodium"]), "that of PyNaCl could not be told"
    alone = CliRunner().invoke(main, ["--json", "status"])
    assert alone.exit_code == 2 and "--json belongs behind a command's name" in alone.output


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shells_script_asks_the_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0 and f"{VARIABLE}={shell}_complete" in result.output


def test_commands_are_completed_also_those_of_services_and_of_groups() -> None:
    for words, expected in (("router dm", "dmq"), ("router peer blo", "block")):
        asked = {VARIABLE: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "PATH": ""}
        done = subprocess.run([*program("router")], env=asked, capture_output=True, text=True)
        assert done.stdout.split() == [f"plain,{expected}"]
