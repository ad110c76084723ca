"""A short report of a test that failed with an exception group: a few lines for each exception in it."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import trio

FRAMES_MAX, LINES_MAX = 3, 12
HERE = Path.cwd()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None and isinstance(call.excinfo.value, BaseExceptionGroup):
        report.longrepr = summary(call.excinfo.value)
    return report


def summary(group: BaseExceptionGroup[BaseException]) -> str:
    """Return each distinct exception with its innermost frames in this project, those of cancellation last."""
    found = Counter(map(_told, sorted(_leaves(group), key=lambda one: isinstance(one, trio.Cancelled))))
    return "\n".join(text + f"\n    {count} times" * (count > 1) for text, count in found.items())


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        yield from _leaves(one) if isinstance(one, BaseExceptionGroup) else (one,)


def _told(error: BaseException) -> str:
    said = "".join(traceback.format_exception_only(error)).splitlines()[:LINES_MAX]
    ours = [one for one in traceback.extract_tb(error.__traceback__) if _is_ours(one.filename)][-FRAMES_MAX:]
    cause = [f"    caused by {error.__cause__!r}"] if error.__cause__ else []
    return "\n".join([*said, *cause, *(f"    {one.filename}:{one.lineno} {one.name}(): {one.line}" for one in ours)])


def _is_ours(path: str) -> bool:
    return HERE in Path(path).parents and "site-packages" not in path
