"""The limits of a link's input and duration: false signatures, the rates of strangers, their places, by value."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP
from test_acceptance import EXPIRY, forged, letter, news, two_bringers

from router.core.log.events import RouterChange
from router.core.neighbours.directory import Neighbour
from router.core.routing.admission import OUTLIVED, TAKEN
from router.core.routing.effects import Close
from router.core.routing.limits import AdmissionLimits, CoreLimits
from router.core.wire.control import Carried, Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.link_items import Run
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import Reason

NEIGHBOUR = SigningKey(b"n" * 32)
PLACE = "192.0.2.0/24"


def strange(number: int) -> SigningKey:
    return SigningKey(bytes((number,)) * 31 + b"s")


def admitting(**limits: float) -> OneRouter:
    """Return a core that admits strangers, but only to Alice."""
    admission = replace(AdmissionLimits(), **limits)
    one = OneRouter(
        Neighbour(NEIGHBOUR.public), strangers=True, limits=CoreLimits(admission=admission), locals={ALICE.public}
    )
    one.router.directory.public = frozenset({ALICE.public})
    return one


def asks(source: SigningKey, count: int, *, first: int = 0) -> list[bytes]:
    """Return that many messages of that source to Alice."""
    return [
        seal_unicast(source, ALICE.public, n.to_bytes(4), ttl_s=60, expiry_min=EXPIRY)
        for n in range(first, first + count)
    ]


def refused(one: OneRouter) -> list[Reason]:
    """Return the reasons of refused messages, from the log."""
    return [Reason(reason) for event, reason, _ in one.turned() if event == "refused"]


def downs(one: OneRouter) -> list[dict[str, object]]:
    return [
        dict(event.fields) for event in one.events if isinstance(event, RouterChange) and event.event == "link_down"
    ]


# -- false signatures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "limit"), [(NEIGHBOUR, 5), (strange(1), 2)], ids=["a neighbour", "a stranger"])
def test_a_link_that_brings_more_false_signatures_than_it_may_ends(source: SigningKey, limit: int) -> None:
    one = admitting(bad_signatures_max=5, strangers_bad_signatures_max=2)
    number = one.link(source.public, role="router")
    one.bring(number, *map(forged, asks(source, limit)))
    one.cycle()
    assert one.closed() == [], "as many as it may"
    one.bring(number, forged(asks(source, 1, first=limit)[0]))
    one.cycle()
    assert one.closed() == [(number, "bad-signature")] and one.router.links.get(number) is None
    [down] = downs(one)
    assert (down["peer"], down["because"]) == (source.public, "bad-signature"), "the log names the key and the cause"


def test_false_signatures_far_apart_in_time_end_nothing() -> None:
    one = admitting(bad_signatures_max=2)
    number = one.link(NEIGHBOUR.public, role="router")
    for n in range(10):
        one.bring(number, forged(asks(NEIGHBOUR, 1, first=n)[0]))
        one.cycle()
        one.seconds += 30
    assert one.closed() == []


def test_what_the_link_said_before_is_settled_and_what_it_says_after_is_not_heard() -> None:
    one = admitting(bad_signatures_max=0)
    number = one.link(NEIGHBOUR.public, role="router")
    one.bring(number, *asks(NEIGHBOUR, 1), forged(asks(NEIGHBOUR, 1, first=1)[0]))
    one.cycle()
    assert one.settled() == {number: (2, [(2, Reason.BAD_SIGNATURE, "")])} and len(one.accepted()) == 1
    one.bring_unheard(number, *asks(NEIGHBOUR, 1, first=2))


def test_a_forger_is_shut_out_for_a_while() -> None:
    one = admitting(bad_signatures_max=0, bad_signatures_barred_s=60)
    number = one.link(NEIGHBOUR.public, role="router")
    one.bring(number, forged(asks(NEIGHBOUR, 1)[0]))
    one.cycle()
    one.done.clear()
    one.seconds += 59
    again = one.link(NEIGHBOUR.public, role="router")
    [close] = [effect for effect in one.done if isinstance(effect, Close)]
    assert (close.link, close.reason) == (again, Reason.BAD_SIGNATURE) and "2 s" in close.text
    one.seconds += 2
    assert one.router.links.get(one.link(NEIGHBOUR.public, role="router")) is not None


@pytest.mark.parametrize(
    ("place", "another"),
    [(PLACE, "198.51.100.0/24"), ("127.0.0.0/24 (user 1000)", "127.0.0.0/24 (users 65536 to 131071)")],
)
def test_a_forging_stranger_shuts_out_the_strangers_of_its_prefix_or_user_and_nobody_else(
    place: str, another: str
) -> None:
    one = admitting(strangers_bad_signatures_max=0, bad_signatures_barred_s=60)
    number = one.link(strange(1).public, role="router", place=place)
    one.bring(number, forged(asks(strange(1), 1)[0]))
    one.cycle()
    same = one.link(strange(2).public, role="router", place=place)
    other = one.link(strange(3).public, role="router", place=another)
    known = one.link(NEIGHBOUR.public, role="router", place=place)
    unplaced = one.link(strange(4).public, role="router")
    assert {link.id for link in one.router.links} == {other, known, unplaced}
    one.seconds += 61
    assert one.router.links.get(same) is None
    assert one.router.links.get(one.link(strange(2).public, role="router", place=place)) is not None


def test_those_who_are_shut_out_are_remembered_up_to_a_number() -> None:
    one = admitting(strangers_bad_signatures_max=0, barred_max=4)
    for n in range(1, 9):
        number = one.link(strange(n).public, role="router")
        one.bring(number, forged(asks(strange(n), 1)[0]))
        one.cycle()
    assert len(one.router.admission._barred) == 4
    assert one.router.links.get(one.link(strange(1).public, role="router")) is not None, "the oldest is forgotten"
    assert one.router.links.get(one.link(strange(8).public, role="router")) is None


def test_nobody_ends_another_ones_link_with_what_it_carries() -> None:
    """A valid unicast of a third key carries a false multicast, and comes through an honest router."""
    admission = AdmissionLimits(bad_signatures_max=0)
    one, honest, _, _ = two_bringers(CoreLimits(admission=admission))
    body = encode_control(Carried(forged(news())))
    one.bring(honest, seal_unicast(BOB, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    far = SigningKey(b"f" * 32)
    one.bring(honest, seal_unicast(far, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[honest][1]][-1] is Reason.BAD_SIGNATURE
    assert one.closed() == []
    key = one.router.links.get(honest)
    assert key is not None
    own = SigningKey(b"p" * 32)
    assert own.public == key.key
    one.bring(
        honest, seal_unicast(own, ME.public, encode_control(Carried(forged(news(b"2")))), ttl_s=0, expiry_min=EXPIRY)
    )
    one.cycle()
    assert one.closed() == [(honest, "bad-signature")], "what it carries in its own name is its own"


# -- rates -------------------------------------------------------------------------------------------------------


def test_a_stranger_has_a_rate_before_its_signatures_are_checked() -> None:
    one = admitting(messages_per_s_stranger=3, messages_per_s_strangers=100)
    number = one.link(strange(1).public, role="router")
    job = one.bring(number, *map(forged, asks(strange(1), 10)))
    assert len(job.fresh) == 6, "no more of them cost a signature, and twice a second's worth may come at once"
    one.cycle()
    assert sorted(set(refused(one))) == [Reason.BAD_SIGNATURE, Reason.RATE_LIMITED]
    one.seconds += 1
    assert len(one.bring(number, *asks(strange(1), 10, first=20)).fresh) == 3


def test_all_strangers_together_have_one_too() -> None:
    one = admitting(messages_per_s_stranger=3, messages_per_s_strangers=7)
    links = {n: one.link(strange(n).public, role="router") for n in range(1, 6)}
    jobs = [one.bring(number, *asks(strange(n), 3)) for n, number in links.items()]
    assert [len(job.fresh) for job in jobs] == [3, 3, 3, 3, 2]
    known = one.link(NEIGHBOUR.public, role="router")
    assert len(one.bring(known, *asks(NEIGHBOUR, 30)).fresh) == 30, "neighbours that are known do not share it"


def test_no_limit_is_no_limit() -> None:
    one = admitting(messages_per_s_stranger=0, messages_per_s_strangers=0)
    assert len(one.bring(one.link(strange(1).public, role="router"), *asks(strange(1), 500)).fresh) == 500


def test_a_stranger_that_becomes_known_has_the_limits_of_a_neighbour() -> None:
    one = admitting(messages_per_s_stranger=1)
    number = one.link(strange(1).public, role="router")
    one.router.neighbours_changed([Neighbour(strange(1).public)], one.now())
    assert len(one.bring(number, *asks(strange(1), 30)).fresh) == 30


# -- places ------------------------------------------------------------------------------------------------------


def test_a_stranger_that_is_silent_is_closed_though_it_may_ping() -> None:
    one = admitting(strangers_idle_s=60)
    silent, busy = one.link(strange(1).public, role="router"), one.link(strange(2).public, role="router")
    known = one.link(NEIGHBOUR.public, role="router")
    for n in range(3):
        one.pass_time(25)
        if n == 2:
            break
        one.bring(busy, asks(strange(2), 1, first=n)[0])
        one.bring(silent, forged(asks(strange(1), 1, first=n)[0]), asks(strange(1), 1, first=n)[0][:-1])
        one.cycle()
    assert one.closed() == [(silent, "shutdown")], "and what is refused is no sign of life"
    assert {link.id for link in one.router.links} == {busy, known}
    assert [down["because"] for down in downs(one)] == ["idle"]


def test_links_of_routers_known_by_meetings_end_late_where_there_are_few() -> None:
    one = admitting(met_idle_s=30, met_kept_s=600, met_kept_max=2)
    routers = [strange(n) for n in range(1, 5)]
    known = [Neighbour(key.public, learned="discovery") for key in routers]
    one.router.neighbours_changed([Neighbour(NEIGHBOUR.public), *known], one.now())
    links = []
    for key in routers:
        links.append(one.link(key.public, role="router"))
        one.seconds += 1
    one.pass_time(35)
    assert one.closed() == [(links[0], "shutdown"), (links[1], "shutdown")], "the two heard last stay"
    one.pass_time(500)
    assert one.closed() == []
    one.pass_time(100)
    assert one.closed() == [(links[2], "shutdown"), (links[3], "shutdown")]


def test_one_that_takes_what_it_is_handed_is_not_silent() -> None:
    one = admitting(strangers_idle_s=60)
    alice = one.link(ALICE.public)
    reader = one.link(strange(1).public, role="router")
    for n in range(5):
        one.pass_time(25)
        one.bring(alice, letter(strange(1).public, bytes((n,)), ttl_s=0))
        one.cycle()
        one.router.settled(reader, n + 1, one.now())
    assert one.closed() == [] and len(one.handed(reader)) == 5


def test_a_member_of_a_group_may_be_silent_where_anybody_may_join() -> None:
    one = admitting(strangers_idle_s=60, strangers_connections_max=1)
    one.router.directory.join_open = True
    member = one.link(strange(1).public, role="router")
    one.bring(
        member,
        seal_unicast(strange(1), ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY),
    )
    one.cycle()
    one.pass_time(600)
    assert one.closed() == []
    one.link(strange(2).public, role="router")
    assert one.closed() == [(member, "shutdown")], "but it gives way to a newcomer"


def test_when_strangers_have_all_their_places_the_longest_silent_gives_way() -> None:
    one = admitting(strangers_connections_max=3, strangers_spared_s=10, strangers_idle_s=3600)
    first, second, third = (one.link(strange(n).public, role="router") for n in (1, 2, 3))
    one.seconds += 9
    refused_one = one.link(strange(4).public, role="router")
    assert one.closed() == [(refused_one, "rate-limited")], "none has been silent for long"
    one.bring(first, asks(strange(1), 1)[0])
    one.cycle()
    one.seconds += 2
    fourth = one.link(strange(4).public, role="router")
    assert one.closed() == [(second, "shutdown")]
    assert {link.id for link in one.router.links} == {first, third, fourth}
    assert one.router.links.get(one.link(NEIGHBOUR.public, role="router")) is not None


def test_a_stranger_that_comes_again_takes_its_own_place() -> None:
    one = admitting(strangers_connections_max=2)
    first, second = one.link(strange(1).public, role="router"), one.link(strange(2).public, role="router")
    again = one.link(strange(2).public, role="router")
    assert one.closed() == [(second, "replaced")] and {link.id for link in one.router.links} == {first, again}


def test_no_place_is_no_place() -> None:
    one = admitting(strangers_connections_max=0)
    assert one.router.links.get(one.link(strange(1).public, role="router")) is None
    assert one.closed() == [(1, "not-authorised")], "it need not come again"


def test_a_stranger_for_whom_there_is_no_place_now_may_come_again() -> None:
    one = admitting(strangers_connections_max=1)
    one.link(strange(1).public, role="router")
    late = one.link(strange(2).public, role="router")
    [close] = [effect for effect in one.done if isinstance(effect, Close)]
    assert (close.link, close.reason.later, close.text) == (late, True, TAKEN)


def test_it_reads_as_a_sentence() -> None:
    one = admitting(strangers_connections_max=5)
    one.link(strange(1).public, role="router")
    assert repr(one.router.admission) == "<1 of at most 5 strangers, 0 keys and prefixes shut out>"
    assert WALL_S


# -- lives -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connected", "comes", "stays"),
    [((2, 1), (1, 9), True), ((2, 1), (0, 9), True), ((1, 9), (2, 1), False), ((2, 9), (2, 1), False),
     (None, (0, 1), False), ((2, 1), None, False)],
)  # fmt: skip
def test_a_router_is_not_replaced_by_one_of_an_earlier_life(
    connected: tuple[int, int] | None, comes: tuple[int, int] | None, stays: bool
) -> None:
    """It is the node of which it was restored, which still runs; whoever does not tell its life replaces as ever."""
    one = admitting()
    first, second = (one.link(NEIGHBOUR.public, role="router", run=said and Run(*said)) for said in (connected, comes))
    gone, text = (second, OUTLIVED) if stays else (first, "a newer connection of the same key")
    assert [effect for effect in one.done if isinstance(effect, Close)] == [Close(gone, Reason.REPLACED, text)]
    link = one.router.links.to(NEIGHBOUR.public)
    assert link is not None and link.id == (first if stays else second)
