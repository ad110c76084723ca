"""The neighbours that a node dials on a LAN, and the pauses after a failure (D19)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from samples.lan import HIGH, LOW, at, came, key_of, of, signed, speaking

from router.service.contract import Tick
from router.service.roles.discovery import Dial, NeighbourUnreachable
from services.discovery.core.lan.dialling import AGAIN, DIALLED_PER_S
from services.discovery.core.lan.lan import Lan


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
        lan.hear(one, at(number / 10))
        lan.hear(came(signed(crowd[number], 2, ttl_s=0), one.peer), at(number / 10))
    back = [came(signed(one, 3), heard[number].peer) for number, one in enumerate(crowd)]
    dialled = [len(of(Dial, lan.hear(one, at(20)))) for one in back]
    dialled += [len(of(Dial, lan.hear(Tick(), at(20 + tenth / 10)))) for tenth in range(1, 200)]
    assert sum(dialled) == len(crowd)
    dialled = dialled[len(back) :]
    assert all(sum(dialled[at : at + 10]) <= DIALLED_PER_S for at in range(len(dialled)))
