"""Causes that stop a stream are reported in one sentence, with the remedy."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from rigs.patience import HANG_S

from spark_analytics.stream.stopped import Stopped, alone, ending, sentence, signals

STACK = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted SQLSTATE: XXKST
=== Streaming Query ===
\tat org.apache.spark.sql.Dataset.collect(Dataset.scala:1)
Caused by: java.io.IOException: {cause}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 12 more
"""


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("No space left on device", "the disk is full: make room"),
        ("Read-only file system", "it cannot write there"),
        ("/x/part-0.parquet is not a Parquet file", "take the whole directory away"),
        ("Multiple streaming queries are concurrently using /x", "another audit writes there"),
        ("Reason: Command exited with code 52", "Java has too little memory"),
        ("the sky fell", "run it again"),
    ],
)
def test_a_cause_in_a_stack_is_told_with_its_remedy(cause: str, remedy: str) -> None:
    told = sentence("/out", STACK.format(cause=cause))
    assert told.startswith("the audit in /out stopped: ") and remedy in told
    assert told.endswith(f"(Caused by: java.io.IOException: {cause})")
    assert "\n" not in told


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Stopped, match=r"nothing can be written to .*/file .*: give another --out"),
        alone(str(tmp_path / "file")),
    ):
        pass


def test_a_run_that_ended_leaves_the_place_free(tmp_path: Path) -> None:
    for _ in range(2):
        with alone(str(tmp_path)):
            pass


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionResetError()])
def test_errors_of_the_bridge_pass_only_where_the_stream_is_to_end(error: Exception) -> None:
    with ending(lambda: True):
        raise error
    with pytest.raises(type(error)), ending(lambda: False):
        raise error


@pytest.mark.parametrize("error", [Stopped("the state is of another version"), PySparkException("the disk is full")])
def test_an_error_of_a_batch_does_not_pass_with_the_end(error: Exception) -> None:
    with pytest.raises(type(error)), ending(lambda: True):
        raise error


def test_a_signal_is_kept_for_when_the_stream_looks() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals() as over:
        assert not over.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert over.wait(HANG_S)
    assert signal.getsignal(signal.SIGTERM) is before
