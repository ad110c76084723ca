"""A service's record of the routers that are connected."""

from __future__ import annotations

from router.core.wire.crypto import SigningKey
from router.service.linked_routers import LinkedRouters
from router.service.roles.discovery import NeighbourLinked
from router.service.roles.overlay import Linked

ONE, TWO = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))


def test_a_lost_connection_ends_all_links_that_the_rules_know_of_once() -> None:
    linked = LinkedRouters()
    for heard in (Linked(ONE, TWO), Linked(TWO, ONE), Linked(ONE)):
        linked.note(heard)
    assert linked.lost() == [Linked(TWO)] and linked.lost() == []


def test_a_lost_connection_ends_all_links_of_neighbours_too() -> None:
    linked = LinkedRouters()
    for heard in (NeighbourLinked(ONE, "10.0.0.9"), NeighbourLinked(TWO), NeighbourLinked(ONE, is_up=False)):
        linked.note(heard)
    assert linked.lost() == [NeighbourLinked(TWO, is_up=False)] and linked.lost() == []
