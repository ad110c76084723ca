"""What nobody reads is left with the node, and comes back in its order."""

from __future__ import annotations

from router.client.aside import Aside
from router.core.crypto import MessageId

HERE, THERE = b"h", b"t"
ONE, TWO, THREE, FOUR = (MessageId(bytes((n,)) * 32) for n in range(1, 5))


def left(*messages: MessageId) -> Aside:
    aside = Aside(3)
    for one in messages:
        aside.add(HERE, one)
    return aside


def test_only_its_own_address_is_held() -> None:
    aside = left(ONE)
    assert aside.holds(HERE, TWO, ()) and not aside.holds(THERE, TWO, ())
    assert repr(aside) == "<1 messages to 1 addresses are left with the node>"
    aside.clear()
    assert not aside.holds(HERE, TWO, ())


def test_what_was_on_its_way_does_not_overtake() -> None:
    aside = left(ONE, TWO)
    assert aside.holds(HERE, THREE, (HERE,)), "sent before the node heard of the refusals"
    aside.add(HERE, THREE)
    assert aside.holds(HERE, ONE, ()), "nobody reads it yet"
    aside.add(HERE, ONE)
    assert aside.holds(HERE, TWO, (HERE,)), "its first has gone back a moment ago"
    aside.add(HERE, TWO)
    assert not aside.holds(HERE, ONE, (None,)), "the node begins again"
    assert not aside.holds(HERE, TWO, (HERE,))


def test_it_begins_again_though_the_first_have_expired() -> None:
    aside = left(ONE, TWO, THREE)
    assert not aside.holds(HERE, TWO, (HERE,))


def test_one_that_comes_alone_again_and_again_is_taken() -> None:
    aside = left(ONE)
    assert not aside.holds(HERE, ONE, (HERE,))


def test_the_oldest_give_way() -> None:
    aside = left(ONE, TWO, THREE, FOUR)
    assert aside.holds(HERE, ONE, (HERE,)) and not aside.holds(HERE, TWO, (HERE,))
