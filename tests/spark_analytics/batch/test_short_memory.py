"""Errors of Spark that tell of too little memory are told with what helps; others are not."""

from __future__ import annotations

import pytest

from spark_analytics.batch.short_memory import CAUSE_MAX, sentence

LOST = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
FAILURE = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "


@pytest.mark.parametrize(
    "cause",
    [
        f"{LOST}{FAILURE}Command exited with code 52",
        f"{LOST}{FAILURE}The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM).",
        f"{LOST}{FAILURE}Container killed by YARN for exceeding physical memory limits. 4.5 GB of 4.5 GB used.",
        f"{LOST}Lost task 0.3 in stage 0.0: java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_an_executor_out_of_memory_is_told_with_cause_and_remedy(cause: str) -> None:
    said = sentence(f"An error occurred while calling o51.collectToPython.\n: {cause}\n\tat org.apache.spark.Task")
    assert said is not None and "\n" not in said
    assert f"an executor ran out of memory (: {cause})" in said and "--executor-memory" in said


@pytest.mark.parametrize("lost", ["", f"{LOST}Lost task 3.0 in stage 1.0 (TID 7) (10.0.0.5 executor driver): "])
def test_a_driver_out_of_memory_is_told_as_one(lost: str) -> None:
    """Also a task in the threads of a session on one machine."""
    said = sentence(f"{lost}java.lang.OutOfMemoryError: Java heap space" + "x" * 1000)
    assert said is not None and "Spark ran out of memory" in said and "spark-submit --driver-memory" in said
    assert "x" * CAUSE_MAX not in said


def test_a_table_that_is_too_large_to_hand_to_each_task_is_told() -> None:
    said = sentence("SparkException: Not enough memory to build and broadcast the table to all worker nodes.")
    assert said is not None and "Spark ran out of memory" in said


@pytest.mark.parametrize("cause", ["No space left on device", f"{LOST}{FAILURE}Command exited with code 1", ""])
def test_another_error_is_none_of_these(cause: str) -> None:
    assert sentence(cause) is None
