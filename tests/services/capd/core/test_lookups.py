"""What neighbours are asked for on behalf of wallets, and for how long a search waits."""

from __future__ import annotations

from services.capd.core.lookups import FRESH_S, WAIT_S, Lookups
from services.capd.core.pattern import Pattern
from services.capd.core.watches import Watches

OFFERS = Pattern.prefix(b"TKDA")
CONTENT = OFFERS.wire_prefix()


def with_neighbours(*neighbours: str) -> Lookups:
    lookups = Lookups(Watches())
    lookups.take(neighbours)
    return lookups


def test_a_search_waits_until_every_neighbour_has_answered() -> None:
    lookups = with_neighbours("one", "two")
    assert lookups.look(OFFERS, 0.0) == CONTENT
    assert lookups.take(("one", "two")) == [CONTENT]
    lookups.answered(CONTENT, "one")
    assert lookups.is_open(CONTENT)
    lookups.gone("two")
    assert not lookups.is_open(CONTENT)


def test_a_search_ends_after_its_wait_and_is_not_repeated_while_fresh() -> None:
    lookups = with_neighbours("one")
    lookups.look(OFFERS, 0.0)
    lookups.take(("one",))
    lookups.expire(WAIT_S)
    assert not lookups.is_open(CONTENT)
    assert lookups.look(OFFERS, FRESH_S - 1) is None
    assert lookups.look(OFFERS, FRESH_S) == CONTENT


def test_a_search_that_ended_before_neighbours_could_be_asked_is_left_out() -> None:
    """As when the process was stopped between a wallet's request and the end of the turn."""
    lookups = with_neighbours("one")
    lookups.look(OFFERS, 0.0)
    lookups.expire(WAIT_S)
    assert lookups.take(("one",)) == []
    assert not lookups.is_open(CONTENT)
