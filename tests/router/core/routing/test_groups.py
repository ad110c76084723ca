"""Subscriptions: joining, leaving, and the groups wanted upstream."""

from __future__ import annotations

from router.core.routing.groups import Groups, Subscription

NEWS, CATS = b"n" * 32, b"c" * 32
ANN, BOB = b"a" * 32, b"b" * 32


def everybody(_subscriber: bytes) -> bool:
    return True


def joined(*rows: tuple[bytes, bytes, bool]) -> Groups:
    groups = Groups()
    for group, subscriber, local in rows:
        assert groups.add(Subscription(group, subscriber, local, True))
    return groups


def test_members_stand_in_the_order_of_joining() -> None:
    groups = joined((NEWS, BOB, False), (NEWS, ANN, False), (CATS, ANN, True))
    assert groups.members(NEWS) == (BOB, ANN)
    assert groups.joined_by(ANN) == {NEWS, CATS} and groups.joined_by(b"?" * 32) == frozenset()
    assert groups.get(CATS, ANN) == Subscription(CATS, ANN, True, True) and groups.get(CATS, BOB) is None
    assert [one.subscriber for one in groups] == [BOB, ANN, ANN]
    assert repr(groups) == "<3 subscriptions to 2 groups>"


def test_joining_twice_changes_nothing_and_the_last_join_wins() -> None:
    groups = joined((NEWS, ANN, False))
    revision = groups.revision
    assert not groups.add(Subscription(NEWS, ANN, False, True)) and groups.revision == revision
    assert groups.add(Subscription(NEWS, ANN, True, True)) and groups.revision > revision
    assert groups.is_local_only(NEWS, everybody) and groups.members(NEWS) == (ANN,)


def test_leaving_what_one_is_not_in_changes_nothing() -> None:
    groups = joined((NEWS, ANN, False))
    revision = groups.revision
    assert not groups.remove(CATS, ANN) and not groups.remove(NEWS, BOB) and groups.revision == revision
    assert groups.remove(NEWS, ANN) and groups.revision > revision
    assert list(groups) == [] and groups.joined_by(ANN) == frozenset() and groups.members(NEWS) == ()
    assert not groups._members and not groups._joined


def test_a_group_is_wanted_while_one_subscription_is_not_local() -> None:
    groups = joined((NEWS, ANN, True), (CATS, ANN, False), (NEWS, BOB, False))
    assert groups.wanted() == [NEWS, CATS]
    groups.remove(NEWS, BOB)
    assert groups.wanted() == [CATS] and not groups.is_wanted(NEWS) and groups.is_local_only(NEWS, everybody)
    assert not groups.is_local_only(NEWS, frozenset([BOB]).__contains__), "Ann may not say so for all"
    groups.remove(NEWS, ANN)
    assert not groups.is_local_only(NEWS, everybody), (
        "a group nobody is in is not local either: publishing goes upstream"
    )
