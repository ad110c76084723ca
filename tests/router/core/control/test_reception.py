"""The tables of the parts: each body, verb and order has one part, and what nobody hears needs no action."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest
from rigs.kernels import kernel

from router.core.control.introductions import Introductions
from router.core.control.part import Hears, Orders, Part
from router.core.control.questions import AwaitedAnswers
from router.core.control.reception import Reception
from router.core.service.roles import Role
from router.core.wire.control import Join, Leave
from router.service.verbs.dial import Dial
from router.service.verbs.verb import Request, VerbFault

HERE = f" of {__name__}.py"
"""How errors name the file of a class of this file."""


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


class Listing(Part):
    HEARS: ClassVar[Hears] = {Dial}  # type: ignore[assignment]


class Calling(Part):
    HEARS: ClassVar[Hears] = {Dial: "dial"}  # type: ignore[dict-item]


class Ordered(Part):
    ORDERS: ClassVar[Orders] = {"bell": heard}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (HearingJoins(), f"HearingJoins{HERE} hears Join, as Hearing{HERE} does; one of them is to"),
        (
            Dialling(),
            f"Hearing{HERE}, for Dial of router/service/verbs/dial.py, and Dialling{HERE}, for DialsElsewhere{HERE}, "
            'both hear the word "dial"; give one of them another word',
        ),
        (Ordered(), f'Hearing{HERE}, as an order, and Ordered{HERE}, as an order, both hear the word "bell"'),
        (Unnamed(), f"Unnamed{HERE} carries out Wordless{HERE}, a verb without a word; give that class a WORD"),
        (OfAKing(), f"Reigning{HERE} names ROLES {{'king'}}; there are "),
        (Listing(), f"the HEARS or ORDERS of Listing{HERE} is no table"),
        (Calling(), f"the HEARS of Calling{HERE} names Dial; write {{Verb: method}}"),
    ],
)
def test_reception_rejects_a_second_part_for_the_same(other: Part, said: str) -> None:
    shared = kernel()
    with pytest.raises(VerbFault, match=re.escape(said)):
        Reception(shared, AwaitedAnswers(shared), Introductions(shared), (Hearing(), other))


def test_reception_counts_what_is_heard() -> None:
    shared = kernel()
    assert repr(Reception(shared, AwaitedAnswers(shared), Introductions(shared), (Hearing(),))) == (
        "<reception of 1 bodies, 1 verbs and 1 orders>"
    )
