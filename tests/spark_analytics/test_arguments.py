"""The values of the command lines of the job and the stream, and what is said where they are none."""

from __future__ import annotations

import pytest

from spark_analytics import job, streaming
from spark_analytics.arguments import age, file_count, instant, pause
from spark_analytics.batch.span import NS_MAX


def test_instants() -> None:
    assert instant("17") == 17
    assert instant("9" * 30) == NS_MAX
    assert instant("2020-01-01") == instant("2020-01-01T01:00+01:00") == 1_577_836_800 * 10**9
    assert instant("2020-01-01T00:00:00.000001") == 1_577_836_800 * 10**9 + 1000


def test_seconds_and_counts() -> None:
    assert (pause("0"), pause("86400"), age("0.1"), file_count("1"), file_count("1000000")) == (
        0,
        86_400,
        0.1,
        1,
        10**6,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--every", "-5"), "'-5' is no number of seconds from 0 to"),
        (("--every", "nan"), "'nan' is no number of seconds"),
        (("--every", "1e300"), "'1e300' is no number of seconds"),
        (("--segment", "0"), "'0' is no number of seconds from 0.1 to"),
        (("--segment", "an hour"), "'an hour' is no number of seconds"),
        (("--files-max", "0"), "'0' is no number of files from 1 to"),
        (("--files-max", "-3"), "'-3' is no number of files"),
        (("--files-max", "9" * 9999), "is no number of files"),
        (("--as-of", "yesterday"), "'yesterday' is no time: write an ISO 8601 one, as 2026-12-01"),
        (("--slo", "x"), "'x' is no service level"),
    ],
)
def test_a_stream_refuses_what_is_no_value_before_it_begins(
    given: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong number must not be told as a state that cannot be read, with the remedy to take it away."""
    with pytest.raises(SystemExit) as ended:
        streaming.main(["logs", "--out", "out", *given])
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_a_job_says_what_a_time_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        job.main(["logs", "--since", "last week"])
    assert ended.value.code == 2 and "'last week' is no time" in capsys.readouterr().err
