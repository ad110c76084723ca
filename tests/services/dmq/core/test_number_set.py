"""The set of numbers, against Python's own."""

from __future__ import annotations

from random import Random

from services.dmq.core.number_set import NumberSet


def test_it_holds_what_a_set_holds_from_its_first_number_on() -> None:
    chance, of, plain, first = Random(1), NumberSet(1 << 40), set[int](), 1 << 40
    for _ in range(3000):
        number = first + chance.randrange(200)
        of.add(number)
        plain.add(number)
        if chance.random() < 0.1:
            first += chance.randrange(20)
            of.forget_below(first)
        number = first + chance.randrange(300)
        assert (number in of) == (number in plain)
    assert 5 in of, "what is older is contained"
    of.add(5)
    assert repr(of).endswith("bytes>") and len(of._bits) < 50, "nothing is kept of what is older"


def test_what_is_kept_goes_when_all_of_it_is_old() -> None:
    of = NumberSet(0)
    of.add(100)
    of.forget_below(100_000)
    assert 100 in of and 100_008 not in of and not of._bits
