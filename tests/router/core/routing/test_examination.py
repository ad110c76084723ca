"""Checks without a signature, by value: the order of R-C1, duplicates, the neighbour's rate."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP
from test_acceptance import CEM, PEER, house, join, letter, news

from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour
from router.core.routing.limits import AdmissionLimits, CoreLimits
from router.core.wire.control import Carried, Leave, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import EPOCH_S, expiry_min
from router.core.wire.message import message_id, with_via
from router.core.wire.reasons import Reason


def test_nothing_is_verified_that_can_be_refused_without() -> None:
    one, alice, _ = house()
    late = news(expiry=expiry_min(WALL_S - 60))
    far = news(expiry=expiry_min(WALL_S + 9 * 86_400))
    job = one.bring(
        alice, late, far, letter(CEM.public), news(group=CEM), news(b"good"), letter(BOB.public, source=CEM)
    )
    assert [row.id for row in job.fresh] == [message_id(news(b"good"))]
    one.cycle()
    n, refusals = one.settled()[alice]
    assert n == 6 and [(k, reason) for k, reason, _ in refusals] == [
        (1, Reason.EXPIRY_PASSED), (2, Reason.EXPIRY_TOO_FAR), (3, Reason.NO_ROUTE), (4, Reason.NO_SUBSCRIBERS),
        (6, Reason.NOT_LOCAL_SOURCE),
    ]  # fmt: skip


@pytest.mark.parametrize("second", [0, 1, 29, 59])
def test_an_expiry_is_exact_to_the_second(second: int) -> None:
    one, alice, _ = house()
    one.seconds = second
    minute = (WALL_S - EPOCH_S) // 60
    assert WALL_S % 60 == 0
    one.bring(alice, news(b"gone", expiry=minute), news(b"lives", expiry=minute + 1))
    one.cycle()
    assert one.settled()[alice][1] == [(1, Reason.EXPIRY_PASSED, "")]


def test_a_duplicate_costs_no_signature_and_is_settled() -> None:
    one, alice, bob = house()
    one.bring(alice, news())
    one.cycle()
    job = one.bring(alice, news())
    assert not job.fresh and len(job.known) == 1
    one.cycle()
    assert one.settled() == {alice: (2, [])}
    assert one.turned()[-1] == ("duplicate", Reason.DUPLICATE, 1) and len(one.handed(bob)) == 1


def test_only_known_multicasts_of_routers_may_wait_for_others() -> None:
    """An app waits for what it publishes again, and so does whoever sends something new besides."""
    other = SigningKey(b"o" * 32)
    one, alice, _ = house(Neighbour(other.public, grants=frozenset({JOIN, RELAY})))
    core = one.link(other.public, role="router")
    assert not one.bring(core, news()).is_known
    one.bring(core, letter(BOB.public, source=other))
    one.cycle()
    assert one.bring(core, news()).is_known
    assert not one.bring(core, news(), news(b"new")).is_known
    assert not one.bring(core, letter(BOB.public, source=other)).is_known, "whose sender may wait for it"
    assert not one.bring(alice, news()).is_known
    assert not one.bring(core, *[news()] * 50).is_known, "which take room of other reads"


def test_what_a_local_service_routes_itself_goes_to_one_router_after_the_other() -> None:
    """Step 2 comes before the duplicate check; the same message from outside is a duplicate (R-C6)."""
    other = SigningKey(b"o" * 32)
    one, alice, bob = house(Neighbour(other.public))
    peer, second = one.link(PEER.public, role="router"), one.link(other.public, role="router")
    one.bring(peer, news())
    one.cycle()
    one.bring(alice, with_via(news(), PEER.public), with_via(news(), other.public), with_via(news(), CEM.public))
    one.bring(peer, with_via(news(), other.public))
    one.cycle()
    assert one.handed(peer) == one.handed(second) == [news()] and one.handed(bob) == [with_via(news(), PEER.public)]
    assert one.settled() == {peer: (2, []), alice: (3, [(3, Reason.NO_ROUTE, "")])}
    assert len(one.disk.ids) == 1 == one.router.index.entries


def test_an_id_from_before_a_restart_is_known_to_the_disk() -> None:
    one, alice, _ = house()
    one.bring(alice, news())
    one.cycle()
    after = OneRouter(disk=one.disk, seconds=5)
    alice = after.link(ALICE.public)
    assert after.bring(alice, news()).fresh
    after.cycle()
    assert after.settled()[alice] == (1, []) and after.turned() == [("duplicate", Reason.DUPLICATE, 1)]
    assert not after.accepted()


def test_a_neighbour_has_a_rate_and_control_pays_it_too() -> None:
    one, alice, _ = house(limits=CoreLimits(admission=AdmissionLimits(messages_per_s_neighbour=2)))
    one.bring(alice, news(b"1"), join(ALICE), news(b"2"), join(ALICE))
    one.cycle()
    assert [(k, reason) for k, reason, _ in one.settled()[alice][1]] == [
        (3, Reason.RATE_LIMITED),
        (4, Reason.RATE_LIMITED),
    ]
    one.seconds += 1
    one.bring(alice, news(b"2"))
    one.cycle()
    assert one.settled()[alice] == (5, []), "what was refused may come again"


def test_a_duplicate_is_settled_though_its_readers_have_gone_or_its_time_has_passed() -> None:
    """A replay of a local source is refused, however, and so is a message that was never accepted."""
    one, alice, bob = house()
    letter_to_bob, mine = letter(BOB.public), letter(PEER.public)
    one.bring(alice, news(), letter_to_bob, mine)
    one.cycle()
    one.bring(bob, letter(ME.public, encode_control(Leave(GROUP.public)), source=BOB, ttl_s=0))
    one.cycle()
    peer = one.link(PEER.public, role="router")
    one.settled()
    one.bring(alice, news(), news(b"new"))
    one.bring(peer, mine)
    one.cycle()
    told = one.settled()
    assert told[alice] == (5, [(5, Reason.NO_SUBSCRIBERS, "")]) and told[peer] == (
        1,
        [(1, Reason.NOT_LOCAL_SOURCE, "")],
    )
    one.seconds += 4000
    one.bring(alice, news(), letter_to_bob)
    one.cycle()
    assert one.settled()[alice] == (7, [])


def test_a_duplicate_is_settled_after_a_restart_too() -> None:
    """The disk knows the ids that memory has lost; a copy shares the fate of the first."""
    before, alice, bob = house(Neighbour(CEM.public, grants=frozenset({JOIN, STORE, RELAY})))
    letter_to_cem = letter(CEM.public)
    before.bring(alice, news(), letter_to_cem)
    before.bring(bob, letter(ME.public, encode_control(Leave(GROUP.public)), source=BOB, ttl_s=0))
    before.cycle()
    one = OneRouter(Neighbour(CEM.public, blocked=True), disk=before.disk, seconds=1)
    alice = one.link(ALICE.public)
    carrier = letter(ME.public, encode_control(Carried(news())), ttl_s=0)
    one.bring(alice, news(), news(b"new"), letter_to_cem, letter(CEM.public, b"new"), carrier)
    one.cycle()
    told = one.settled()[alice]
    assert told == (5, [(2, Reason.NO_SUBSCRIBERS, ""), (4, Reason.BLOCKED, "")])
    assert one.turned() == [
        ("duplicate", Reason.DUPLICATE, 3),
        ("refused", Reason.NO_SUBSCRIBERS, 1),
        ("refused", Reason.BLOCKED, 1),
    ]


def test_strangers_learn_nothing_of_what_is_known() -> None:
    one = OneRouter(strangers=True, limits=None)
    stranger = one.link(CEM.public, role="router")
    one.bring(stranger, news())
    one.cycle()
    assert one.settled()[stranger] == (1, [(1, Reason.NOT_AUTHORISED, "")])
