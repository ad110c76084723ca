"""The neighbours that a node dials on a LAN, and the pauses after a failure (R-D19)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from samples.lan import HIGH, LOW, at, came, carried_out, key_of, of, signed, speaking

from router.core.wire.crypto import PublicKey
from router.service.contract import AddNeighbour, Tick, Wake
from router.service.roles.discovery import Dial, NeighbourAdded, NeighbourLinked, NeighbourUnreachable
from services.discovery.core.lan.dialling import AGAIN, DIALLED_PER_S, UNDER_WAY_MAX
from services.discovery.core.lan.lan import YIELD_S, Lan
from services.discovery.core.lan.reports import PATIENCE_S, UNANSWERED_MAX


def dialled_in_vain(lan: Lan, until_s: int, let_in: bool = True) -> list[float]:
    """Let the node hear HIGH, signed again every five minutes, and not reach it; return the times of its dials."""
    said = [came(signed(HIGH, 1 + number, now_s=300 * number)) for number in range(1 + until_s // 300)]
    dialled = []
    for now_s in [quarter / 4 for quarter in range(4 * until_s)]:
        for deed in lan.hear(said[int(now_s // 300)], at(now_s)):
            if isinstance(deed, Dial):
                dialled.append(now_s)
                lan.hear(NeighbourUnreachable(HIGH.public, "not connected", let_in), at(now_s))
    return dialled


@pytest.mark.parametrize("let_in", [True, False])
def test_who_was_not_connected_to_is_dialled_again_after_pauses_that_double(let_in: bool) -> None:
    """A neighbour that refuses this node may only not have heard of it yet."""
    pauses = [later - earlier for earlier, later in pairwise(dialled_in_vain(speaking(), 1500, let_in))]
    longest = [min(AGAIN.pause_s_max, AGAIN.pause_s_min * 2**number) for number in range(len(pauses))]
    assert longest[:3] == [2, 4, 8] and longest[-1] == 300
    assert all(most / 2 <= pause <= most + 0.25 for most, pause in zip(longest, pauses, strict=True))
    assert len({pause / most for most, pause in zip(longest, pauses, strict=True)}) > len(pauses) / 2, "by chance"


def test_what_the_router_tries_by_itself_does_not_prolong_the_pause() -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    for tenth in range(1, 6):
        lan.hear(NeighbourUnreachable(HIGH.public, "no route"), at(tenth / 10))
    assert of(Dial, lan.hear(Tick(), at(0.1 + AGAIN.pause_s_min))) == [Dial(HIGH.public)]


def test_who_starts_again_is_dialled_at_once_and_who_moves_soon_whatever_failed_before() -> None:
    lan = speaking()
    assert len(dialled_in_vain(lan, 290)) < 10
    lan.hear(came(signed(HIGH, 2, ttl_s=0)), at(290))
    assert of(Dial, lan.hear(came(signed(HIGH, 3)), at(290))) == [Dial(HIGH.public)]
    lan = speaking()
    dialled_in_vain(lan, 290)
    moved = [lan.hear(came(signed(HIGH, 2, port=4777)), at(now_s)) for now_s in (290, 290 + AGAIN.pause_s_min)]
    assert [of(Dial, deeds) for deeds in moved] == [[], [Dial(HIGH.public)]]


def test_of_a_crowd_only_some_are_dialled_a_second() -> None:
    lan = speaking()
    crowd = [one for one in map(key_of, range(100, 160)) if one.public > LOW.public]
    heard = [came(signed(one), f"10.0.0.{10 + number}%2:4") for number, one in enumerate(crowd)]
    for number, one in enumerate(heard):
        carried_out(lan, one, number / 10)
        carried_out(lan, came(signed(crowd[number], 2, ttl_s=0), one.peer), number / 10)
    back = [came(signed(one, 3), heard[number].peer) for number, one in enumerate(crowd)]
    dialled = [len(of(Dial, carried_out(lan, one, 20))) for one in back]
    dialled += [len(of(Dial, carried_out(lan, Tick(), 20 + tenth / 10))) for tenth in range(1, 200)]
    assert sum(dialled) == len(crowd)
    dialled = dialled[len(back) :]
    assert all(sum(dialled[at : at + 10]) <= DIALLED_PER_S for at in range(len(dialled)))


def let_in(lan: Lan, number: int) -> list[PublicKey]:
    """Let a node hear so many new keys, nine a second, each at a host of its own, whose reports are carried out; return
    those that it dials."""
    found = list[PublicKey]()
    for each in range(number):
        said = came(signed(key_of(1000 + each)), f"10.0.0.{20 + each}%2:4")
        found += [one.key for one in of(Dial, carried_out(lan, said, each / 9))]
    return found


def test_no_more_dials_are_under_way_than_the_router_makes_at_once_and_one_that_ended_makes_room() -> None:
    """At the router they would wait in a line, a newcomer behind all that an attacker has named."""
    lan = speaking()
    named = let_in(lan, 80)
    assert len(named) == UNDER_WAY_MAX
    dialled = [key for tenth in range(10) for key in dials(lan, 9 + tenth / 10)]
    assert not dialled
    deeds = lan.hear(NeighbourLinked(named[0]), at(10))
    for key in named[1:5]:
        deeds += lan.hear(NeighbourUnreachable(key, "nobody is there"), at(10))
    dialled = [key for tenth in range(11) for key in dials(lan, 10.1 + tenth / 10)]
    assert len({*dialled, *(one.key for one in of(Dial, deeds))}) == 5


def test_those_that_wait_for_a_dial_have_it_in_the_order_in_which_they_came() -> None:
    lan = speaking()
    named = let_in(lan, 80)
    came_as = [key_of(1000 + each).public for each in range(80)]
    waits_s = {key: each / 9 + (0 if LOW.public < key else YIELD_S) for each, key in enumerate(came_as)}
    in_line = sorted((key for key in came_as if key not in named), key=waits_s.__getitem__)
    dialled = list[PublicKey]()
    for number in range(UNDER_WAY_MAX - 5):
        deeds = lan.hear(NeighbourLinked(named[number]), at(12 + number / 10))
        dialled += [one.key for one in of(Dial, deeds)]
    assert dialled == in_line[: UNDER_WAY_MAX - 5]


def test_who_waits_for_a_dial_wakes_this_node_once_a_second_and_not_with_each_datagram() -> None:
    lan = speaking()
    let_in(lan, 80)
    for tenth in range(10):
        deeds = carried_out(lan, Tick(), 9 + tenth / 10)
    assert of(Wake, deeds)[-1].at_s - at(9.9).wall_s > 0.05


def dials(lan: Lan, now_s: float) -> list[bytes]:
    return [one.key for one in of(Dial, carried_out(lan, Tick(), now_s))]


def test_newcomers_have_turns_as_fast_as_the_router_makes_them_known() -> None:
    """A busy router would else keep reports waiting, ever longer, and a newcomer behind all of them."""
    lan, reported = speaking(), list[PublicKey]()
    for tenth in range(300):
        now_s = tenth / 10
        said = came(signed(key_of(1000 + tenth)), f"10.0.0.{20 + tenth % 200}%2:4")
        deeds = lan.hear(said, at(now_s)) if lan.admits(said, now_s) else lan.hear(Tick(), at(now_s))
        reported += [one.key for one in of(AddNeighbour, deeds) if one.urls]
        if tenth % 5 == 0 and reported:
            deeds = lan.hear(NeighbourAdded(reported.pop(0)), at(now_s))
            reported += [one.key for one in of(AddNeighbour, deeds) if one.urls]
        assert len(reported) <= UNANSWERED_MAX
    assert len(lan.waiting) > 100
    newcomer = came(signed(key_of(3)), "10.0.0.9%2:4")
    for tenth in range(100):
        now_s = 30 + tenth / 10
        deeds = [*(lan.hear(newcomer, at(now_s)) if lan.admits(newcomer, now_s) else ()), *lan.hear(Tick(), at(now_s))]
        reported += [one.key for one in of(AddNeighbour, deeds) if one.urls]
        if tenth % 5 == 0:
            deeds = lan.hear(NeighbourAdded(reported.pop(0)), at(now_s))
            reported += [one.key for one in of(AddNeighbour, deeds) if one.urls]
        if key_of(3).public in reported:
            break
    assert key_of(3).public in reported and reported.index(key_of(3).public) < UNANSWERED_MAX


def test_reports_that_the_router_never_answers_hold_up_newcomers_for_some_seconds_only() -> None:
    lan = speaking()
    for number in range(UNANSWERED_MAX + 1):
        lan.hear(came(signed(key_of(1000 + number)), f"10.0.0.{20 + number}%2:4"), at(number / 9))
    assert len(lan.waiting) == 1
    lan.hear(Tick(), at(1 + PATIENCE_S))
    assert not len(lan.waiting)
