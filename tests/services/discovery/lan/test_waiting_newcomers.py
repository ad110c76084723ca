"""Who waits for a place, and whose turn it is: any order of datagrams, by value (R-D19)."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from samples.lan import came, key_of

from router.core.wire.crypto import PublicKey
from services.discovery.core.lan import waiting
from services.discovery.core.lan.gate import CHECKS_PER_S, SHARED_PER_S, Gate
from services.discovery.core.lan.neighbours import Neighbours, Source, source_of
from services.discovery.core.lan.waiting import (
    AGAIN_MAX,
    CROWD,
    CYCLE,
    ONCE_MAX,
    SLOT_S,
    STALE_S,
    TURNS_PER_S,
    Waiting,
)

KEYS = [key_of(number).public for number in range(1, 40)]
PEERS = ("10.0.0.7%2:4", "10.0.0.8%2:4", "fe80::7%2:4")
STEPS = st.lists(
    st.tuples(st.integers(0, len(KEYS) - 1), st.sampled_from(PEERS), st.integers(0, 2), st.floats(0, 0.3)),
    max_size=200,
)


def put(room: Waiting, key: PublicKey, peer: str, now_s: float, data: bytes = b"") -> None:
    room.put(key, came(data or bytes(key), peer), source_of(peer), now_s)


def turns(room: Waiting, now_s: float) -> list[PublicKey]:
    return [one.key for one in room.turns(now_s)]


def let_pass(room: Waiting, now_s: float) -> None:
    """Let others use up all turns of this second."""
    for number in range(TURNS_PER_S):
        put(room, key_of(9_000 + number).public, PEERS[0], now_s)
        turns(room, now_s)


@given(STEPS)
def test_each_that_was_put_waits_or_had_its_turn_or_left_and_turns_keep_their_rate(
    steps: list[tuple[int, str, int, float]],
) -> None:
    room, now_s, taken = Waiting(), 0.0, list[float]()
    inside = set[PublicKey]()
    for number, peer, what, pause_s in steps:
        key, now_s = KEYS[number], now_s + pause_s
        if what == 0:
            assert room.repeats(bytes(key), now_s) == (key in inside)
        else:
            put(room, key, peer, now_s)
            inside.add(key)
        had = turns(room, now_s) if what == 2 else []
        left = [one.key for one in room.left(now_s)]
        taken += [now_s] * len(had)
        assert inside >= {*had, *left} and len({*had, *left}) == len(had) + len(left)
        inside -= {*had, *left}
        assert len(room) == len(inside) and all(room.said(one) for one in inside)
        assert sum(one > now_s - 1 for one in taken) <= TURNS_PER_S


def speak(room: Waiting, key: PublicKey, slots: Iterable[int], peer: str = PEERS[0]) -> None:
    """Let a router's datagram come once in each of these slots."""
    for slot in slots:
        if not room.repeats(bytes(key), slot * SLOT_S):
            put(room, key, peer, slot * SLOT_S)


def test_who_has_been_speaking_for_longest_goes_first_and_of_several_who_came_first() -> None:
    room = Waiting()
    speak(room, KEYS[0], range(3, 9))
    speak(room, KEYS[1], range(9))
    speak(room, KEYS[2], range(3, 9))
    assert turns(room, 3.7)[:3] == [KEYS[1], KEYS[0], KEYS[2]]


def test_copies_count_once_in_a_slot() -> None:
    """Anybody can repeat a datagram, hundreds of times a second."""
    room = Waiting()
    speak(room, KEYS[0], (0, 1, 2))
    put(room, KEYS[1], PEERS[0], 0.1)
    for copy in range(500):
        assert room.repeats(bytes(KEYS[1]), SLOT_S + copy / 10_000)
    assert turns(room, 3 * SLOT_S) == [KEYS[0], KEYS[1]]


def test_who_prepared_many_and_fell_silent_is_passed_by_who_goes_on_speaking() -> None:
    room = Waiting()
    for key in KEYS[:20]:
        speak(room, key, range(30))
    speak(room, KEYS[30], range(40, 60))
    assert turns(room, 60 * SLOT_S)[0] == KEYS[30]


@given(st.lists(st.lists(st.integers(0, 60), max_size=80), max_size=12))
def test_who_speaks_in_each_slot_is_passed_by_nobody_who_came_later(others: list[list[int]]) -> None:
    room, first_slot = Waiting(), 20
    heard = {slot: [number for number, slots in enumerate(others, 1) if slot in slots] for slot in range(61)}
    for slot in range(61):
        for number in heard[slot]:
            speak(room, KEYS[number], [slot])
        if slot >= first_slot:
            speak(room, KEYS[0], [slot])
    came_later = {KEYS[number] for number, slots in enumerate(others, 1) if slots and min(slots) > first_slot}
    before = turns(room, 60.5 * SLOT_S)[: CYCLE // 4]  # the turns for sources and for the patient come after these
    assert KEYS[0] not in before or not came_later & set(before[: before.index(KEYS[0])])


def test_one_turn_of_each_cycle_goes_to_a_source_that_had_none_lately() -> None:
    room = Waiting()
    let_pass(room, 0.0)
    for key in KEYS[:20]:
        speak(room, key, range(1, 6))
    put(room, KEYS[30], PEERS[1], 2.2)
    assert KEYS[30] in turns(room, 2.3)[:CYCLE]


def test_one_turn_of_each_cycle_goes_to_who_came_first_and_still_speaks_however_seldom() -> None:
    room = Waiting()
    let_pass(room, 0.0)
    speak(room, KEYS[30], (0, 20))
    speak(room, KEYS[31], (0, 1))
    for key in KEYS[:20]:
        speak(room, key, range(5, 40))
    found = turns(room, 40 * SLOT_S)
    assert KEYS[30] in found[:CYCLE] and KEYS[31] not in found, "who fell silent is no longer patient"


def test_turns_for_new_sources_are_of_ipv4_and_of_ipv6_alternately() -> None:
    room = Waiting()
    for number, key in enumerate(KEYS[:30]):
        speak(room, key, range(1, 6), f"fe80::{number + 100:x}%2:4")
    put(room, KEYS[35], PEERS[0], 2.2)
    found = turns(room, 2.3) + turns(room, 3.4)
    assert KEYS[35] in found[: 2 * CYCLE]


def test_who_waits_is_bounded_and_who_was_heard_again_is_not_pushed_out_by_who_was_heard_once() -> None:
    room = Waiting()
    speak(room, KEYS[0], (0, 1))
    many = [PublicKey(number.to_bytes(32, "big")) for number in range(AGAIN_MAX + 9)]
    for one in many[: ONCE_MAX + 9]:
        put(room, one, PEERS[0], SLOT_S)
    assert len(room) == ONCE_MAX + 1 and room.said(KEYS[0])
    assert len(room.left(SLOT_S)) == 9
    for one in many:
        put(room, one, PEERS[0], 2 * SLOT_S)
        put(room, one, PEERS[0], 3 * SLOT_S)
    assert len(room) <= ONCE_MAX + AGAIN_MAX and not room.said(KEYS[0])
    assert len(room.left(4 * SLOT_S + STALE_S)) > 0 and not len(room)


def test_many_that_wait_are_a_crowd() -> None:
    room = Waiting()
    for number in range(CROWD):
        assert not room.is_crowd
        put(room, key_of(9_000 + number).public, PEERS[0], 0.0)
    assert room.is_crowd


def test_what_a_waiting_router_signs_anew_counts_as_one_more_datagram() -> None:
    room = Waiting()
    put(room, KEYS[0], PEERS[0], 0.1)
    put(room, KEYS[1], PEERS[0], 0.2)
    put(room, KEYS[1], PEERS[0], 0.5, data=b"newer")
    assert room.repeats(b"newer", 0.6) and not room.repeats(bytes(KEYS[1]), 0.6)
    assert room.said(KEYS[1]) == b"newer" and turns(room, 2.0) == [KEYS[1], KEYS[0]]
    assert repr(room) == "<waiting: 0, 2 had their turns>"
    assert waiting.TURN_S == 1 / TURNS_PER_S


@given(st.lists(st.tuples(st.integers(0, 250), st.booleans(), st.floats(0, 0.02)), max_size=400))
def test_no_more_signatures_are_checked_than_the_budget_and_a_source_within_its_share_always(
    datagrams: list[tuple[int, bool, float]],
) -> None:
    gate, now_s, examined, quiet = Gate(Neighbours({KEYS[0]})), 0.0, list[float](), dict[Source, float]()
    for number, is_proven, pause_s in datagrams:
        now_s += pause_s
        source = source_of(f"10.0.0.{number}%2:4")
        last_s, quiet[source] = quiet.get(source, -10.0), now_s
        recent = sum(one > now_s - 1 for one in examined)
        is_examined = gate.examines(KEYS[0] if is_proven else KEYS[1], source, now_s)
        assert is_examined or recent >= SHARED_PER_S or last_s > now_s - 1
        examined += [now_s] * is_examined
        assert recent + is_examined <= CHECKS_PER_S
