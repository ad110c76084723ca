"""The tables of the parts: each body, verb and order has one part, and what nobody hears needs no action."""

from __future__ import annotations

from typing import ClassVar

import pytest
from rigs.kernels import kernel

from router.core.control.part import Hears, Orders, Part
from router.core.control.questions import AwaitedAnswers
from router.core.control.reception import Reception
from router.core.wire.control import Join, Leave
from router.service.verbs.dial import Dial
from router.service.verbs.verb import Request


def heard(part: Part, *said: object) -> None:
    """Stand where a method of the part would."""


class DialsElsewhere(Request, frozen=True):
    """Another verb of the same word."""

    WORD: ClassVar[str] = Dial.WORD


class Hearing(Part):
    HEARS: ClassVar[Hears] = {Join: heard, Dial: heard}
    ORDERS: ClassVar[Orders] = {"bell": heard}


class HearingJoins(Part):
    HEARS: ClassVar[Hears] = {Join: heard}


class Dialling(Part):
    HEARS: ClassVar[Hears] = {Leave: heard, DialsElsewhere: heard}


class Ordered(Part):
    ORDERS: ClassVar[Orders] = {"bell": heard}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (HearingJoins(), "two parts hear Join"), (Dialling(), "two parts carry out dial"),
        (Ordered(), "two parts take the order bell"),
    ],
)  # fmt: skip
def test_reception_rejects_a_second_part_for_the_same(other: Part, said: str) -> None:
    shared = kernel()
    with pytest.raises(AssertionError, match=said):
        Reception(shared, AwaitedAnswers(shared), (Hearing(), other))


def test_reception_counts_what_is_heard() -> None:
    shared = kernel()
    assert repr(Reception(shared, AwaitedAnswers(shared), (Hearing(),))) == (
        "<reception of 1 bodies, 1 verbs and 1 orders>"
    )
