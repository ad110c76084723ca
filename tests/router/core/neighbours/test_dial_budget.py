"""The budget for dialling an address that only advertisements name, on virtual time (R-D22)."""

from __future__ import annotations

from ipaddress import IPv4Address
from itertools import pairwise

import pytest

from router.core.neighbours.dial_budget import DAY_S, DialBudget, DialBudgets, DialLimits, WhoAnswered
from router.core.service.refusals import Refusals
from router.core.wire.address import AddressSource, IpAddress, parse_address
from router.core.wire.reasons import DIAL_BUDGET

LIMITS = DialLimits()
TEN_MINUTES_S = 600


def place(number: int = 1, port: int = 4100) -> IpAddress:
    found = parse_address(f"tls://45.0.0.{number}:{port}")
    assert isinstance(found, IpAddress)
    return found


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_a_thousand_advertisements_that_name_a_victim_cause_three_connections_in_ten_minutes() -> None:
    """All advertisements come at once, and each of them again every ten seconds."""
    refusals = Refusals()
    budget = DialBudget(LIMITS, refusals)
    dialled = [
        second
        for second in range(0, TEN_MINUTES_S, 10)
        for number in range(1000)
        if budget.begin(key(number), place(), second) is None
    ]
    assert dialled == [0, 0, 0]
    assert refusals.take() == [(DIAL_BUDGET, {"prefix": "45.0.0.0/24", "times": 59_997})]


def rests(found: WhoAnswered, times: int, step_s: float, answered_by: bytes = b"") -> list[float]:
    """Return how long an address rested before each of these dials, all of which end so."""
    limits = DialLimits(connections=times)
    budget, now_s, waited = DialBudget(limits, Refusals()), 0.0, []
    for _ in range(times):
        began_s = now_s
        while budget.begin(key(1), place(), now_s) is not None:
            now_s += step_s
        waited.append(now_s - began_s)
        budget.end(key(1), place(), now_s, found, answered_by)
    return waited


@pytest.mark.parametrize("found", [WhoAnswered.NOBODY, WhoAnswered.OTHER])
def test_address_that_a_neighbour_says_is_dialled_every_fifteen_seconds_until_it_is_there(found: WhoAnswered) -> None:
    """Nobody answers, or a forwarding for a router that is away does; the budget lasts for each of ten minutes."""
    budget, dialled, now_s = DialBudgets(Refusals()).of(AddressSource.NEIGHBOUR), list[float](), 0.0
    while now_s < (TEN_MINUTES_S if found is WhoAnswered.OTHER else 6 * TEN_MINUTES_S):
        assert budget.begin(key(1), place(), now_s) is None
        dialled.append(now_s)
        budget.end(key(1), place(), now_s, found)
        now_s = budget.rests_until_s(place())
    waits = [later - earlier for earlier, later in pairwise(dialled)]
    assert waits[:3] == [5.0, 10.0, 15.0] and set(waits[3:]) == {15.0}


def test_another_key_lets_the_address_rest_for_twice_as_long_each_time_up_to_a_day() -> None:
    waited = rests(WhoAnswered.OTHER, 12, 60, answered_by=key(9))
    assert waited[:4] == [0, 600, 1200, 2400] and waited[-1] == DAY_S == max(waited)


def test_an_address_where_nobody_answers_rests_briefly_and_ten_minutes_at_most() -> None:
    assert rests(WhoAnswered.NOBODY, 9, 10) == [0, 10, 20, 40, 80, 160, 320, 600, 600]


def test_an_address_where_who_answers_shows_no_key_rests_briefly_for_ten_minutes_and_then_long() -> None:
    assert rests(WhoAnswered.OTHER, 9, 10) == [0, 10, 20, 40, 80, 160, 320, 640, 1280]


def test_a_victim_that_does_not_answer_gets_three_connections_in_ten_minutes() -> None:
    budget = DialBudget(LIMITS, Refusals())
    dialled = []
    for second in range(2 * TEN_MINUTES_S):
        if budget.begin(key(second % 3), place(), second) is None:
            dialled.append(second)
            budget.end(key(second % 3), place(), second, WhoAnswered.NOBODY)
    assert dialled == [0, 10, 30, 600, 680, 840]


def test_a_router_that_is_back_is_not_charged_for_its_absence() -> None:
    """It is killed again and again, and each time dialled in vain before it answers."""
    budget = DialBudget(LIMITS, Refusals())
    for second in range(0, TEN_MINUTES_S, 20):
        assert budget.begin(key(1), place(), second) is None
        budget.end(key(1), place(), second, WhoAnswered.NOBODY)
        assert budget.begin(key(1), place(), second + 10) is None
        budget.end(key(1), place(), second + 10, WhoAnswered.EXPECTED)


def test_the_address_of_the_router_that_was_expected_there_costs_nothing() -> None:
    budget = DialBudget(LIMITS, Refusals())
    for second in range(100):
        assert budget.begin(key(1), place(), second) is None
        budget.end(key(1), place(), second, WhoAnswered.EXPECTED)
    assert budget.begin(key(2), place(), 100) is None
    budget.end(key(2), place(), 100, WhoAnswered.OTHER, answered_by=key(1))
    refused = budget.begin(key(3), place(), 101)
    assert refused is not None and refused[0] is DIAL_BUDGET
    said = "45.0.0.1:4100 is named by an advertisement and not dialled now"
    assert refused[1] == f"{said}: it was last dialled in vain, and rests for 10.0 minutes after that"


@pytest.mark.parametrize("is_known", [True, False])
def test_who_names_the_address_of_another_router_does_not_shut_that_one_out(is_known: bool) -> None:
    """Whether it was found there before, or only when others were expected there."""
    budget = DialBudget(LIMITS, Refusals())
    if is_known:
        assert budget.begin(key(1), place(), 0) is None
        budget.end(key(1), place(), 0, WhoAnswered.EXPECTED)
    for number in range(2, 5):
        if budget.begin(key(number), place(), number) is None:
            budget.end(key(number), place(), number, WhoAnswered.OTHER, answered_by=key(1))
    assert budget.begin(key(5), place(), 6) is not None
    for second in range(10, TEN_MINUTES_S, 10):  # also while it is started again
        assert budget.begin(key(1), place(), second) is None
        budget.end(key(1), place(), second, WhoAnswered.NOBODY)


def test_a_router_that_was_found_is_dialled_as_before_for_ten_minutes_while_it_shows_no_key() -> None:
    """The system accepts connections for a router that hangs, starts or stops. Then somebody else has its address."""
    budget = DialBudget(LIMITS, Refusals())
    for began_s in (0, 5 * TEN_MINUTES_S):  # being found ends the doubt
        assert budget.begin(key(1), place(), began_s) is None
        budget.end(key(1), place(), began_s, WhoAnswered.EXPECTED)
        for second in range(began_s + 10, began_s + TEN_MINUTES_S, 10):
            assert budget.begin(key(1), place(), second) is None
            budget.end(key(1), place(), second, WhoAnswered.OTHER)
    last_s = 6 * TEN_MINUTES_S + 10
    assert budget.begin(key(1), place(), last_s) is None
    budget.end(key(1), place(), last_s, WhoAnswered.OTHER)
    assert budget.begin(key(1), place(), last_s + TEN_MINUTES_S - 1) is not None, "it is there no more"


def test_a_router_that_was_off_for_an_hour_is_dialled_as_before_though_it_shows_no_key_as_it_stops_and_starts() -> None:
    budget = DialBudget(LIMITS, Refusals())
    begun = [(0, WhoAnswered.EXPECTED), (10, WhoAnswered.OTHER), (20, WhoAnswered.NOBODY), (3600, WhoAnswered.OTHER)]
    for second, found in begun:
        assert budget.begin(key(1), place(), second) is None
        budget.end(key(1), place(), second, found)
    assert budget.begin(key(1), place(), 3610) is None


def lan(refusals: Refusals | None = None) -> DialBudget:
    return DialBudgets(refusals or Refusals()).of(AddressSource.SENDER)


def test_a_host_on_a_lan_gets_three_connections_at_an_address_and_ten_at_all_its_ports() -> None:
    budget = lan()
    victim = [parse_address(f"tls://192.168.0.9:{4100 + port}") for port in range(100)]
    at_one = [budget.begin(key(number), victim[0], number / 10) for number in range(500)]  # type: ignore[arg-type]
    assert at_one.count(None) == 3
    refused = at_one[-1]
    assert refused is not None and refused[0] is DIAL_BUDGET
    said = "192.168.0.9:4100 is named by a datagram on the local network and not dialled now"
    assert refused[1].startswith(said)
    at_all = [budget.begin(key(number), victim[number % 100], 60) for number in range(500)]  # type: ignore[arg-type]
    assert at_all.count(None) == 10 - 3
    assert budget.begin(key(1), parse_address("tls://192.168.0.10:4100"), 60) is None  # type: ignore[arg-type]


def six(number: int, network: str = "fe80::{}%2", port: int = 4100) -> IpAddress:
    found = parse_address(f"tls://[{network.format(f'{number:x}')}]:{port}")
    assert isinstance(found, IpAddress)
    return found


@pytest.mark.parametrize("network", ["fe80::{}%2", "fd00:1:2:3::{}"])
def test_a_victim_with_many_addresses_of_ipv6_gets_ten_connections_at_all_of_them(network: str) -> None:
    budget, dialled = lan(), 0
    for number in range(1, 500):
        if budget.begin(key(number), at := six(number % 7 + 1, network, 4100 + number % 9), number) is None:
            dialled += 1
            budget.end(key(number), at, number, WhoAnswered.NOBODY)
    assert dialled == 10
    assert budget.begin(key(1), six(1, "fe80::{}%3"), 500) is None, "the same network at another interface is another"
    assert budget.begin(key(1), six(1, "fd00:1:2:4::{}"), 500) is None
    assert budget.begin(key(1), place(1), 500) is None


def test_a_spent_ipv6_network_does_not_hold_up_who_was_found_there_before_nor_who_is_dialled_over_ipv4() -> None:
    budget = lan()
    assert budget.begin(key(1), six(1), 0) is None
    budget.end(key(1), six(1), 0, WhoAnswered.EXPECTED)
    for number in range(2, 12):
        assert budget.begin(key(number), six(number), number) is None
        budget.end(key(number), six(number), number, WhoAnswered.OTHER)
    assert budget.begin(key(20), six(20), 20) is not None
    assert budget.begin(key(1), six(1), 20) is None
    assert budget.begin(key(20), place(20), 20) is None


def test_where_no_machine_has_an_ipv6_address_its_network_is_charged_nothing_and_the_address_rests_all_the_same() -> (
    None
):
    """Else forged addresses would keep this node from all of an IPv6 network, or sleeping laptops would."""
    budget = lan()
    for number in range(1, 400):
        assert budget.begin(key(number), six(number), number) is None
        budget.end(key(number), six(number), number, WhoAnswered.NO_MACHINE)
    assert budget.begin(key(1), six(399), 400) is not None, "it rests"
    four = place(1)
    for number in range(20):  # its firewall may say so, to each port
        if budget.begin(key(number), at := place(1, 4100 + number), 400) is None:
            budget.end(key(number), at, 400, WhoAnswered.NO_MACHINE)
    assert budget.begin(key(50), four, 500) is not None
    elsewhere = DialBudget(DialLimits(of_prefix=10), Refusals())
    for number in range(20):  # a router on the way may say so as well, so far from this link it counts
        if elsewhere.begin(key(number), place(number), number) is None:
            elsewhere.end(key(number), place(number), number, WhoAnswered.NO_MACHINE)
    assert elsewhere.begin(key(50), place(50), 50) is not None


def test_addresses_on_a_lan_use_up_no_other_budget_and_never_all_room() -> None:
    """As many as can be dialled there in twenty minutes, none of which is answered."""
    budgets = DialBudgets(Refusals())
    budget = budgets.of(AddressSource.SENDER)
    for number in range(12_000):
        at = IpAddress(IPv4Address(0x0A000000 + number), 4100)
        assert budget.begin(key(number), at, number / 10) is None
        budget.end(key(number), at, number / 10, WhoAnswered.NOBODY)
    assert budgets.of(AddressSource.ANYBODY).begin(key(1), place(), 1200) is None


def test_the_ports_of_a_victim_and_the_addresses_of_its_network_count_together() -> None:
    budget = DialBudget(LIMITS, Refusals())
    dialled = sum(budget.begin(key(n), place(n % 200, 4100 + n), 0) is None for n in range(1000))
    assert dialled == LIMITS.of_prefix
    assert budget.begin(key(1), place(1, 1), TEN_MINUTES_S) is None, "after the window others may be dialled"


def test_what_is_remembered_is_bounded_and_forgotten() -> None:
    budget = DialBudget(DialLimits(places_max=2, of_prefix=10), Refusals())
    assert [budget.begin(key(n), place(n), 0) is None for n in (1, 2, 3)] == [True, True, False]
    assert budget.begin(key(3), place(3), TEN_MINUTES_S + 1) is None
    assert repr(budget) == "<dial budget: 1 addresses>"
