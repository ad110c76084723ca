"""The tables of the parts: each body, verb and order has one part, and what nobody hears needs no action."""

from __future__ import annotations

from typing import ClassVar

import pytest
from rigs.kernels import kernel

from router.core.control.part import Hears, Orders, Part
from router.core.control.questions import AwaitedAnswers
from router.core.control.reception import Reception
from router.core.service.roles import Role
from router.core.wire.control import Join, Leave
from router.core.wire.errors import RouterError
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


class Wordless(Request, frozen=True):
    """A verb without a word."""


class Reigning(Request, frozen=True):
    """A verb of a role that does not exist."""

    WORD: ClassVar[str] = "reign"
    ROLES: ClassVar[frozenset[Role]] = frozenset(("king",))  # type: ignore[arg-type]


class Unnamed(Part):
    HEARS: ClassVar[Hears] = {Wordless: heard}


class OfAKing(Part):
    HEARS: ClassVar[Hears] = {Reigning: heard}


class Ordered(Part):
    ORDERS: ClassVar[Orders] = {"bell": heard}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (HearingJoins(), "HearingJoins hears Join, as another part does"),
        (Dialling(), 'Hearing and Dialling both hear the word "dial"'),
        (Ordered(), 'Hearing and Ordered both hear the word "bell"'),
        (Unnamed(), "without a word"),
        (OfAKing(), "Reigning names ROLES {'king'}"),
    ],
)
def test_reception_rejects_a_second_part_for_the_same(other: Part, said: str) -> None:
    shared = kernel()
    with pytest.raises(RouterError, match=said):
        Reception(shared, AwaitedAnswers(shared), (Hearing(), other))


def test_reception_counts_what_is_heard() -> None:
    shared = kernel()
    assert repr(Reception(shared, AwaitedAnswers(shared), (Hearing(),))) == (
        "<reception of 1 bodies, 1 verbs and 1 orders>"
    )
