"""Standings and grants: what a key is by configuration, by the socket, or without either."""

from __future__ import annotations

import pytest

from router.core.neighbours.directory import JOIN, RELAY, STORE, WHY, Directory, Neighbour, Standing

ME, APP, CLIENT, PEER, BLOCKED, UPLINK, NOBODY = (bytes((n,)) * 32 for n in range(7))


def directory(strangers: bool = False) -> Directory:
    found = Directory(ME, accept_strangers=strangers, locals={APP}, configured_locals=frozenset({APP}))
    found.replace_neighbours(
        [
            Neighbour(CLIENT, "bakery", frozenset({JOIN, STORE, RELAY})),
            Neighbour(PEER, "corner"),
            Neighbour(BLOCKED, grants=frozenset({JOIN}), uplink=True, blocked=True),
            Neighbour(UPLINK, uplink=True),
        ]
    )
    return found


@pytest.mark.parametrize(
    ("key", "owner", "strangers", "standing"),
    [
        (APP, False, False, Standing.LOCAL), (NOBODY, True, False, Standing.LOCAL),
        (CLIENT, True, False, Standing.LOCAL), (CLIENT, False, False, Standing.CLIENT),
        (PEER, False, False, Standing.PEER), (UPLINK, False, False, Standing.PEER),
        (BLOCKED, False, True, None), (BLOCKED, True, True, None),
        (NOBODY, False, True, Standing.STRANGER), (NOBODY, False, False, None),
    ],
)  # fmt: skip
def test_every_key_has_its_standing(key: bytes, owner: bool, strangers: bool, standing: Standing | None) -> None:
    assert directory(strangers).standing(key, owner) is standing


def test_who_may_ask_why_is_no_client_by_that() -> None:
    known = directory()
    known.replace_neighbours(
        [Neighbour(PEER, grants=frozenset({WHY})), Neighbour(CLIENT, grants=frozenset({WHY, JOIN}))]
    )
    assert (known.standing(PEER, False), known.standing(CLIENT, False)) == (Standing.PEER, Standing.CLIENT)
    assert known.grants(PEER) == {WHY}


def test_grants_names_and_uplinks() -> None:
    known = directory()
    assert known.grants(CLIENT) == {JOIN, STORE, RELAY} and known.grants(PEER) == known.grants(NOBODY) == frozenset()
    assert known.name_of(CLIENT) == "bakery" and known.name_of(NOBODY) == ""
    assert known.uplinks == (UPLINK,), "a blocked one is none"


@pytest.mark.parametrize(
    ("key", "known", "join", "store", "relay", "queue"),
    [
        (APP, True, True, True, False, True), (CLIENT, True, True, True, True, True),
        (PEER, True, False, False, False, True), (UPLINK, True, False, False, False, True),
        (BLOCKED, False, False, False, False, False), (NOBODY, False, False, False, False, False),
    ],
)  # fmt: skip
def test_what_each_right_is_good_for(
    key: bytes, known: bool, join: bool, store: bool, relay: bool, queue: bool
) -> None:
    """The key is away. A router that we hand messages to has a queue even without the right to one."""
    found = directory()
    rights = found.is_known(key), found.may_join(key, None), found.may_store(key), found.may_relay(key)
    assert rights == (known, join, store, relay) and found.keeps_queue(key) is queue
    assert found.may_be_next(key, None) is (queue and key != APP)


def test_a_client_has_a_queue_by_its_right_to_one_alone() -> None:
    found = directory()
    for grants, uplink, queue in ((frozenset({JOIN, RELAY}), False, False), (frozenset({STORE}), False, True),
                                  (frozenset({JOIN}), True, True), (frozenset({WHY}), False, True)):  # fmt: skip
        found.replace_neighbours([Neighbour(PEER, grants=grants, uplink=uplink)])
        assert found.keeps_queue(PEER) is queue, grants


def test_a_node_set_open_lets_everybody_join_who_is_not_blocked() -> None:
    found = directory(strangers=True)
    found.join_open = True
    assert found.may_join(NOBODY, Standing.STRANGER) and found.may_join(PEER, None) and not found.may_join(NOBODY, None)
    assert not found.may_join(BLOCKED, Standing.LOCAL) and not found.may_publish(NOBODY, Standing.STRANGER)


def test_local_keys_are_recorded_and_lapse_but_configured_ones_stay() -> None:
    known = directory()
    revision = known.revision
    assert known.record_local(NOBODY) and not known.record_local(NOBODY) and known.revision == revision + 1
    assert known.standing(NOBODY, False) is Standing.LOCAL
    assert known.forget_local(NOBODY) and not known.forget_local(NOBODY) and not known.forget_local(APP)
    assert known.revision == revision + 2 and known.locals == {APP}
