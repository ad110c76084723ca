"""Crowds on a LAN: whose keys keep their places, what datagrams may cost, and which sources of a key count (R-D19).

Anybody there can make keys and send from any address; a link alone proves both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, cycle

import pytest
from samples.lan import DOOR, HIGH, LOW, came, carried_out, interface, key_of, of, signed, speaking

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.service.contract import AddNeighbour, Came, Tick, Write
from router.service.roles.discovery import Dial, Interfaces, NeighbourLinked, NeighbourUnreachable
from services.discovery.core.lan.dialling import DIALLED_PER_S
from services.discovery.core.lan.gate import MOVED_PER_S, REST_BURST, SHARED_PER_S, SOURCE_BURST
from services.discovery.core.lan.lan import Lan
from services.discovery.core.lan.neighbours import KEYS_MAX, MEETING_S, PROVEN_MAX, SOURCES_MAX, Crowd, Neighbours
from services.discovery.core.lan.reports import REPORTED_MAX
from services.discovery.core.lan.waiting import TURNS_PER_S
from services.discovery.reasons import LAN_FULL

NEWCOMER, PLACE = key_of(3), "10.0.0.77%2:40000"
ONE_HOST = ("10.0.0.66%2:40000",)
MANY_HOSTS = tuple(f"10.0.0.{number}%2:40000" for number in range(100, 250))
PACE_S = 1.1 / TURNS_PER_S
LINK_S = 3.0
"""The time that a newcomer needs for a link: who has the greater key dials three seconds later."""


def hear(lan: Lan, one: Came, now_s: float) -> bool:
    """Let a node receive a datagram; return whether it was admitted."""
    is_admitted = lan.admits(one, now_s)
    if is_admitted:
        carried_out(lan, one, now_s)
    return is_admitted


def is_here(lan: Lan, key: SigningKey) -> bool:
    one = lan.neighbours.get(key.public)
    return one is not None and one.is_here


def floods(lan: Lan, sources: Iterable[str], *, begin_s: float, end_s: float, per_s: int) -> Iterator[float]:
    """Let a node receive advertisements of ever new keys; yield after each of them, with the time."""
    peers, numbers = cycle(sources), count(10_000 + int(begin_s * 1000))
    for tick in range(int((end_s - begin_s) * per_s)):
        now_s = begin_s + tick / per_s
        hear(lan, came(signed(key_of(next(numbers))), next(peers)), now_s)
        carried_out(lan, Tick(), now_s)
        yield now_s


def fill(lan: Lan, sources: Iterable[str] = ONE_HOST) -> float:
    """Let keys that nobody has proven take all places; return the time at which they have, all still present."""
    held: list[Came] = []
    for now_s in floods(lan, sources, begin_s=0, end_s=300, per_s=3):
        if not int(now_s * 3) % 60 or len(lan.neighbours) == KEYS_MAX:
            held = [came(one.advert.message, one.peer) for one in lan.neighbours]
            for one in held:
                hear(lan, one, now_s)
        if len(lan.neighbours) == KEYS_MAX:
            assert lan.neighbours.crowd().taken == KEYS_MAX
            return now_s
    raise AssertionError("the places are not full")


def proven(lan: Lan, number: int, *, stay: bool = True) -> list[SigningKey]:
    """Let a node hear that many routers, each at a host of its own, and be connected to them; they come as fast as new
    keys may. `stay`: they stay connected."""
    keys = [key_of(500 + each) for each in range(number)]
    for each, key in enumerate(keys):
        ip, now_s = f"10.0.0.{each % 200 + 20}", each * PACE_S
        assert hear(lan, came(signed(key), f"{ip}%2:40000"), now_s)
        carried_out(lan, NeighbourLinked(key.public, ip), now_s)
        if not stay:
            carried_out(lan, NeighbourLinked(key.public, is_up=False), now_s)
    return keys


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [ONE_HOST, MANY_HOSTS], ids=["one host", "many spoofed hosts"])
def test_a_newcomer_has_a_place_long_enough_for_a_link_while_keys_without_one_fill_all_places(
    sources: tuple[str, ...],
) -> None:
    lan = speaking()
    full_s = heard_s = fill(lan, sources)
    for heard_s in floods(lan, sources, begin_s=full_s, end_s=full_s + 60, per_s=30):  # the newcomer speaks until heard
        if hear(lan, came(signed(NEWCOMER), PLACE), heard_s):
            break
    assert is_here(lan, NEWCOMER)
    for _ in floods(lan, sources, begin_s=heard_s, end_s=heard_s + 2 * LINK_S, per_s=30):
        assert is_here(lan, NEWCOMER)
    assert lan.turned_away.by_reason()[LAN_FULL] > 0


def test_a_newcomer_keeps_its_place_from_keys_that_name_its_own_address() -> None:
    lan = speaking()
    full_s = fill(lan, MANY_HOSTS)
    assert hear(lan, came(signed(NEWCOMER), PLACE), full_s) and is_here(lan, NEWCOMER)
    for _ in floods(lan, (PLACE,), begin_s=full_s + 0.1, end_s=full_s + LINK_S, per_s=30):
        assert is_here(lan, NEWCOMER)


def test_a_newcomer_is_heard_at_once_when_the_keys_that_fill_all_places_are_of_one_host() -> None:
    lan = speaking()
    now_s = fill(lan)
    assert hear(lan, came(signed(NEWCOMER), PLACE), now_s) and is_here(lan, NEWCOMER)


def test_who_gives_way_is_of_the_host_that_has_most_places_and_is_forgotten_by_the_router() -> None:
    lan = speaking()
    honest = key_of(4)
    assert hear(lan, came(signed(honest), "10.0.0.78%2:40000"), 0)
    now_s = fill(lan)
    first = next(one.key for one in lan.neighbours if one.peer == ONE_HOST[0])
    hear(lan, came(signed(honest), "10.0.0.78%2:40000"), now_s)
    assert lan.admits(came(signed(NEWCOMER), PLACE), now_s)
    learned = of(AddNeighbour, carried_out(lan, came(signed(NEWCOMER), PLACE), now_s))
    assert [one.key for one in learned] == [first, NEWCOMER.public] and learned[0] == AddNeighbour(first)
    assert is_here(lan, honest)


def test_keys_that_a_link_has_proven_keep_their_places_from_those_that_none_has() -> None:
    lan = speaking()
    keys = proven(lan, 50, stay=False)
    for now_s in floods(lan, MANY_HOSTS, begin_s=10, end_s=50, per_s=20):
        if now_s % 10 == 0:
            assert all(hear(lan, came(signed(key), f"10.0.0.{20 + each}%2:40000"), now_s)
                       for each, key in enumerate(keys))  # fmt: skip
    assert all(is_here(lan, key) for key in keys) and len(lan.neighbours) > 200


def test_places_remain_for_newcomers_however_many_are_proven() -> None:
    lan = speaking()
    keys = proven(lan, KEYS_MAX)
    now_s = KEYS_MAX * PACE_S + 1
    assert sum(one.is_proven for one in lan.neighbours) == PROVEN_MAX
    assert hear(lan, came(signed(NEWCOMER), PLACE), now_s) and is_here(lan, NEWCOMER)
    assert all(lan.neighbours.is_proven(key.public) for key in keys[:PROVEN_MAX])


def test_who_shares_nothing_and_could_meet_us_keeps_its_place_no_longer_than_others_need_it() -> None:
    agreed: set[PublicKey] = set()
    neighbours, keys = Neighbours(agreed), [key_of(500 + each) for each in range(PROVEN_MAX + 2)]
    agreed |= {key.public for key in keys[1:]}
    lan = speaking()
    lan.neighbours._agreed = agreed
    proven(lan, PROVEN_MAX + 1)
    first, last = lan.neighbours.get(keys[0].public), lan.neighbours.get(keys[PROVEN_MAX].public)
    assert first is not None and last is not None
    assert first.is_proven and not last.is_proven, "the first could not have met us yet"
    carried_out(lan, NeighbourLinked(last.key, "10.0.0.9"), MEETING_S)
    assert last.is_proven and not first.is_proven
    assert repr(neighbours) == "<neighbours: 0 here of 0>"


def test_who_refused_this_node_has_proven_its_key() -> None:
    lan = speaking()
    hear(lan, came(signed(HIGH)), 0)
    carried_out(lan, NeighbourUnreachable(HIGH.public, "not let in", let_in=False), 1)
    assert lan.neighbours.is_proven(HIGH.public)


def test_who_has_taken_all_places_is_told_by_the_greatest_host() -> None:
    lan = speaking()
    assert not lan.neighbours.crowd().why_full()
    fill_s = fill(lan)
    hear(lan, came(signed(NEWCOMER), PLACE), fill_s)
    assert lan.neighbours.crowd().why_full(waiting=3) == (
        "all 256 places for nodes nearby are taken, by 2 hosts (256 by keys that have never connected and give way to "
        "newcomers), and 3 more wait; if so many nodes are not here, look for the machine that sends from 10.0.0.66, "
        "which has 255"
    )
    assert [(row["heard"], row["hosts"]) for row in lan.listed()] == [(256, 2)]
    carried_out(lan, Tick(), fill_s + 31)
    assert not lan.neighbours.crowd().why_full()


@pytest.mark.parametrize(
    ("crowd", "said"),
    [
        (Crowd(256, 256, 200, "10.0.0.9", 3), "a machine that sends from false addresses to UDP port 4100"),
        (Crowd(256, 100, 2, "fe80::9", 200), "the machine that sends from fe80::9 and other IPv6 addresses, which has"),
    ],
)
def test_false_addresses_are_not_told_as_the_place_of_a_machine(crowd: Crowd, said: str) -> None:
    assert f"if so many nodes are not here, look for {said}" in crowd.why_full()


# -- what datagrams may cost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [ONE_HOST, MANY_HOSTS], ids=["one host", "many spoofed hosts"])
def test_new_keys_cost_no_more_reports_and_dials_than_their_rate(sources: tuple[str, ...]) -> None:
    lan, reports, dials = speaking(), 0, 0
    peers = cycle(sources)
    for tick in range(20 * 500):
        one = came(signed(key_of(10_000 + tick)), next(peers)) if tick < 4000 else came(b"", next(peers))
        if lan.admits(one, tick / 500):
            deeds = carried_out(lan, one, tick / 500)
            reports, dials = reports + len(of(AddNeighbour, deeds)), dials + len(of(Dial, deeds))
    assert reports <= 9 * TURNS_PER_S and dials <= DIALLED_PER_S * 9


@pytest.mark.parametrize("is_signed_anew", [True, False])
def test_addresses_that_change_with_each_datagram_cost_no_more_reports_than_their_rate(is_signed_anew: bool) -> None:
    lan, reports = speaking(), 0
    keys = [key_of(10_000 + number) for number in range(40)]
    for number, key in enumerate(keys):
        hear(lan, came(signed(key), MANY_HOSTS[number]), 0)
    for tick in range(10 * 50):
        one = came(signed(keys[tick % 40], 2 + tick * is_signed_anew), MANY_HOSTS[tick % 149])
        if lan.admits(one, 10 + tick / 50):
            reports += len(of(AddNeighbour, carried_out(lan, one, 10 + tick / 50)))
    assert 0 < reports <= 2 * REPORTED_MAX


def test_keys_that_come_and_go_cost_no_more_reports_than_newcomers() -> None:
    lan, reports = speaking(), 0
    keys = [key_of(10_000 + number) for number in range(40)]
    for tick in range(10 * 100):
        one = came(signed(keys[tick // 2 % 40], tick, ttl_s=30 * (tick % 2 == 0)), MANY_HOSTS[tick % 149])
        if lan.admits(one, tick / 100):
            reports += len(of(AddNeighbour, carried_out(lan, one, tick / 100)))
    assert 0 < reports <= 2 * 11 * TURNS_PER_S


def test_a_flood_over_ipv6_leaves_ipv4_its_checks_and_turns() -> None:
    lan = speaking()
    carried_out(lan, Interfaces(DOOR, (interface(1),)), 0)
    forged = [came(signed(HIGH) + number.to_bytes(2, "big"), f"fe80::{number:x}%2:4") for number in range(16, 400)]
    assert [lan.admits(one, 0.5) for one in forged].count(True) == SHARED_PER_S + REST_BURST
    for number in range(16, 80):
        hear(lan, came(signed(key_of(10_000 + number)), f"fe80::{number:x}%2:4"), 2)
    assert hear(lan, came(signed(NEWCOMER), PLACE), 2.1)
    carried_out(lan, Tick(), 3.1)
    assert is_here(lan, NEWCOMER)


def test_who_has_proven_its_key_and_refuses_this_node_is_answered_beside_a_crowd() -> None:
    """It may not hear what is said to all."""
    lan, refusing = speaking(), came(signed(NEWCOMER), PLACE)
    hear(lan, refusing, 0)
    for _ in floods(lan, MANY_HOSTS, begin_s=10.5, end_s=20.45, per_s=20):
        pass
    carried_out(lan, NeighbourUnreachable(NEWCOMER.public, "not let in", let_in=False), 20.45)
    assert lan.admits(refusing, 20.46)
    assert Write(DOOR, PLACE, signed(LOW)) in carried_out(lan, refusing, 20.46)


def test_copies_of_a_known_datagram_shut_out_no_other() -> None:
    """They come from any number of ports, as fast as the network allows."""
    lan = speaking()
    hear(lan, came(signed(HIGH)), 0)
    hear(lan, came(signed(NEWCOMER), PLACE), 0)
    for port in range(2000):
        hear(lan, came(signed(HIGH), f"10.0.0.9%2:{1000 + port}"), 9.0 + port / 10_000)
    assert lan.admits(came(signed(NEWCOMER), PLACE), 9.2)


# -- proven keys under spoofed addresses ------------------------------------------------------------------------------


def test_datagrams_in_the_name_of_a_proven_host_do_not_shut_out_its_news() -> None:
    lan = speaking()
    [key] = proven(lan, 1)
    spoofed = ("10.0.0.20%2:40000",)
    for _ in floods(lan, spoofed, begin_s=1, end_s=20, per_s=50):
        pass
    assert hear(lan, came(signed(key, 2), spoofed[0]), 19.99)
    one = lan.neighbours.get(key.public)
    assert one is not None and one.advert.rev == 2


def test_forged_news_of_a_proven_key_is_counted_against_its_source_alone() -> None:
    lan = speaking()
    first, other = proven(lan, 2)
    forged = [came(signed(first)[:-1] + bytes((number,)), ONE_HOST[0]) for number in range(200)]
    assert [lan.admits(one, 1) for one in forged].count(True) <= 2 * SOURCE_BURST + REST_BURST + 1 < MOVED_PER_S
    assert lan.admits(came(signed(first, 2), PLACE), 1) and lan.admits(came(signed(other, 2), PLACE), 1)
    assert hear(lan, came(signed(NEWCOMER), PLACE), 1)


def test_copies_from_other_addresses_do_not_keep_a_router_from_its_own() -> None:
    lan = speaking()
    hear(lan, came(signed(HIGH)), 0)
    for number in range(20, 30):
        hear(lan, came(signed(HIGH), f"10.0.0.{number}%2:4"), 1)
    [one] = lan.neighbours
    assert len(one.sources) == SOURCES_MAX
    hear(lan, came(signed(HIGH, 2), "10.0.0.99%2:4"), 20)  # it has moved, so it has signed anew
    assert "tls://10.0.0.99:4101" in one.urls
    hear(lan, came(signed(HIGH, 2), "fe80::99%2:4"), 21)
    assert "tls://[fe80::99%2]:4101" in one.urls


@pytest.mark.parametrize("ip", ["10.0.0.99", "::ffff:10.0.0.99"])
def test_the_address_where_a_link_has_proven_the_key_is_dialled_first_and_stays(ip: str) -> None:
    lan = speaking()
    for number in range(20, 20 + SOURCES_MAX):
        hear(lan, came(signed(HIGH), f"10.0.0.{number}%2:4"), 1)
    carried_out(lan, NeighbourLinked(HIGH.public, ip), 2)
    hear(lan, came(signed(HIGH), "10.0.0.99%2:4"), 3)
    [one] = lan.neighbours
    assert one.urls[0] == "tls://10.0.0.99:4101" and len(one.sources) == SOURCES_MAX
    hear(lan, came(signed(HIGH, 2), "10.0.0.20%2:4"), 4)
    for number in range(30, 40):
        hear(lan, came(signed(HIGH, 2), f"10.0.0.{number}%2:4"), 5)
    assert one.urls[0] == "tls://10.0.0.99:4101"


def test_proven_keys_are_dialled_before_others_and_those_dialled_in_vain_last() -> None:
    lan = speaking()
    [key] = proven(lan, 1)
    crowd = [key_of(number) for number in range(100, 140)]
    for number, one in enumerate(crowd):
        hear(lan, came(signed(one), f"10.0.0.{50 + number}%2:4"), 1 + number * PACE_S)
    for one in crowd:
        carried_out(lan, NeighbourUnreachable(one.public, "nobody is there"), 10)
    carried_out(lan, NeighbourUnreachable(key.public, "nobody is there"), 10)
    assert of(Dial, carried_out(lan, Tick(), 10 + 2.0))[0] == Dial(key.public)


def test_a_datagram_that_names_no_router_where_one_stands_is_not_decoded() -> None:
    lan = speaking(LOW)
    assert not lan.admits(came(signed(HIGH)[:30]), 0) and not lan.admits(came(b"\x82\x01" + signed(HIGH)[3:]), 0)
    assert lan.turned_away.by_reason() == {Reason.MALFORMED: 2}
