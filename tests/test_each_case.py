"""A test of many cases tries all of them, and names those that fail."""

from __future__ import annotations

import pytest
from rigs.each_case import each_case


def test_each_case_names_what_failed_or_did_not_raise_and_goes_on() -> None:
    seen = []

    @each_case({"one": (1,), "two": (2,), "three": (3,), "four": (4,)})
    def test_it(number: int) -> None:
        seen.append(number)
        assert number != 2, "it is two"
        if number == 3:
            with pytest.raises(ValueError):
                pass

    with pytest.raises(AssertionError) as caught:
        test_it()
    assert seen == [1, 2, 3, 4]
    first, two, *rest = str(caught.value).splitlines()
    assert first == "2 of 4 cases failed" and two.startswith("two: AssertionError('it is two")
    assert any(line.startswith("three: DID NOT RAISE") for line in rest)
