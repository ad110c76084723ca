"""The provider: the stored scripts with each rule's error, spacing, newest first, and what a peer has itself."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BETWEEN_NODES, BODY, NOW, POOLS, Pool, raw

from router.core.link.machine import RemoteProtocolError
from services.dmq.core.mempool import Mempool, MempoolLimits, Row
from services.dmq.core.messages.authentication import Moment
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.peers.provider import GATHER_S, NO_IDS_S, WINDOW_MAX, Provider, Spacing, WindowRule
from services.dmq.core.protocols import message_submission as ms

DMQ = Dmq05()
PAUSE_S = 60.0
FREE = MempoolLimits(pause_s=0)


def at(seconds: float) -> Moment:
    return Moment(NOW.wall_s + seconds, NOW.mono_s + seconds)


def message_of(number: int, pool: Pool = POOLS[0]) -> SignedMessage:
    return DMQ.read(DMQ.write(pool.draft(number.to_bytes(2, "big") + pool.id[:2] + BODY)))


def mempool_of(messages: list[SignedMessage], lives_s: float = 900.0) -> Mempool:
    """Return a mempool with these messages, which came at once from peers."""
    found = Mempool(FREE)
    for message in messages:
        found.take(message, NOW.wall_s + lives_s, NOW, is_relayed=True)
    return found


def ids(found: tuple[Row, ...] | None) -> list[bytes]:
    assert found is not None
    return [one.id for one in found]


@pytest.mark.parametrize("script", BETWEEN_NODES["provider_version_2"], ids=lambda one: one["name"])
def test_provider_answers_as_in_the_stored_script(script: dict[str, Any]) -> None:
    messages = [DMQ.read(raw(BETWEEN_NODES["messages"][name]["cbor_hex"])) for name in script["mempool"]]
    mempool = mempool_of(messages)
    wires = {message.id: message.wire for message in messages}
    provider, codec = Provider(mempool, Spacing(0)), ms.VERSIONS[2]
    for step in script["steps"]:
        if step["heard_hex"].startswith("expire"):
            rows = [row for row in mempool.after(0) if row.id == messages[int(step["heard_hex"].split()[1])].id]
            mempool._remove(rows[0], NOW.wall_s)
            continue
        if step["said"] == "error decoder failure":
            with pytest.raises(ValueError, match="is not one of"):
                codec.decode(raw(step["heard_hex"]))
            continue
        request = codec.decode(raw(step["heard_hex"]))
        if step["said"].startswith("error "):
            with pytest.raises(RemoteProtocolError, match=step["said"].removeprefix("error ")):
                answer(provider, request, NOW)
        elif step["said"].startswith("after 17 s"):
            assert answer(provider, request, NOW) is None and provider.due_s == NOW.mono_s + NO_IDS_S
            assert provider.wake(at(NO_IDS_S - 0.1)) is None
            assert provider.wake(at(NO_IDS_S)) == () and codec.encode(ms.MsgReplyNoSigIds()) == raw("8103")
        elif isinstance(request, ms.MsgRequestSigs):
            rows = provider.request_bodies(request.ids, NOW)
            assert codec.encode(ms.MsgReplySigs(tuple(wires[row.id] for row in rows))) == raw(step["said"])
        else:
            found = answer(provider, request, NOW)
            assert found is not None
            told = tuple((one.id, one.size) for one in found)
            assert codec.encode(ms.MsgReplySigIds(told)) == raw(step["said"])


def answer(provider: Provider, request: ms.Message, moment: Moment) -> tuple[Row, ...] | None:
    match request:
        case ms.MsgRequestSigIdsBlocking(acknowledged, most):
            return provider.request_ids(True, acknowledged, most, moment)
        case ms.MsgRequestSigIdsNonBlocking(acknowledged, most):
            return provider.request_ids(False, acknowledged, most, moment)
        case ms.MsgRequestSigs(wanted):
            provider.request_bodies(wanted, moment)
    return None


def test_the_newest_of_a_pool_is_told_first_and_the_next_when_the_peer_takes_it() -> None:
    messages = [message_of(number) for number in range(4)]
    provider = Provider(mempool_of(messages), Spacing(PAUSE_S))
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [messages[3].id]
    assert [row.id for row in provider.request_bodies([messages[3].id], at(1))] == [messages[3].id]
    assert provider.request_ids(True, 1, 33, at(1)) is None and provider.due_s == NOW.mono_s + 1 + NO_IDS_S
    assert provider.wake(at(18)) == ()
    assert provider.request_ids(True, 0, 33, at(50)) is None
    assert provider.wake(at(62.9)) is None, "62 s after it was fetched, not after it was told"
    assert ids(provider.wake(at(63))) == [messages[2].id]


def test_the_turn_of_each_message_that_waits_is_known() -> None:
    messages = [message_of(number) for number in range(3)] + [message_of(7, POOLS[1])]
    mempool = mempool_of(messages)
    first, second, third, other = mempool.after(0)
    provider = Provider(mempool, Spacing(PAUSE_S))
    assert not provider.turns(first.pool, NOW) and not provider.held_back(NOW), "the peer fetches nothing"
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [third.id, other.id]
    assert provider.turns(first.pool, at(2)) == {second.number: NOW.wall_s + 62, first.number: NOW.wall_s + 124}
    assert not provider.turns(other.pool, at(2)), "it was told of all"
    assert (provider.held_back(at(2)), provider.count_untold([first.pool])) == ([first.pool], 2)
    assert provider.request_ids(True, 2, 33, at(61)) is None and ids(provider.wake(at(62))) == [second.id]
    assert provider.turns(first.pool, at(62)) == {first.number: NOW.wall_s + 124}
    at_once = Provider(mempool, Spacing(0))
    at_once.request_ids(True, 0, 1, NOW)
    assert not at_once.turns(first.pool, NOW)


def test_the_turns_of_messages_that_came_early_by_the_mempools_pace_are_foretold_as_they_come() -> None:
    mempool = Mempool(MempoolLimits())
    for number in range(3):
        mempool.take(message_of(number), NOW.wall_s + 900, NOW)
    provider, told = Provider(mempool, Spacing(PAUSE_S)), dict[bytes, float]()
    provider.request_ids(True, 0, 33, NOW)
    rows = {row.number: row.id for row in mempool.after(0)}
    turns = provider.turns(message_of(0).certificate.pool, NOW)
    foretold = {rows[number]: at_s - NOW.wall_s for number, at_s in turns.items()}
    for seconds in range(1, 200):
        moment, unacknowledged = at(seconds), len(provider._window)
        found = provider.wake(moment) if provider.is_asked else provider.request_ids(True, unacknowledged, 33, moment)
        told |= {row.id: float(seconds) for row in found or ()}
    assert foretold == told == {rows[2]: 62.0, rows[3]: 124.0}


def test_other_pools_do_not_wait_for_one() -> None:
    messages = [message_of(number, pool) for number in range(3) for pool in POOLS]
    provider = Provider(mempool_of(messages), Spacing(PAUSE_S))
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [one.id for one in messages[-3:]]


def test_what_the_peer_has_announced_itself_is_not_told_and_counts_for_the_spacing() -> None:
    mempool = mempool_of([message_of(0), message_of(1)])
    rows = list(mempool.after(0))
    provider = Provider(mempool, Spacing(PAUSE_S))
    provider.peer_has(rows[1], NOW.mono_s)
    assert provider.request_ids(True, 0, 33, NOW) is None
    assert provider.wake(at(10)) is None
    assert ids(provider.wake(at(62))) == [rows[0].id]


def test_old_messages_that_the_peer_announces_do_not_put_off_a_new_one() -> None:
    mempool = mempool_of([])
    old = [message_of(number) for number in range(4)]
    for number, message in enumerate(old):
        mempool.take(message, NOW.wall_s + 900 + number, NOW, is_relayed=True)
    rows = list(mempool.after(0))
    provider = Provider(mempool, Spacing(PAUSE_S))
    provider.peer_has(rows[3], NOW.mono_s)
    new = message_of(9)
    mempool.take(new, NOW.wall_s + 1500, at(10), is_relayed=True)
    assert provider.request_ids(True, 0, 33, at(50)) is None
    for number, seconds in ((2, 61.0), (1, 61.5), (0, 61.9)):
        provider.peer_has(rows[number], at(seconds).mono_s)
    assert provider.wake(at(61.95)) is None
    assert ids(provider.wake(at(62.0))) == [new.id]


def test_an_old_message_that_the_peer_announces_puts_off_another_old_one() -> None:
    mempool = mempool_of([])
    for number in range(4):
        mempool.take(message_of(number), NOW.wall_s + 900 + number, NOW, is_relayed=True)
    rows = list(mempool.after(0))
    provider = Provider(mempool, Spacing(PAUSE_S))
    provider.peer_has(rows[3], NOW.mono_s)
    assert provider.request_ids(True, 0, 33, at(55)) is None
    provider.peer_has(rows[2], at(61.0).mono_s)
    assert provider.wake(at(62.0)) is None
    assert provider.wake(at(72.0)) == ()  # nothing within 17 s
    assert provider.request_ids(True, 0, 33, at(122.0)) is None
    assert ids(provider.wake(at(123.0))) == [rows[1].id]


def test_spacing_outlasts_the_connection() -> None:
    mempool, spacing = mempool_of([message_of(0)]), Spacing(PAUSE_S)
    assert len(ids(Provider(mempool, spacing).request_ids(True, 0, 33, NOW))) == 1
    mempool.take(message_of(1), NOW.wall_s + 900, NOW, is_relayed=True)
    again = Provider(mempool, spacing)
    assert again.request_ids(True, 0, 33, at(5)) is None
    assert spacing.forget(NOW.mono_s + 61) and not spacing.forget(NOW.mono_s + 62)


def test_the_newest_is_the_one_that_lives_longest_whenever_it_came() -> None:
    """A node that was away fetched its backlog newest first, and passes it on in that order, too."""
    mempool = Mempool(FREE)
    for number in range(3):
        mempool.take(message_of(number), NOW.wall_s + 900 - 62 * number, NOW, is_relayed=True)
    provider = Provider(mempool, Spacing(PAUSE_S))
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [message_of(0).id]
    assert ids(provider.request_ids(True, 1, 33, at(62))) == [message_of(1).id]


class CountedMempool(Mempool):
    """A mempool that counts the rows that are read."""

    read = 0

    def get(self, number: int) -> Row | None:
        self.read += 1
        return super().get(number)

    def after(self, number: int) -> Iterator[Row]:
        for row in super().after(number):
            self.read += 1
            yield row


def test_a_peer_that_begins_again_and_again_costs_no_look_at_every_message() -> None:
    mempool, pools = CountedMempool(FREE), [Pool(number) for number in range(20)]
    for number in range(10):
        for pool in pools:
            mempool.take(message_of(number, pool), NOW.wall_s + 900, NOW, is_relayed=True)
    for _ in range(5):
        mempool.read = 0
        provider = Provider(mempool, Spacing(PAUSE_S))
        assert len(ids(provider.request_ids(True, 0, 1, NOW))) == 1
        assert mempool.read <= 10, "those of one pool, not all 200"
        assert len(provider._ready) + len(provider._held) == len(pools)


def test_what_expires_before_its_turn_is_counted() -> None:
    mempool = mempool_of([message_of(0), message_of(1)], lives_s=30)
    provider = Provider(mempool, Spacing(PAUSE_S))
    provider.request_ids(True, 0, 33, NOW)
    assert len(provider.expired(mempool.expire(NOW.wall_s + 30), NOW.mono_s + 30)) == provider.spaced_out == 1


def test_a_message_that_is_early_by_the_mempools_pace_waits_for_peers() -> None:
    mempool = Mempool(MempoolLimits())
    for number in range(2):
        mempool.take(message_of(number), NOW.wall_s + 900, NOW)
    provider = Provider(mempool, Spacing(PAUSE_S))
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [message_of(0).id], "the newest is not due yet"
    assert provider.request_ids(True, 1, 33, at(55)) is None
    assert ids(provider.wake(at(62))) == [message_of(1).id]


def test_version_1_waits_for_a_message_however_long() -> None:
    provider = Provider(Mempool(FREE), Spacing(0), answers_none=False)
    assert provider.request_ids(True, 0, 33, NOW) is None and provider.wake(at(10_000)) is None


def test_without_a_pause_all_are_told_in_the_order_in_which_they_came() -> None:
    messages = [message_of(number, POOLS[number % 3]) for number in range(9)]
    provider = Provider(mempool_of(messages), Spacing(0))
    assert ids(provider.request_ids(True, 0, 33, NOW)) == [one.id for one in messages]


@given(st.integers(0, 1 << 32), st.sampled_from((0.0, PAUSE_S)), st.sampled_from((3, 30)))
def test_a_provider_keeps_every_rule_and_tells_each_message_once(seed: int, pause_s: float, pools: int) -> None:
    """A peer that keeps the rules is told each message at most once, of one pool never two within the spacing, and
    with patience all that lives; one that breaks a rule is told which."""
    chance, mempool = Random(seed), Mempool(FREE)
    provider, told, window = Provider(mempool, Spacing(pause_s)), dict[bytes, float](), list[Row]()
    rows: dict[bytes, Row] = {}
    clock_s = 0.0
    last: dict[bytes, float] = {}
    for number in range(60):
        clock_s += chance.choice((0.0, 1.0, 20.0))
        if number < 30 and chance.random() < 0.6:
            message = MESSAGES[pools][number]
            rows[message.id] = mempool.take(message, NOW.wall_s + 9000, at(clock_s), is_relayed=True)
        acknowledged, most = chance.randint(0, len(window)), chance.randint(1, 40)
        blocking = acknowledged == len(window)
        found = provider.request_ids(blocking, acknowledged, most, at(clock_s)) or ()
        del window[:acknowledged]
        if blocking and not found:
            clock_s += NO_IDS_S
            found = provider.wake(at(clock_s)) or ()
        for one in found:
            pool = rows[one.id].pool
            assert one.id not in told and one.size == rows[one.id].size
            assert clock_s - last.get(pool, -1e9) >= pause_s + 2 * bool(pause_s) or not pause_s
            told[one.id] = last[pool] = clock_s
        window += found
        assert len(window) <= WINDOW_MAX and len(found) <= most
    for _ in range(200):
        clock_s += 70
        found = provider.request_ids(True, len(window), 33, at(clock_s)) or provider.wake(at(clock_s + 17)) or ()
        window = list(found)
        told |= {one.id: clock_s for one in found}
    assert set(told) == set(rows)


MESSAGES = {count: [message_of(number, Pool(number % count)) for number in range(30)] for count in (3, 30)}
"""Thirty messages, by the number of their pools."""


def test_every_rule_has_the_name_that_a_dmq_node_gives_it() -> None:
    named = {
        step["said"].removeprefix("error ")
        for one in BETWEEN_NODES["provider_version_2"]
        for step in one["steps"]
        if step["said"].startswith("error ")
    } - {"decoder failure"}
    assert named <= {rule.value for rule in WindowRule}
    provider = Provider(Mempool(FREE), Spacing(0))
    with pytest.raises(RemoteProtocolError, match=WindowRule.ACKED_TOO_MANY.value):
        provider.request_ids(True, 1, 1, NOW)
    with pytest.raises(RemoteProtocolError, match=WindowRule.REQUESTED_NOTHING.value):
        provider.request_ids(True, 0, 0, NOW)
    assert provider.due_s > 1e9, "a request that is refused changes nothing"


def test_a_request_that_blocks_gathers_ids_after_an_answer_and_none_before_the_first() -> None:
    mempool = Mempool(FREE)
    provider = Provider(mempool, Spacing(0))
    messages = [message_of(number) for number in range(40)]

    def take(message: SignedMessage) -> None:
        mempool.take(message, NOW.wall_s + 900, NOW, is_relayed=True)

    assert provider.request_ids(True, 0, 33, NOW) is None
    take(messages[0])
    assert ids(provider.wake(NOW)) == [messages[0].id]
    assert provider.request_ids(True, 1, 33, at(0.001)) is None
    take(messages[1])
    assert provider.wake(at(0.002)) is None and provider.due_s == NOW.mono_s + GATHER_S
    take(messages[2])
    assert ids(provider.wake(at(GATHER_S))) == [one.id for one in messages[1:3]]
    for message in messages[3:36]:
        take(message)
    assert ids(provider.request_ids(True, 2, 33, at(GATHER_S + 0.001))) == [one.id for one in messages[3:36]]
    take(messages[36])
    assert ids(provider.request_ids(False, 32, 33, at(GATHER_S + 0.002))) == [messages[36].id]
