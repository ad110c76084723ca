"""The group of a service's own key by value: how far it reaches, and which of its messages the router handles (R-C14,
R-C26)."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE

from router.core.neighbours.advertisements import Advertised, Advertisements, Entry
from router.core.neighbours.directory import JOIN, STORE, Neighbour
from router.core.routing.limits import CoreLimits
from router.core.wire.address import NamedAddress
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, Advertisement, make_advertisement
from router.core.wire.codec import encode
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import ADVERT_STALE, Reason

UP, CLIENT, BELL, DISCOVERY, FAR = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64, 65))
EXPIRY = expiry_min(WALL_S + 600)


def advertisement(key: SigningKey, rev: int = 1) -> Advertisement:
    return make_advertisement(key, [NamedAddress("far.example", 4100)], rev=rev, expiry_min=EXPIRY)


BODY = advertisement(FAR).message


def house(**more: object) -> OneRouter:
    known = Neighbour(UP.public, uplink=True), Neighbour(CLIENT.public, grants=frozenset({JOIN, STORE}))
    services = {bytes(BELL.public): "bell", bytes(DISCOVERY.public): "discovery"}
    return OneRouter(*known, services=services, **more)  # type: ignore[arg-type]


def publish(one: OneRouter, link: int, group: SigningKey, body: bytes, ttl_s: int = 60) -> list[Reason]:
    """Return the reasons for which messages were refused."""
    one.bring(link, seal_multicast(group, body, ttl_s=ttl_s, expiry_min=EXPIRY, seen=()))
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def join(one: OneRouter, link: int, source: SigningKey, group: SigningKey, *, local: bool) -> None:
    body = encode_control(Join(group.public, local))
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.settled()


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_what_a_service_says_in_its_own_group_stays_here_while_nobody_joins_it_from_afar(ttl_s: int) -> None:
    one = house()
    up, bell, alice = one.link(UP.public, role="router"), one.link(BELL.public), one.link(ALICE.public)
    assert publish(one, bell, BELL, b"1", ttl_s) == [Reason.NO_SUBSCRIBERS], "the router hears no such thing"
    join(one, alice, ALICE, BELL, local=True)
    assert publish(one, bell, BELL, b"2", ttl_s) == []
    assert one.accepted()[-1][2] == (ALICE.public,) and not one.handed(up)
    join(one, alice, ALICE, BELL, local=False)
    assert publish(one, bell, BELL, b"3", ttl_s) == []
    assert one.accepted()[-1][2] == (ALICE.public, UP.public)
    assert publish(one, alice, FAR, b"4", ttl_s) == [], "a group that is no service's goes upstream as before"
    assert one.accepted()[-1][2] == (UP.public,)


def test_the_group_of_discovery_never_leaves_the_node() -> None:
    """The group stays here whatever its members asked for and whoever is linked; no message comes into it from
    outside."""
    one = house()
    up, found = one.link(UP.public, role="router"), one.link(DISCOVERY.public)
    alice, client = one.link(ALICE.public), one.link(CLIENT.public, role="router")
    join(one, alice, ALICE, DISCOVERY, local=False)
    join(one, client, CLIENT, DISCOVERY, local=False)
    assert one.router.groups.members(DISCOVERY.public) == (ALICE.public,)
    assert not one.router.groups.is_wanted(DISCOVERY.public)
    assert publish(one, found, DISCOVERY, b"hello") == []
    assert one.accepted()[-1][2] == (ALICE.public,)
    assert publish(one, up, DISCOVERY, b"hello again") == [Reason.NOT_LOCAL_SOURCE]


@pytest.mark.parametrize("overheard", [False, True])
def test_the_router_hears_advertisements_of_its_discovery_service(overheard: bool) -> None:
    """The router gets each advertisement once, as a value, whether or not others get it too; the log does not list the
    router as a recipient."""
    one = house()
    found, alice = one.link(DISCOVERY.public), one.link(ALICE.public)
    if overheard:
        join(one, alice, ALICE, DISCOVERY, local=True)
    assert publish(one, found, DISCOVERY, BODY, 0) == []
    assert one.router.advertisements.get(FAR.public) == advertisement(FAR)
    assert [recipients for _, _, recipients in one.accepted()] == [(ALICE.public,)] * overheard


def test_it_hears_them_there_and_nowhere_else() -> None:
    one = house()
    found, bell, alice = one.link(DISCOVERY.public), one.link(BELL.public), one.link(ALICE.public)
    assert publish(one, bell, BELL, BODY) == [Reason.NO_SUBSCRIBERS], "another service"
    assert publish(one, alice, ALICE, BODY) == [], "an app's goes upstream"
    assert publish(one, bell, DISCOVERY, BODY) == [Reason.NO_SUBSCRIBERS], "another's group"
    one.bring(found, seal_unicast(DISCOVERY, ME.public, BODY, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[found][1]] == [Reason.MALFORMED], "to the router that is a JOIN"
    inner = seal_multicast(BELL, encode_control(Join(FAR.public, False)), ttl_s=60, expiry_min=EXPIRY, seen=())
    one.bring(bell, seal_unicast(BELL, ME.public, encode([0, inner]), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    assert not one.router.groups.members(FAR.public), "what is carried in a unicast is no request either"
    assert len(one.router.advertisements) == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BODY[:2], Reason.MALFORMED),
        (encode([1, {"rev": 1}]), Reason.MALFORMED),
        (BODY + b"\x00", Reason.MALFORMED),
        (BODY[:2] + bytes(ADVERTISEMENT_BYTES_MAX), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_advertisement_is_refused(body: bytes, reason: Reason) -> None:
    one = house()
    assert publish(one, one.link(DISCOVERY.public), DISCOVERY, body) == [reason]
    assert len(one.router.advertisements) == 0


def test_the_advertisement_heard_least_lately_gives_way() -> None:
    told = [advertisement(SigningKey(bytes((n,)) * 32)) for n in (1, 2, 3)]
    book = Advertisements(2)
    for said in (told[0], told[1], told[0], told[2]):
        entry = book.read(Advertised(DISCOVERY.public, said.message), WALL_S)
        assert isinstance(entry, Entry)
        book.hear(entry, lambda key: False)
    assert [book.get(said.router) for said in told] == [told[0], None, told[2]]
    one = house(limits=CoreLimits(learned_max=1))
    found = one.link(DISCOVERY.public)
    for said in told:
        assert publish(one, found, DISCOVERY, said.message) == []
    assert len(one.router.advertisements) == 1


def test_only_a_greater_revision_replaces() -> None:
    one = house()
    found, newer = one.link(DISCOVERY.public), advertisement(FAR, rev=2)
    for said, reasons in ((advertisement(FAR), []), (newer, []), (newer, []), (advertisement(FAR), [ADVERT_STALE])):
        assert publish(one, found, DISCOVERY, said.message, 0) == reasons
    assert one.router.advertisements.get(FAR.public) == newer
