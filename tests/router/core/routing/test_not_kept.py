"""A subscriber that is away without the right `store`: messages it does not get are logged, counted, and reported to
it."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import Accepted, Outward
from router.core.neighbours.directory import JOIN, STORE, Neighbour
from router.core.wire.control import Join, encode_control
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Missed
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

EXPIRY = expiry_min(WALL_S + 3600)
JOINED = seal_unicast(BOB, ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY)


def news(number: int, ttl_s: int = 600) -> bytes:
    return seal_multicast(GROUP, b"%d" % number, ttl_s=ttl_s, expiry_min=EXPIRY)


def house(*grants: str) -> tuple[OneRouter, int]:
    """Return a router with Alice, an app; another app and Bob's router have joined, and Bob's router has gone."""
    one = OneRouter(Neighbour(BOB.public, "laptop", frozenset(grants)))
    alice, bob = one.link(ALICE.public), one.link(BOB.public, role="router")
    one.bring(bob, JOINED)
    one.bring(alice, seal_unicast(ALICE, ME.public, JOIN_OF_ALICE, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.router.link_down(bob, one.now())
    one.cycle()
    one.events.clear()
    return one, one.link(b"\7" * 32)


JOIN_OF_ALICE = encode_control(Join(GROUP.public, False))


def ends(one: OneRouter) -> list[tuple[bytes, str, int | None]]:
    return [(row.recipient, row.event, row.reason) for row in one.events if isinstance(row, Outward)]


@pytest.mark.parametrize(("ttl_s", "reason"), [(600, Reason.NOT_KEPT), (0, Reason.RECIPIENT_OFFLINE_TTL0)])
def test_what_is_not_kept_for_it_is_logged_and_told_when_it_comes_back(ttl_s: int, reason: Reason) -> None:
    one, speaker = house(JOIN)
    one.bring(speaker, news(1, ttl_s), news(2, ttl_s))
    one.cycle()
    accepted = [row.recipients for row in one.events if isinstance(row, Accepted)]
    assert set(sum(accepted, ())) == {ALICE.public, BOB.public}
    assert {end for end in ends(one) if end[0] == BOB.public} == {(BOB.public, "refused", reason)}
    assert one.router.outcomes.missed_by(BOB.public, reason) == 2
    bob = one.link(BOB.public, role="router")
    missed = [(item.count, item.reason) for item in one.said(bob) if isinstance(item, Missed)]
    assert missed == [(2, reason)] and one.router.outcomes.missed_by(BOB.public, reason) == 0


def test_with_store_it_waits_and_nothing_is_missed() -> None:
    one, speaker = house(JOIN, STORE)
    one.bring(speaker, news(1))
    one.cycle()
    assert BOB.public not in {end[0] for end in ends(one)}
    assert one.router.queues.by_recipient[BOB.public].total.messages == 1


def test_nobody_is_told_of_a_key_that_was_shut_out_or_is_here() -> None:
    one, speaker = house(JOIN)
    one.link(BOB.public, role="router")
    one.bring(speaker, news(1))
    one.cycle()
    assert Reason.NOT_KEPT not in {end[2] for end in ends(one)}
