"""The router's own advertisement by value: signed for discovery alone, and no revision ever goes back (R-D24)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rigs.one_router import ME, WALL_S, OneRouter

from router.core.neighbours.own_advertisement import NOWHERE
from router.core.wire.address import parse_address
from router.core.wire.admin import Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.advert import EXPIRY_S, TTL_S, Advertisement, decode_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min, expiry_s
from router.core.wire.message import open_message, seal_unicast

BELL, DISCOVERY = (SigningKey(bytes((n,)) * 32) for n in (62, 64))
URL = "tls://node.example.org:4100"
EXPIRY = expiry_min(WALL_S + 600)


def house(*urls: str, **more: Any) -> OneRouter:
    one = OneRouter(services={bytes(BELL.public): "bell", bytes(DISCOVERY.public): "discovery"}, **more)
    one.router.directory.public = frozenset({bytes(BELL.public), bytes(DISCOVERY.public)})
    one.router.directory.addresses = tuple(map(parse_address, urls))
    return one


def ask(one: OneRouter, service: SigningKey = DISCOVERY, **wish: Any) -> dict[str, Any]:
    link = one.link(service.public)
    body = encode_inquiry(Inquiry("advertise", json.dumps(wish)))
    one.bring(link, seal_unicast(service, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.settled()
    answer: dict[str, Any] = json.loads(decode_inquiry(open_message(one.told(link)[-1]).body).text)  # type: ignore[union-attr]
    return answer


def signed(one: OneRouter, **wish: Any) -> Advertisement:
    return decode_advertisement(bytes.fromhex(ask(one, **wish)["message"]))


def test_it_names_where_others_reach_it_and_its_public_services_that_have_a_number() -> None:
    made = signed(house(URL))
    assert made.verify() and made.router == ME.public
    assert [str(each) for each in made.addresses] == ["node.example.org:4100"]
    assert dict(made.services) == {"discovery": DISCOVERY.public} and made.groups == ()
    assert made.ttl_s == TTL_S and expiry_s(made.expiry_min) - WALL_S in range(EXPIRY_S, EXPIRY_S + 60)


def test_the_service_chooses_addresses_groups_and_life() -> None:
    group = SigningKey(b"g" * 32).public
    made = signed(house(), addresses=["tls://0.0.0.0:4100"], groups=[group.hex()], ttl_s=30, life_s=600)
    assert [str(each) for each in made.addresses] == ["0.0.0.0:4100"] and made.groups == (group,)
    assert made.ttl_s == 30 and expiry_s(made.expiry_min) - WALL_S <= 660


def test_no_revision_goes_back_when_the_clock_does_also_after_a_restart() -> None:
    one = house(URL, seconds=100.0)
    first, second = signed(one), signed(one)
    assert first.rev == (WALL_S + 100) * 1000 and second.rev == first.rev + 1
    again = house(URL, disk=one.disk, seconds=0.0)
    assert signed(again).rev == second.rev + 1


@pytest.mark.parametrize(
    ("service", "urls", "wish", "said"),
    [
        (BELL, (URL,), {}, 'only the service with the role "discovery" or "overlay" may say advertise'),
        (DISCOVERY, (), {}, NOWHERE),
        (DISCOVERY, (URL,), {"addresses": ["unix:/tmp/s"]}, "is not an address for others"),
        (DISCOVERY, (URL,), {"groups": ["00" * 32]}, "advertise: "),
        (DISCOVERY, (URL,), {"ttl_s": TTL_S + 1}, "advertise: "),
    ],
)
def test_what_cannot_be_advertised_is_answered_with_the_cause(
    service: SigningKey, urls: tuple[str, ...], wish: dict[str, Any], said: str
) -> None:
    assert said in ask(house(*urls), service, **wish)["error"]
