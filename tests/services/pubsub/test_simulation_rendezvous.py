"""Simulated points of rendezvous: routers without a hint find each other, liars or not, and fail as they should."""

from __future__ import annotations

from collections import Counter

import pytest

from router.core.wire.crypto import KEY_BYTES, PublicKey
from services.pubsub.core.rendezvous.points import day_of
from services.pubsub.core.rendezvous.records import Unread, open_record
from services.pubsub.simulation.figures import measure
from services.pubsub.simulation.rendezvous import RENDEZVOUS
from services.pubsub.simulation.rendezvous_network import WALL_S, Lie, RendezvousNetwork, Seeking

GROUPS = [PublicKey(bytes((number,)) * KEY_BYTES) for number in range(1, 21)]


def paired(network: RendezvousNetwork, *, apart_s: float, gone: float = 0.0) -> list[Seeking]:
    """Let two honest routers look for each of the groups, and return the second ones after a minute."""
    honest = [number for number, one in enumerate(network.nodes) if one.lie is Lie.NONE]
    for at, group in enumerate(GROUPS):
        network.seek(honest[2 * at], group, 0.0)
    network.run(apart_s / 2)
    network.kill(gone, honest[: 2 * len(GROUPS)])
    seconds = [network.seek(honest[2 * at + 1], group, apart_s) for at, group in enumerate(GROUPS)]
    network.run(apart_s + 60.0)
    return seconds


def test_two_that_look_find_each_other_at_once_or_later() -> None:
    for apart_s in (0.001, 300.0):
        network = RendezvousNetwork(1, 120)
        seconds = paired(network, apart_s=apart_s)
        assert all(one.found_s is not None and one.found_s - one.begun_s < 20 for one in seconds)
        assert not network.unopened


def test_two_find_each_other_between_whom_a_day_ends() -> None:
    keys = (PublicKey(number.to_bytes(KEY_BYTES, "big")) for number in range(100_000))
    group = next(key for key in keys if day_of(key, WALL_S) != day_of(key, WALL_S + 300))
    network = RendezvousNetwork(1, 60)
    network.seek(0, group, 0.0)
    second = network.seek(1, group, 300.0)
    network.run(320.0)
    assert second.found_s is not None


def test_two_find_each_other_though_a_fifth_lies_and_a_tenth_goes() -> None:
    network = RendezvousNetwork(1, 120, liars=0.2)
    assert Counter(one.lie for one in network.nodes) == {Lie.NONE: 96} | dict.fromkeys(list(Lie)[1:], 6)
    seconds = paired(network, apart_s=300.0, gone=0.1)
    assert len(network.dead) == 12
    assert sum(one.found_s is not None for one in seconds) == len(GROUPS)
    assert network.unopened.keys() == {Unread.FORGED}
    seen = {record for one in network.nodes if one.lie is Lie.LIST for record in one.seen}
    stranger = PublicKey(b"\xee" * KEY_BYTES)
    assert seen and {open_record(stranger, day_of(stranger, WALL_S), one, WALL_S) for one in seen} == {Unread.FORGED}


def test_who_owns_all_the_nearest_keys_in_many_networks_hides_a_group_and_in_one_does_not() -> None:
    for networks, found in ((1, len(GROUPS[:2])), (50, 0)):
        network = RendezvousNetwork(1, 120)
        for group in GROUPS[:2]:
            network.grind(group, 50, networks)
        for at, group in enumerate(GROUPS[:2]):
            network.seek(at, group, 0.0)
        seconds = [network.seek(2 + at, group, 10.0) for at, group in enumerate(GROUPS[:2])]
        network.run(70.0)
        assert sum(one.found_s is not None for one in seconds) == found


@pytest.mark.long
def test_the_goals_of_rendezvous_are_met_at_1_000_nodes() -> None:
    rows = measure("rendezvous", RENDEZVOUS, 1_000, 3, [1], lambda text: None)
    assert not [(row.setting, one.text()) for row in rows for one in row.goals if not row.meets(one)]
