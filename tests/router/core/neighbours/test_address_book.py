"""The address book by value: announced routers are routed to and dialled, and forgotten when they expire (R-C2,
R-D24)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE

from router.core.log.events import RouterChange
from router.core.neighbours.advertisements import SAMPLED
from router.core.neighbours.directory import Neighbour, Standing
from router.core.routing.limits import AdmissionLimits, CoreLimits
from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast, with_via
from router.core.wire.reasons import Reason

DISCOVERY, FAR, OTHER, SERVICE, UP = (SigningKey(bytes((n,)) * 32) for n in (64, 65, 66, 67, 68))
LIFE_S = 3600


def house(*neighbours: Neighbour, **more: Any) -> OneRouter:
    services = {bytes(DISCOVERY.public): "discovery"}
    return OneRouter(*neighbours, services=services, locals=[ALICE.public], **more)


def advert(key: SigningKey = FAR, rev: int = 1, *urls: str, service: SigningKey | None = None) -> Advertisement:
    addresses = map(parse_address, urls or ("tls://45.0.0.1:4100",))
    services = {"pubsub": service.public} if service is not None else {}
    return make_advertisement(key, addresses, services=services, rev=rev, expiry_min=expiry_min(WALL_S + LIFE_S))


def announce(one: OneRouter, *adverts: Advertisement) -> list[Reason]:
    found = one.router.links.to(DISCOVERY.public)
    link = found.id if found is not None else one.link(DISCOVERY.public)
    expiry = expiry_min(one.now().wall_s + 60)
    one.bring(link, *(seal_multicast(DISCOVERY, said.message, ttl_s=0, expiry_min=expiry, seen=()) for said in adverts))
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def send(one: OneRouter, to: PublicKey, via: PublicKey | None = None) -> list[Reason]:
    """Let Alice send to an address; return the reasons of refusals."""
    found = one.router.links.to(ALICE.public)
    link = found.id if found is not None else one.link(ALICE.public)
    wire = seal_unicast(ALICE, to, b"%d" % len(one.events), ttl_s=7200, expiry_min=expiry_min(WALL_S + 7200))
    one.bring(link, with_via(wire, via) if via is not None else wire)
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def told(one: OneRouter) -> list[dict[str, object]]:
    """Return the fields of the events `advert`."""
    return [dict(each.fields) for each in one.events if isinstance(each, RouterChange) and each.event == "advert"]


def test_an_advertised_router_is_dialled_when_a_message_waits_for_it() -> None:
    one = house()
    assert send(one, FAR.public) == [Reason.NO_ROUTE]
    assert announce(one, advert()) == [] and one.dialled() == []
    assert send(one, FAR.public) == [] and one.dialled() == [FAR.public]
    known = one.router.directory.neighbours[FAR.public]
    assert (known.urls, known.learned, known.doubted) == (("tls://45.0.0.1:4100",), SAMPLED, True)


def test_it_is_met_and_may_be_named_as_the_next_router() -> None:
    one = house()
    announce(one, advert())
    assert one.router.directory.standing(FAR.public, owner=False) is Standing.MET
    assert one.router.directory.rank(FAR.public) == 0, "it teaches no routes"
    assert send(one, SERVICE.public, via=FAR.public) == [] and one.dialled() == [FAR.public]


def test_the_name_of_a_service_is_a_route_that_displaces_nothing() -> None:
    one = house()
    announce(one, advert(service=SERVICE))
    assert send(one, SERVICE.public) == [] and one.accepted()[-1][2] == (FAR.public,)
    announce(one, advert(OTHER, service=SERVICE))
    assert send(one, SERVICE.public) == [] and one.accepted()[-1][2] == (FAR.public,), "the first who names it"
    announce(one, advert(service=SERVICE, rev=2))
    assert send(one, SERVICE.public) == [] and one.accepted()[-1][2] == (FAR.public,), "also when it says so anew"
    announce(one, advert(rev=3))
    assert send(one, SERVICE.public) == [] and one.accepted()[-1][2] == (OTHER.public,), "the second, once it does not"
    one = house(Neighbour(UP.public, uplink=True))
    announce(one, advert(service=SERVICE))
    assert send(one, SERVICE.public) == [] and one.accepted()[-1][2] == (UP.public,)


def test_each_news_is_an_event_once_and_what_is_heard_again_none() -> None:
    one = house()
    announce(one, advert(), advert(), advert(rev=2))
    until_s = advert().deadline_s(WALL_S)
    assert told(one) == [{"peer": FAR.public, "rev": rev, "until_s": until_s} for rev in (1, 2)]
    assert one.states().count("config") == 0


def test_it_is_forgotten_when_it_expires_and_what_waited_for_it_ends() -> None:
    one = house()
    announce(one, advert())
    send(one, FAR.public)
    one.clear()
    one.pass_time(LIFE_S + 60)
    assert told(one)[-1] == {"peer": FAR.public, "removed": True, "because": "expiry-passed"}
    assert FAR.public not in one.router.directory.neighbours and len(one.router.advertisements) == 0
    assert one.router.purges, "the queue of a router that nobody knows ends, as `left`"


def test_the_book_and_what_waits_outlive_a_restart() -> None:
    one = house()
    announce(one, advert(service=SERVICE))
    send(one, FAR.public)
    after = house(disk=one.disk, seconds=60)
    assert after.router.advertisements.get(FAR.public) == advert(service=SERVICE)
    assert after.router.queues.by_recipient[FAR.public].total.messages == 1
    assert send(after, SERVICE.public) == []
    late = house(disk=after.disk, seconds=LIFE_S + 60)
    assert len(late.router.advertisements) == 0 and FAR.public not in late.router.directory.neighbours


@pytest.mark.parametrize(
    ("known", "urls", "standing"),
    [
        (Neighbour(FAR.public, urls=("tls://10.0.0.1:1",)), ("tls://10.0.0.1:1",), Standing.PEER),
        (Neighbour(FAR.public), (), Standing.PEER),
        (Neighbour(FAR.public, blocked=True), (), None),
    ],
)
def test_the_configuration_always_wins_and_blocked_beats_all(
    known: Neighbour, urls: tuple[str, ...], standing: Standing | None
) -> None:
    one = house(known)
    assert announce(one, advert()) == []
    said = one.router.directory.neighbours[FAR.public].said_urls
    assert one.router.directory.neighbours[FAR.public] == replace(known, said_urls=said) and known.urls == urls
    assert said == (("tls://45.0.0.1:4100",) if urls else ()), "it is dialled where it says that it is, after these"
    assert one.router.directory.standing(FAR.public, owner=False) is standing
    if known.blocked:
        assert send(one, FAR.public) == [Reason.BLOCKED] == send(one, SERVICE.public, via=FAR.public)


@pytest.mark.parametrize(
    ("urls", "listens", "dialled"),
    [
        (("tls://10.0.0.1:1", "tls://node.example.org:1"), "tls://45.0.0.9:1", ("tls://node.example.org:1",)),
        (("tls://127.0.0.1:1",), "tls://45.0.0.9:1", ()),
        (("tls://127.0.0.1:1",), "tls://127.0.0.1:2", ("tls://127.0.0.1:1",)),
    ],
)
def test_only_addresses_that_anybody_may_name_are_dialled(
    urls: tuple[str, ...], listens: str, dialled: tuple[str, ...]
) -> None:
    one = house()
    one.router.directory.addresses = (parse_address(listens),)
    announce(one, advert(FAR, 1, *urls))
    assert one.router.directory.neighbours[FAR.public].urls == dialled


def test_of_too_many_the_one_that_is_not_connected_and_was_heard_least_lately_gives_way() -> None:
    one = house(limits=CoreLimits(learned_max=2))
    first, second, third = FAR, OTHER, UP
    announce(one, advert(first), advert(second))
    one.link(first.public, role="router")
    announce(one, advert(third))
    assert [bytes(each.router) for each in one.router.advertisements] == [first.public, third.public]
    assert told(one)[-1] == {"peer": second.public, "removed": True, "because": "full"}


def test_keys_of_this_node_are_no_neighbours() -> None:
    one = house()
    assert announce(one, advert(ME), advert(DISCOVERY)) == [] and len(one.router.advertisements) == 0


def test_advertised_routers_take_the_places_of_strangers_unless_we_dialled_them() -> None:
    """Anybody can make a thousand keys and advertise each of them."""
    one = house(limits=CoreLimits(admission=AdmissionLimits(strangers_connections_max=1)))
    announce(one, advert(FAR), advert(OTHER), advert(UP))
    one.link(FAR.public, role="router", owner=False)
    turned_away = one.link(OTHER.public, role="router", owner=False)
    assert one.closed() == [(turned_away, "rate-limited")]
    one.link(UP.public, role="router", owner=False, dialled=True)
    assert one.closed() == []


def test_a_link_to_a_router_that_shares_nothing_closes_after_ten_minutes_of_silence_if_few_do() -> None:
    one = house()
    announce(one, advert(FAR), advert(OTHER))
    link = one.link(FAR.public, role="router", owner=False)
    one.link(OTHER.public, role="router", owner=False, dialled=True)
    one.router.directory.agreements.agree(DISCOVERY.public, OTHER.public, [SERVICE.public], 900, 0)
    one.pass_time(599)
    assert one.closed() == []
    one.pass_time(2)
    assert one.closed() == [(link, "shutdown")]
