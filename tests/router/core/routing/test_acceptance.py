"""Acceptance by value: verified messages, copies in flight, parcels, rates, room."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.neighbours.directory import JOIN, Neighbour
from router.core.routing.limits import AcceptanceLimits, CoreLimits, QueueLimits
from router.core.routing.parcel_draft import PARCEL_MESSAGES_MAX
from router.core.wire.codec import frame
from router.core.wire.control import Carried, Join, Leave, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.message import message_id, seal_multicast, seal_unicast, with_via
from router.core.wire.reasons import Reason

CEM = SigningKey(b"c" * 32)
PEER = SigningKey(b"p" * 32)
EXPIRY = expiry_min(WALL_S + 3600)


def news(body: bytes = b"x", *, ttl_s: int = 60, expiry: int = EXPIRY, group: SigningKey = GROUP) -> bytes:
    return seal_multicast(group, body, ttl_s=ttl_s, expiry_min=expiry)


def letter(to: PublicKey, body: bytes = b"x", *, source: SigningKey = ALICE, ttl_s: int = 60) -> bytes:
    return seal_unicast(source, to, body, ttl_s=ttl_s, expiry_min=EXPIRY)


def join(source: SigningKey, group: PublicKey = GROUP.public) -> bytes:
    return letter(ME.public, encode_control(Join(group, False)), source=source, ttl_s=0)


def forged(wire: bytes) -> bytes:
    return wire[:-1] + bytes((wire[-1] ^ 1,))


def house(*neighbours: Neighbour, limits: CoreLimits | None = None) -> tuple[OneRouter, int, int]:
    """Return a router with two apps: Alice, and Bob, who is in the group."""
    one = OneRouter(Neighbour(PEER.public), *neighbours, limits=limits)
    alice, bob = one.link(ALICE.public), one.link(BOB.public)
    one.bring(bob, join(BOB))
    one.cycle()
    one.settled(), one.told(bob)
    one.events.clear()
    return one, alice, bob


def limited(**acceptance: float) -> CoreLimits:
    return CoreLimits(acceptance=replace(AcceptanceLimits(), **acceptance))


# -- after the signature ------------------------------------------------------------------------------------------


def test_a_bad_signature_is_refused_and_may_come_again_good() -> None:
    one, alice, bob = house()
    one.bring(alice, forged(news()), news())
    one.cycle()
    assert one.settled()[alice][1] == [(1, Reason.BAD_SIGNATURE, "")]
    assert one.handed(bob) == [news()] and not one.router.seen._in_flight


# -- copies in flight --------------------------------------------------------------------------------------------


def two_bringers(limits: CoreLimits | None = None) -> tuple[OneRouter, int, int, int]:
    one, _, bob = house(Neighbour(CEM.public, grants=frozenset({JOIN})), limits=limits)
    return one, one.link(PEER.public, role="router"), one.link(CEM.public, role="router"), bob


@pytest.mark.parametrize("together", [True, False])
def test_a_copy_shares_the_acceptance_of_the_first(together: bool) -> None:
    one, first, second, bob = two_bringers()
    one.bring(first, news())
    copy = one.bring(second, news())
    assert not copy.fresh and len(copy.copies) == 1
    if not together:
        one.jobs.remove(copy)
        one.cycle()
        assert one.settled() == {first: (1, [])}
        one.jobs.append(copy)
    one.cycle()
    assert one.settled().items() >= {second: (1, [])}.items()
    assert one.handed(bob) == [with_via(news(), PEER.public)] and len(one.accepted()) == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_copy_shares_the_refusal_of_the_first(together: bool) -> None:
    limits = CoreLimits(queues=QueueLimits(node_messages_max=0))
    one, first, second, _ = two_bringers(limits)
    one.bring(first, news())
    copies = [one.bring(second, news()), one.bring(second, news())]
    if not together:
        one.jobs = one.jobs[:1]
        one.cycle()
        one.jobs = copies
    one.cycle()
    n, refusals = one.settled()[second]
    assert n == 2 and [(k, reason) for k, reason, _ in refusals] == [
        (1, Reason.QUEUE_FULL_NODE),
        (2, Reason.QUEUE_FULL_NODE),
    ]
    assert not one.router.seen._in_flight and not one.router.seen._verdicts


def test_losing_the_first_link_withdraws_nothing() -> None:
    one, first, second, bob = two_bringers()
    one.bring(first, news())
    one.bring(second, news())
    one.router.link_down(first, one.now())
    one.cycle()
    assert one.settled()[second] == (1, []) and len(one.handed(bob)) == 1


def test_a_forged_carrier_takes_nobody_with_it_for_good() -> None:
    one, first, second, bob = two_bringers()
    carrier = seal_unicast(PEER, ME.public, encode_control(Carried(news())), ttl_s=0, expiry_min=EXPIRY)
    one.bring(first, forged(carrier))
    one.bring(second, news())
    one.cycle()
    told = one.settled()
    assert [reason for _, reason, _ in told[first][1]] == [Reason.BAD_SIGNATURE]
    assert [reason.later for _, reason, _ in told[second][1]] == [True], "the sender tries again"
    one.bring(second, news())
    one.cycle()
    assert one.settled()[second] == (2, []) and len(one.handed(bob)) == 1


def test_a_carried_multicast_counts_as_brought_by_its_carrier() -> None:
    one, first, second, bob = two_bringers()
    carrier = seal_unicast(PEER, ME.public, encode_control(Carried(news())), ttl_s=0, expiry_min=EXPIRY)
    one.bring(first, carrier)
    one.bring(second, news())
    one.cycle()
    assert one.settled() == {first: (1, []), second: (1, [])}
    assert one.handed(bob) == [with_via(news(), PEER.public)]
    one.bring(
        first,
        carrier,
        seal_unicast(PEER, ME.public, encode_control(Carried(forged(news(b"2")))), ttl_s=0, expiry_min=EXPIRY),
    )
    one.cycle()
    n, refusals = one.settled()[first]
    assert n == 3 and [(k, reason) for k, reason, _ in refusals] == [(3, Reason.BAD_SIGNATURE)] and not one.handed(bob)


def test_of_a_carried_multicast_nobody_is_told_that_it_was_known() -> None:
    """The number is its carrier's, a unicast that was heard: its sender would take it as refused, or twice so."""
    one, *_ = house(Neighbour(CEM.public, grants=frozenset({JOIN})))
    first, second = one.link(CEM.public, role="router"), one.link(PEER.public, role="router", hears_known=True)
    one.bring(first, news(b"1"), news(b"2"))
    one.cycle()
    one.settled()
    true, false = (
        seal_unicast(PEER, ME.public, encode_control(Carried(news(body))), ttl_s=0, expiry_min=EXPIRY)
        for body in (b"1", b"2")
    )
    one.bring(second, true, forged(false), news(b"1"))
    one.cycle()
    n, refusals = one.settled()[second]
    assert n == 3
    assert [(k, reason) for k, reason, _ in refusals] == [(2, Reason.BAD_SIGNATURE), (3, Reason.DUPLICATE)]


def test_a_carried_via_is_cut_out() -> None:
    one, first, _, bob = two_bringers()
    inner = with_via(news(), BOB.public)
    one.bring(first, seal_unicast(PEER, ME.public, encode_control(Carried(inner)), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    assert one.settled() == {first: (1, [])} and one.handed(bob) == [with_via(news(), PEER.public)]


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (seal_multicast(CEM, b"", ttl_s=60, expiry_min=EXPIRY), Reason.NO_SUBSCRIBERS),
        (news(expiry=EXPIRY - 100), Reason.EXPIRY_PASSED), (b"\x00", Reason.MALFORMED),
    ],
)  # fmt: skip
def test_a_carrier_is_refused_once(inner: bytes, why: Reason) -> None:
    """A carrier is refused for itself if it is forged, otherwise for the message it carries, whatever is wrong with
    that."""
    one, first, _, _ = two_bringers()
    body = b"\x82\x00" + frame(inner)
    true = seal_unicast(PEER, ME.public, body, ttl_s=0, expiry_min=EXPIRY)
    one.bring(first, forged(true), true)
    one.cycle()
    n, refusals = one.settled()[first]
    assert n == 2 and [(k, reason) for k, reason, _ in refusals] == [(1, Reason.BAD_SIGNATURE), (2, why)]


def test_a_forged_carrier_of_a_copy_that_is_refused_is_refused_once() -> None:
    one, first, second, _ = two_bringers()
    body = encode_control(Carried(forged(news())))
    one.bring(second, forged(news()))
    one.bring(first, forged(seal_unicast(PEER, ME.public, body, ttl_s=0, expiry_min=EXPIRY)))
    one.cycle()
    told = one.settled()
    assert [(k, reason) for k, reason, _ in told[first][1]] == [(1, Reason.BAD_SIGNATURE)]
    assert [(k, reason) for k, reason, _ in told[second][1]] == [(1, Reason.BAD_SIGNATURE)]


def test_what_a_carrier_that_sends_too_much_carries_goes_with_it() -> None:
    one, first, _, bob = two_bringers(limited(source_messages_per_s=1.0))
    one.bring(
        first,
        *(
            seal_unicast(PEER, ME.public, encode_control(Carried(news(body))), ttl_s=0, expiry_min=EXPIRY)
            for body in (b"1", b"2")
        ),
    )
    one.cycle()
    assert [(k, reason) for k, reason, _ in one.settled()[first][1]] == [(2, Reason.RATE_LIMITED)]
    assert len(one.handed(bob)) == 1


# -- parcels -----------------------------------------------------------------------------------------------------


def test_what_shares_its_fate_shares_a_parcel() -> None:
    one, alice, bob = house()
    stream = [
        news(b"1"),
        news(b"2"),
        letter(BOB.public, b"1"),
        letter(BOB.public, b"2"),
        news(b"3"),
        news(b"4", ttl_s=0),
        news(b"5"),
    ]
    one.bring(alice, *stream[:1])
    one.bring(alice, *stream[1:])
    one.cycle()
    assert [(first, count) for first, count, _ in one.accepted()] == [(1, 2), (3, 2), (5, 1), (6, 1), (7, 1)]
    assert one.handed(bob) == stream
    assert sorted(one.disk.parcels) == [1, 3, 5, 7], "ttl 0 is not stored"


def test_arrival_numbers_have_no_gap_where_a_message_is_refused() -> None:
    """A reader of the log can see by a sum that each number was given once."""
    one, alice, bob = house()
    one.router.link_down(bob, one.now())
    one.bring(alice, news(b"1"), news(b"2", ttl_s=0), news(b"3"))
    one.cycle()
    assert [k for k, *_ in one.settled()[alice][1]] == [2]
    assert [(first, count) for first, count, _ in one.accepted()] == [(1, 1), (2, 1)]


def test_a_parcel_has_a_limit() -> None:
    one, alice, _ = house()
    wires = [news(bytes((n % 256, n // 256))) for n in range(PARCEL_MESSAGES_MAX + 1)]
    one.bring(alice, *wires)
    one.cycle()
    assert [count for _, count, _ in one.accepted()] == [PARCEL_MESSAGES_MAX, 1]


def test_recipients_are_named_at_this_moment() -> None:
    one, alice, bob = house()
    cem = one.link(CEM.public)
    one.bring(alice, news(b"1"))
    one.cycle()
    one.bring(cem, join(CEM))
    one.cycle()
    one.bring(alice, news(b"2"))
    one.router.link_down(bob, one.now())
    one.cycle()
    assert [recipients for *_, recipients in one.accepted()] == [(BOB.public,), (BOB.public, CEM.public)]


def test_who_joins_in_a_cycle_is_owed_what_is_accepted_after_that() -> None:
    one, alice, _ = house()
    cem = one.link(CEM.public)
    one.bring(alice, news(b"1"))
    one.cycle()
    one.bring(cem, join(CEM))
    one.bring(alice, news(b"2"))
    one.cycle()
    assert [recipients for *_, recipients in one.accepted()] == [(BOB.public,), (BOB.public, CEM.public)]
    assert one.handed(cem) == [news(b"2")]


def test_who_leaves_in_a_cycle_is_owed_nothing_that_is_accepted_after_that() -> None:
    one, alice, bob = house()
    cem = one.link(CEM.public)
    one.bring(cem, join(CEM))
    one.bring(alice, news(b"1"))
    one.cycle()
    one.bring(bob, letter(ME.public, encode_control(Leave(GROUP.public)), source=BOB, ttl_s=0))
    one.bring(alice, news(b"2"))
    one.cycle()
    assert [recipients for *_, recipients in one.accepted()] == [(BOB.public, CEM.public), (CEM.public,)]


# -- rates and room ----------------------------------------------------------------------------------------------


def test_a_source_has_a_rate_that_only_its_own_signature_charges() -> None:
    one, alice, _ = house(limits=limited(source_messages_per_s=2.0))
    one.bring(
        alice, *(forged(news(bytes((n,)))) for n in range(5)), news(b"1"), news(b"2"), news(b"3"), letter(BOB.public)
    )
    one.cycle()
    limited_ones = [k for k, reason, _ in one.settled()[alice][1] if reason is Reason.RATE_LIMITED]
    assert limited_ones == [8]


def test_a_smaller_message_may_fit_where_a_larger_did_not() -> None:
    one, alice, bob = house(limits=CoreLimits(queues=QueueLimits(recipient_bytes_max=1200, share_percent=100)))
    one.bring(alice, news(b"1" * 500), news(b"2" * 900), news(b"3" * 900), news(b"4" * 100), news(b"5" * 2000))
    one.cycle()
    assert [k for k, *_ in one.settled()[alice][1]] == [2, 3, 5]
    assert one.handed(bob) == [news(b"1" * 500), news(b"4" * 100)]


def test_outcomes_are_told_to_those_who_asked() -> None:
    one, _, bob = house(limits=CoreLimits(queues=QueueLimits(recipient_messages_max=1, share_percent=100)))
    cem = one.link(CEM.public, outcome=True)
    one.bring(cem, news(b"1"), news(b"2", ttl_s=0))
    one.cycle()
    one.router.settled(bob, 2, one.now())
    one.cycle()
    first, second = message_id(news(b"1")), message_id(news(b"2", ttl_s=0))
    assert one.said(cem) == [
        Outcome(first, (RecipientOutcome(BOB.public, "queued"),)),
        Outcome(second, (RecipientOutcome(BOB.public, "unconfirmed"),)),
        Outcome(first, (RecipientOutcome(BOB.public, "delivered"),)),
    ]


def test_one_message_alone_fits_an_empty_share_and_what_fits_no_queue_is_refused_for_good() -> None:
    one, alice, bob = house(limits=CoreLimits(queues=QueueLimits(recipient_bytes_max=4000, share_percent=25)))
    large = news(b"1" * 3000)
    one.bring(alice, large, news(b"2" * 3000), news(b"3" * 5000))
    one.cycle()
    assert one.handed(bob) == [large]
    assert [(k, reason) for k, reason, _ in one.settled()[alice][1]] == [
        (2, Reason.QUEUE_FULL_GROUP), (3, Reason.TOO_LARGE),
    ]  # fmt: skip
    assert [reason.later for reason in (Reason.QUEUE_FULL_GROUP, Reason.TOO_LARGE)] == [True, False]
    one.router.settled(bob, 2, one.now())
    one.cycle()
    one.bring(alice, news(b"2" * 3000))
    one.cycle()
    assert one.handed(bob) == [news(b"2" * 3000)], "when the share is empty again"
