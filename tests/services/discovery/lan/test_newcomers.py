"""How soon a node is met that speaks by the product's schedule, beside an attacker whose datagrams seem to come from
other machines: by value (R-D19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, cycle, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.lan import came, carried_out, key_of, signed, speaking

from router.core.wire.advert import claimed_router
from router.core.wire.crypto import PublicKey, SigningKey
from router.service.contract import Came, Tick
from router.service.roles.discovery import Dial, NeighbourLinked, NeighbourUnreachable
from services.discovery.core.lan.lan import Lan
from services.discovery.core.lan.schedule import FIRST_S, Schedule
from services.discovery.core.lan.waiting import SLOT_S

NEWCOMER, NEW_PLACES = key_of(3), ("10.0.0.77%2:40000", "fe80::77%2:40000")
LINK_S = 3.0
"""The time that a newcomer needs for a link once it has a place: who has the greater key dials three seconds later."""
TICK_S = 0.1

Attack = Iterator[Came]


@cache
def of_key(number: int) -> bytes:
    return signed(key_of(10_000 + number))


def anywhere(chance: Random, versions: str) -> str:
    """Return an address that the attacker names as its own, of one of these IP versions."""
    if chance.choice(versions) == "4":
        return f"10.0.0.{chance.randrange(100, 250)}%2:40000"
    return f"fe80::{chance.randrange(0x100, 1 << 16):x}%2:40000"


def advertisements(seed: int, versions: str, copies: int = 1, together: int = 20) -> Attack:
    """Yield advertisements of ever new keys, some together in turn, until each of these came so often."""
    chance = Random(seed)
    for first in count(0, together):
        crowd = [came(of_key(first + each), anywhere(chance, versions)) for each in range(together)]
        for _ in range(copies):
            yield from crowd


def in_the_name_of(key: SigningKey, *peers: str) -> Attack:
    """Yield datagrams that name a key and are not signed by it."""
    said = signed(key, 1000)
    for number, peer in enumerate(cycle(peers)):
        yield came(said[:-4] + number.to_bytes(4, "big"), peer)


def speaks_beside(lan: Lan, attack: Attack, per_s: int, news: list[Came], seed: int, begin_s: float) -> Iterator[float]:
    """Let a node hear an attacker's datagrams, and from `begin_s` on by the product's schedule `news` as well; yield
    after each moment. Nobody is found where the attacker's keys are."""
    chance, schedule = Random(seed), Schedule(Random(seed), begin_s)
    now_s = tick_s = chance.random() / per_s
    failed: list[tuple[float, NeighbourUnreachable]] = []

    def hear(what: object, at_s: float) -> None:
        if not isinstance(what, Came) or lan.admits(what, at_s):
            dials = [one for one in carried_out(lan, what, at_s) if isinstance(one, Dial)]
            failed.extend((at_s + LINK_S, NeighbourUnreachable(one.key, "nobody is there")) for one in dials)

    for datagram in attack:
        hear(datagram, now_s)
        if now_s >= tick_s:
            hear(Tick(), now_s)
            tick_s = now_s + TICK_S
        while failed and failed[0][0] <= now_s:
            hear(failed.pop(0)[1], now_s)
        next_s = now_s + chance.uniform(0.8, 1.2) / per_s
        while schedule.due_s < next_s:
            due_s = schedule.due_s
            schedule.take(due_s, is_crowded=lan.waiting.is_crowd)  # as who waits is known to the newcomer as well
            for one in news:
                hear(one, due_s)
        now_s = next_s
        yield now_s


def wait_of_newcomer(
    attack: Attack | Callable[[Lan], Attack], per_s: int, peers: tuple[str, ...], seed: int, warm_s: float = 8.0
) -> float:
    """Return how long a newcomer waits until it has kept a place long enough for a link. The attack may be by what
    became of its keys."""
    lan, here_s = speaking(), float("inf")
    attack = attack(lan) if callable(attack) else attack
    news = [came(signed(NEWCOMER), peer) for peer in peers]
    for now_s in speaks_beside(lan, attack, per_s, news, seed, warm_s):
        one = lan.neighbours.get(NEWCOMER.public)
        if one is None or not one.is_here:
            here_s = float("inf")
        here_s = min(here_s, now_s)
        if now_s >= here_s + LINK_S or now_s > warm_s + 120:
            return now_s - warm_s
    raise AssertionError("an attack does not end")


# -- newcomers --------------------------------------------------------------------------------------------------------


QUICK = {("4", NEW_PLACES[0], 100), ("6", NEW_PLACES[1], 100), ("46", NEW_PLACES[1], 20)}


@pytest.mark.parametrize(
    ("versions", "at_home", "per_s", "most_s"),
    [
        pytest.param(*case, most_s, marks=() if case in QUICK else pytest.mark.long)
        for per_s, most_s in ((20, 30), (100, 60))
        for case in product(("4", "6", "46"), NEW_PLACES, (per_s,))
    ],
)
def test_a_newcomer_is_met_beside_ever_new_keys_from_forged_addresses(
    versions: str, at_home: str, per_s: int, most_s: float
) -> None:
    assert wait_of_newcomer(advertisements(1, versions), per_s, (at_home,), seed=1) <= most_s


@pytest.mark.parametrize(("per_s", "copies", "most_s"), [(20, 2, 30), (20, 5, 30), (100, 10, 60)])
def test_a_newcomer_is_met_beside_keys_that_speak_as_often_as_it_does(per_s: int, copies: int, most_s: float) -> None:
    attack = advertisements(1, "6", copies, together=5 * per_s)
    assert wait_of_newcomer(attack, per_s, NEW_PLACES[1:], seed=1) <= most_s


def test_a_newcomer_is_met_beside_a_crowd_of_keys_that_goes_on_for_ever() -> None:
    assert wait_of_newcomer(advertisements(1, "6", 10**9, together=200), 20, NEW_PLACES[1:], seed=1) <= 30


def test_a_newcomer_is_met_beside_datagrams_that_seem_to_come_from_its_own_address() -> None:
    attack = (came(one.data, NEW_PLACES[0]) for one in advertisements(1, "4"))
    assert wait_of_newcomer(attack, 100, NEW_PLACES[:1], seed=1) <= 60


# -- neighbours that a link has proven --------------------------------------------------------------------------------


def wait_of_neighbour(attack: Attack, per_s: int, peer: str, seed: int) -> float:
    """Return how long a neighbour that a link has proven at one address speaks from another until that is known."""
    lan, key, begin_s = speaking(), NEWCOMER, 5.0
    carried_out(lan, came(signed(key), NEW_PLACES[0]), 0)
    carried_out(lan, NeighbourLinked(key.public, "10.0.0.77"), 0)
    carried_out(lan, NeighbourLinked(key.public, is_up=False), 1)
    for now_s in speaks_beside(lan, attack, per_s, [came(signed(key, 2000), peer)], seed, begin_s):
        one = lan.neighbours.get(key.public)
        assert one is not None
        if any(one.advert.rev == 2000 and f"{source.ip}%" in peer for source in one.sources) or now_s > begin_s + 120:
            return now_s - begin_s
    raise AssertionError("an attack does not end")


HOME = NEW_PLACES[0]
MOVED, FORGERS = "10.0.0.88%2:40000", tuple(f"10.0.0.{number}%2:40000" for number in range(100, 250))


@pytest.mark.parametrize("per_s", [20, 100])
@pytest.mark.parametrize(
    ("peer", "forgers"),
    [
        pytest.param(MOVED, FORGERS[:1], id="one host"),
        pytest.param(MOVED, FORGERS, id="many hosts"),
        pytest.param(MOVED, (MOVED,), id="its new address"),
        pytest.param(HOME, (HOME,), id="its address"),
        pytest.param(HOME, FORGERS, id="many hosts, while it stays"),
    ],
)
def test_a_neighbour_is_heard_beside_datagrams_that_only_name_its_key(
    peer: str, forgers: tuple[str, ...], per_s: int
) -> None:
    waits = [wait_of_neighbour(in_the_name_of(NEWCOMER, *forgers), per_s, peer, seed) for seed in range(3)]
    assert max(waits) <= sum(FIRST_S[-2:])


def test_copies_of_a_neighbours_datagram_from_forged_addresses_do_not_hide_where_it_is() -> None:
    lan = speaking()
    said = signed(NEWCOMER)
    attack = (came(said, peer) for peer in cycle(FORGERS))
    for now_s in speaks_beside(lan, attack, 100, [came(said, NEW_PLACES[0])], seed=1, begin_s=0.0):
        one = lan.neighbours.get(NEWCOMER.public)
        if now_s > 60:
            assert one is not None and "tls://10.0.0.77:4101" in one.urls
            return


@given(st.integers(0, 1000), st.sampled_from(("4", "6", "46")), st.integers(1, 12), st.sampled_from((5, 20, 40)))
def test_whatever_an_attacker_spends_a_newcomer_waits_until_it_spoke_as_often_for_its_rate(
    seed: int, versions: str, copies: int, per_s: int
) -> None:
    attack = advertisements(seed, versions, copies, together=max(1, per_s))
    assert wait_of_newcomer(attack, per_s, (Random(seed).choice(NEW_PLACES),), seed) <= 10 + per_s


# -- an attacker with 250 KB/s, who has prepared for a while ----------------------------------------------------------

STRONG_PER_S, STRONG_WARM_S, STRONG_WAIT_S = 1000, 15.0, 60.0
EVERYWHERE = tuple(f"10.0.0.{number}%2:40000" for number in range(2, 250))
"""All addresses of the network, the newcomer's among them."""


def ring(fresh_per_s: int, keys: int, peers: tuple[str, ...]) -> Attack:
    """Yield ever new keys, and between them copies of the latest ones in turn."""
    held: list[Came] = []
    for number, peer in enumerate(cycle(peers)):
        if number * fresh_per_s % STRONG_PER_S < fresh_per_s:
            held = [*held, came(of_key(number), peer)][-keys:]
            yield held[-1]
        else:
            yield held[number % len(held)]


def equals(lan: Lan, keys: int, peers: tuple[str, ...]) -> Attack:
    """Yield the datagrams of so many keys in turn. One that waits no more gives way to a new one, so that as many as
    possible wait for longer than the newcomer."""
    places, numbers = cycle(peers), count()
    held = [came(of_key(next(numbers)), next(places)) for _ in range(keys)]
    was_waiting = [False] * keys
    while True:
        for each in range(keys):
            yield held[each]
            is_waiting = bool(lan.waiting.said(of_router(held[each])))
            if was_waiting[each] and not is_waiting:
                held[each] = came(of_key(next(numbers)), next(places))
            was_waiting[each] = is_waiting


def of_router(one: Came) -> PublicKey:
    return PublicKey(claimed_router(one.data))


def stock(lan: Lan) -> Attack:
    """Yield a quarter of the datagrams for a stock of 2,500 keys that speak every ten seconds, and the others for keys
    that speak in each slot."""
    seldom, often = equals(lan, 2500, EVERYWHERE), equals(lan, int(0.75 * STRONG_PER_S * SLOT_S), FORGERS)
    while True:
        yield next(seldom)
        for _ in range(3):
            yield next(often)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(lambda lan: ring(90, 900, EVERYWHERE), id="copies of all that wait"),
        pytest.param(lambda lan: ring(90, 900, FORGERS[:1]), id="copies from one host"),
        *(  # those are worse, and 100 new keys a second are above
            pytest.param(lambda lan, per_s=per_s: ring(per_s, 10, EVERYWHERE), id=name, marks=pytest.mark.long)
            for per_s, name in ((90, "copies of a few"), (999, "new keys alone"))
        ),
        pytest.param(lambda lan: equals(lan, int(STRONG_PER_S * SLOT_S), EVERYWHERE), id="as often as the newcomer"),
        pytest.param(
            lambda lan: equals(lan, STRONG_PER_S, EVERYWHERE), id="each once a second", marks=pytest.mark.long
        ),
        pytest.param(stock, id="a stock of keys", marks=pytest.mark.long),  # parts of it are above
    ],
)
def test_a_newcomer_is_met_within_a_minute_whatever_250_kilobytes_a_second_are_spent_on(
    attack: Callable[[Lan], Attack],
) -> None:
    assert wait_of_newcomer(attack, STRONG_PER_S, NEW_PLACES[:1], 1, STRONG_WARM_S) <= STRONG_WAIT_S


def test_a_newcomer_that_speaks_as_seldom_as_ever_is_met_beside_copies_of_all_that_wait() -> None:
    """Those that go on speaking and came first have a turn of each cycle."""
    lan = speaking()
    news = [came(signed(NEWCOMER), NEW_PLACES[0])]
    schedule = Schedule(Random(1), STRONG_WARM_S)
    for number, one in enumerate(ring(90, 900, EVERYWHERE)):
        now_s = number / STRONG_PER_S
        for each in (one, *(news if schedule.take(now_s) else ())):
            if lan.admits(each, now_s):
                carried_out(lan, each, now_s)
        found = lan.neighbours.get(NEWCOMER.public)
        if found is not None and found.is_here:
            return
        assert now_s < STRONG_WARM_S + STRONG_WAIT_S
