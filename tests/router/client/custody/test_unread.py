"""Messages that nobody reads are left with the node, and come back in order."""

from __future__ import annotations

from router.client.custody.unread import Unread
from router.core.wire.crypto import MessageId

HERE, THERE = b"h", b"t"
ONE, TWO, THREE, FOUR = (MessageId(bytes((n,)) * 32) for n in range(1, 5))


def left(*messages: MessageId) -> Unread:
    unread = Unread(3)
    for one in messages:
        unread.add(HERE, one)
    return unread


def test_only_its_own_address_is_held() -> None:
    unread = left(ONE)
    assert unread.holds(HERE, TWO, ()) and not unread.holds(THERE, TWO, ())
    assert repr(unread) == "<1 messages to 1 addresses are left with the node>"
    unread.clear()
    assert not unread.holds(HERE, TWO, ())


def test_what_was_on_its_way_does_not_overtake() -> None:
    unread = left(ONE, TWO)
    assert unread.holds(HERE, THREE, (HERE,)), "sent before the node heard of the refusals"
    unread.add(HERE, THREE)
    assert unread.holds(HERE, ONE, ()), "nobody reads it yet"
    unread.add(HERE, ONE)
    assert unread.holds(HERE, TWO, (HERE,)), "its first has gone back a moment ago"
    unread.add(HERE, TWO)
    assert not unread.holds(HERE, ONE, (None,)), "the node begins again"
    assert not unread.holds(HERE, TWO, (HERE,))


def test_it_begins_again_though_the_first_have_expired() -> None:
    unread = left(ONE, TWO, THREE)
    assert not unread.holds(HERE, TWO, (HERE,))


def test_one_that_comes_alone_again_and_again_is_taken() -> None:
    unread = left(ONE)
    assert not unread.holds(HERE, ONE, (HERE,))


def test_the_oldest_give_way() -> None:
    unread = left(ONE, TWO, THREE, FOUR)
    assert unread.holds(HERE, ONE, (HERE,)) and not unread.holds(HERE, TWO, (HERE,))
