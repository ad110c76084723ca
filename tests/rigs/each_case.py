"""Try many cases of microseconds in one test, which names those that fail; as tests of their own each costs 6 ms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest


def each_case(cases: Mapping[str, tuple[Any, ...]]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Call the test with the arguments of each case, all of them even if some fail.

    Raises AssertionError with the name and the error of each case that failed, from the first of these errors.
    """
    assert cases

    def with_cases(test: Callable[..., None]) -> Callable[[], None]:
        def all_cases() -> None:
            failed: dict[str, BaseException] = {}
            for name, arguments in cases.items():
                try:
                    test(*arguments)
                except (Exception, pytest.fail.Exception) as error:
                    failed[name] = error
            if failed:
                lines = (f"{name}: {error!r}" for name, error in failed.items())
                said = f"{len(failed)} of {len(cases)} cases failed"
                raise AssertionError("\n".join((said, *lines))) from next(iter(failed.values()))

        all_cases.__name__, all_cases.__doc__, all_cases.__module__ = test.__name__, test.__doc__, test.__module__
        return all_cases

    return with_cases
