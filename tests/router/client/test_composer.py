"""Messages made for an app: distinct ids, bounded causes, lifetimes, sequence numbers."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client.composer import ALIKE_MAX, Composed, Composer, GroupSender, Lifetime
from router.client.custody.causes import Causes, RecentIds
from router.client.errors import CannotPublish, Refused
from router.client.sequence import Sequences
from router.core.wire.application import content_key_id, unseal
from router.core.wire.codec import decode, unframe
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Multicast, Unicast, message_id, open_message, verify_message
from router.core.wire.reasons import Reason
from router.disk.state.app_state import AppState

ALICE = SigningKey(b"a" * 32)
LINK = new_group(b"g" * 32, b"k" * 32)
NOW_S = 1_800_000_000.0
IDS = [MessageId(bytes((n,)) * 32) for n in range(20)]


def composer(entropy: Callable[[int], bytes] = os.urandom) -> Composer:
    return Composer(ALICE, Sequences(AppState.memory()), lambda: NOW_S, entropy)


def multicast(composed: Composed) -> Multicast:
    wire = unframe(composed.frame)
    message = open_message(wire)
    assert isinstance(message, Multicast) and verify_message(wire) and message_id(wire) == composed.id
    return message


def unicast(composed: Composed) -> Unicast:
    message = open_message(unframe(composed.frame))
    assert isinstance(message, Unicast) and verify_message(unframe(composed.frame))
    return message


def test_a_sealed_message() -> None:
    made, sender = composer(), GroupSender.of_link(LINK, Causes())
    first = made.multicast(sender, b"one", Lifetime(60, 10), raw=False)
    second = made.multicast(sender, b"two", Lifetime(60, 10), raw=False)
    message = multicast(second)
    assert (message.ttl_s, message.expiry_min, message.seen) == (60, expiry_min(NOW_S + 600), (first.id,))
    said = unseal(message.body, LINK.group, {content_key_id(LINK.content_key): LINK.content_key})
    assert (said.sender, said.seq, said.deps, said.content) == (ALICE.public, 1, (first.id,), b"two")


def test_each_sealed_body_has_a_nonce_of_its_own_from_the_source_of_random_bytes() -> None:
    """With a nonce that comes twice under one content key, an observer can compute the xor of two bodies."""
    drawn: list[bytes] = []

    def entropy(size: int) -> bytes:
        drawn.append(os.urandom(size))
        return drawn[-1]

    made, sender = composer(entropy), GroupSender.of_link(LINK, Causes())
    composed = [made.multicast(sender, b"the same", Lifetime(), raw=False) for _ in range(8)]
    nonces = [decode(multicast(one).body, 8)[2] for one in composed]
    assert nonces == drawn and len(set(nonces)) == 8


def test_what_is_taken_back_leaves_no_trace() -> None:
    made, sender = composer(), GroupSender.of_link(LINK, Causes())
    first = made.multicast(sender, b"one", Lifetime(), raw=False)
    first.unsay()
    first.undo()
    message = multicast(made.multicast(sender, b"two", Lifetime(), raw=False))
    said = unseal(message.body, LINK.group, {content_key_id(LINK.content_key): LINK.content_key})
    assert (said.seq, said.deps, message.seen) == (0, (), ())


def test_the_newest_causes_first_distinct_and_unexpired() -> None:
    causes = RecentIds(4)
    for number in (1, 2, 3, 2):
        causes.note(IDS[number], 100 + number)
    assert causes.ids(50) == (IDS[2], IDS[3], IDS[1])
    assert causes.ids(102) == (IDS[3],)
    for id in IDS:
        causes.note(id, 1000)
    assert causes.ids(0) == tuple(reversed(IDS[-4:]))
    causes.drop(IDS[-1])
    assert causes.ids(0) == tuple(reversed(IDS[-4:-1]))
    greedy = RecentIds(100)
    for id in IDS:
        greedy.note(id, 1000)
    assert len(greedy.ids(0)) == 16
    assert RecentIds(0).ids(0) == ()


def test_read_only_and_bare_keys() -> None:
    with pytest.raises(CannotPublish, match="reading only"):
        composer().multicast(GroupSender.of_link(LINK.read_only(), Causes()), b"", Lifetime(), raw=True)
    bare = GroupSender(PublicKey(LINK.group), SigningKey(b"g" * 32), None, Causes())
    assert multicast(composer().multicast(bare, b"as it is", Lifetime(), raw=False)).body == b"as it is"


def test_bodies_that_came_repeatedly_are_remembered_until_they_expire() -> None:
    now_s = NOW_S
    made, known = Composer(ALICE, Sequences(AppState.memory()), lambda: now_s, bytes), list[int]()
    for minute in range(40):
        now_s = NOW_S + 60 * minute
        for number in range(3):
            for _ in range(1 + number):
                made.unicast(ALICE.public, b"%d, %d" % (minute, number), Lifetime(expiry_min=5))
        known.append(len(made._alike))
    assert known == [2, 4, 6, 8] + 36 * [10]


def test_memory_of_bodies_that_came_once_does_not_grow_for_long() -> None:
    """A service that says something else each second is as large after an hour as after a day."""
    made, sizes = composer(), list[int]()
    bodies = (b"%d" % number for number in count())
    tracemalloc.start()
    try:
        for _ in range(2):
            for body in islice(bodies, ALIKE_MAX):
                made.unicast(LINK.group, body, Lifetime())
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < ALIKE_MAX and sizes[1] < 80 * ALIKE_MAX, sizes


def test_what_is_published_once_is_the_same_whoever_composes_it_and_whenever() -> None:
    causes, other = (
        Causes(),
        Composer(SigningKey(b"o" * 32), Sequences(AppState.memory()), lambda: NOW_S + 50, os.urandom),
    )
    made, sender = composer(), GroupSender.of_link(LINK, causes)
    made.multicast(sender, b"before", Lifetime(), raw=False)
    until_s = int(NOW_S) + 601
    composed = [one.once(sender, b"the same", 1800, until_s) for one in (made, made, other)]
    assert len({one.id for one in composed}) == 1
    message = multicast(composed[0])
    assert (message.body, message.seen, message.ttl_s) == (b"the same", (), 1800)
    assert message.expiry_min == expiry_min(until_s)
    assert multicast(made.multicast(sender, b"after", Lifetime(until_s=until_s), raw=True)).expiry_min == expiry_min(
        until_s
    )
    with pytest.raises(Refused, match="a time that is over"):
        made.once(sender, b"late", 1800, int(NOW_S) - 60)
    with pytest.raises(CannotPublish, match="reading only"):
        made.once(GroupSender.of_link(LINK.read_only(), causes), b"", 1800, until_s)


@given(st.integers(0, 1000), st.binary(min_size=2, max_size=2))
def test_equal_raw_bodies_have_ids_of_their_own(ttl_s: int, chance: bytes) -> None:
    made = composer(lambda size: chance[:size])
    sent = [made.unicast(LINK.group, b"same", Lifetime(ttl_s, 600)) for _ in range(20)]
    assert len({one.id for one in sent}) == 20
    for message in map(unicast, sent):
        assert ttl_s - 256 - 20 <= message.ttl_s <= ttl_s
        assert expiry_min(NOW_S + 36_000) - 276 <= message.expiry_min <= expiry_min(NOW_S + 36_000)


def test_two_processes_hardly_make_the_same_message() -> None:
    ids = {composer().unicast(LINK.group, b"same", Lifetime()).id for _ in range(30)}
    assert len(ids) > 20


def test_no_lifetime_is_left_to_differ_in() -> None:
    made = composer()
    for _ in range(3):
        made.unicast(LINK.group, b"same", Lifetime(0, 3))
    with pytest.raises(Refused) as caught:
        for _ in range(3):
            made.unicast(LINK.group, b"same", Lifetime(0, 3))
    assert caught.value.reason is Reason.DUPLICATE


def test_what_is_remembered_of_raw_bodies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.client.composer.ALIKE_MAX", 10)
    made = composer(bytes)
    for number in range(50):
        for _ in range(2):
            made.unicast(LINK.group, b"%d" % number, Lifetime())
    assert len(made._alike) == 10 and len(made._unsealed) == 30


@pytest.mark.parametrize(("ttl_s", "minutes", "why"), [(-1, 9, "ttl"), (1 << 32, 9, "ttl"), (1, 0, "expiry")])
def test_impossible_lifetimes(ttl_s: int, minutes: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        composer().unicast(LINK.group, b"", Lifetime(ttl_s, minutes))
