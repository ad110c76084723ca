"""What is fetched from peers: bounds, one peer at a time, the next one after a while, and liars of every kind."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BETWEEN_NODES, BODY, NOW, POOLS, raw

from router.core.link.machine import RemoteProtocolError
from services.dmq.core.mempool import Mempool, MempoolLimits
from services.dmq.core.messages.fault import Fault
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.peers import fetching as f
from services.dmq.core.peers.fetching import AskBodies, AskIds, Fetching, PeerFault, peer_fault
from services.dmq.core.peers.provider import WINDOW_MAX

DMQ = Dmq05()
MESSAGES = [DMQ.read(DMQ.write(POOLS[number % 3].draft(number.to_bytes(2, "big") + BODY))) for number in range(80)]
A, B, C = "a:1", "b:1", "c:1"


def announced(messages: list[SignedMessage]) -> list[tuple[bytes, int]]:
    return [(one.id, len(one.wire)) for one in messages]


def fetching(*peers: str) -> tuple[Fetching, Mempool]:
    mempool = Mempool(MempoolLimits(pause_s=0))
    found = Fetching(mempool)
    for peer in peers:
        found.begin(peer)
    assert found.requests(0.0) == [AskIds(peer, True, 0, f.IDS_MAX) for peer in peers]
    return found, mempool


def take(mempool: Mempool, message: SignedMessage) -> None:
    mempool.take(message, NOW.wall_s + 900, NOW, is_relayed=True)


def bodies(asks: list[AskIds | AskBodies]) -> dict[str, list[bytes]]:
    return {one.peer: list(one.ids) for one in asks if isinstance(one, AskBodies)}


def test_an_id_is_asked_for_once_and_acknowledged_when_its_message_is_here() -> None:
    of, mempool = fetching(A, B)
    first = MESSAGES[0]
    assert of.announced(A, announced([first])) == [] == of.announced(B, announced([first]))
    asks = of.requests(0.0)
    assert asks == [AskBodies(A, (first.id,))], "neither is asked for more ids while these are open, nor both for one"
    assert of.delivered(A, [first]) == [first] and of.requests(0.1) == []
    take(mempool, first)
    assert of.taken(first.id)[0] == [A, B]
    assert of.requests(0.2) == [AskIds(A, True, 1, 33), AskIds(B, True, 1, 33)]
    assert of.announced(A, announced([first])) == [1], "what is live here is not asked for"
    assert of.requests(0.3) == [AskIds(A, True, 1, 33)]


def test_while_replies_are_full_ids_are_asked_for_ahead_within_the_window() -> None:
    of, _ = fetching(A)
    made, told = [], 0
    for _ in range(6):
        of.announced(A, [(bytes((told + n,)) * 32, 1000) for n in range(f.IDS_MAX)])
        told += f.IDS_MAX
        made.append([one for one in of.requests(0.0) if isinstance(one, AskIds)])
        if told + f.IDS_MAX > WINDOW_MAX:
            break
    assert made == [[AskIds(A, False, 0, f.IDS_MAX)] * 2, [AskIds(A, False, 0, f.IDS_MAX)], [], []]
    assert told == WINDOW_MAX


def test_after_a_reply_that_is_not_full_nothing_is_asked_for_ahead() -> None:
    of, _ = fetching(A)
    of.announced(A, announced(MESSAGES[: f.IDS_MAX]))
    assert [type(one) for one in of.requests(0.0)].count(AskIds) == f.ASKED_MAX
    of.announced(A, announced(MESSAGES[f.IDS_MAX : f.IDS_MAX + 1]))
    assert not [one for one in of.requests(0.0) if isinstance(one, AskIds)]
    of.announced(A, [])
    assert not [one for one in of.requests(0.0) if isinstance(one, AskIds)]


def test_some_of_several_open_ids_are_acknowledged_after_a_while() -> None:
    of, mempool = fetching(A)
    of.announced(A, announced(MESSAGES[:3]))
    assert len(bodies(of.requests(0.01))[A]) == 3
    of.delivered(A, MESSAGES[:3])
    take(mempool, MESSAGES[0])
    of.taken(MESSAGES[0].id)
    assert of.requests(0.02) == [] and of.due_s == f.ACKNOWLEDGE_S
    take(mempool, MESSAGES[1])
    of.taken(MESSAGES[1].id)
    assert of.requests(f.ACKNOWLEDGE_S) == [AskIds(A, False, 2, 33)]
    of.announced(A, [])
    take(mempool, MESSAGES[2])
    of.taken(MESSAGES[2].id)
    assert of.requests(f.ACKNOWLEDGE_S) == [AskIds(A, True, 1, 33)], "nothing is left to be answered for"
    assert of.due_s == inf, "what has come in time is looked at no more"


def test_a_full_reply_is_followed_by_the_next_request_at_once() -> None:
    of, _ = fetching(A)
    of.announced(A, announced(MESSAGES[:33]))
    asks = of.requests(0.0)
    assert asks[0] == AskIds(A, False, 0, 33) and len(bodies(asks)[A]) == 33


def test_a_window_is_never_overdrawn_nor_are_the_bytes_in_flight() -> None:
    of, _ = fetching(A)
    for at in range(4):
        of.announced(A, [(bytes([at]) * 31 + bytes([number]), 2_800) for number in range(33)])
        asks = of.requests(0.0)
        assert sum(map(len, bodies(asks).values())) == (33 if at == 0 else 0), "92,400 bytes are 33 of 2,800"
    assert not [one for one in asks if isinstance(one, AskIds)], f"{WINDOW_MAX} are not acknowledged"


def test_a_body_is_asked_of_another_peer_after_a_while() -> None:
    of, _ = fetching(A, B)
    first = MESSAGES[0]
    of.announced(A, announced([first]))
    of.announced(B, announced([first]))
    assert bodies(of.requests(5.0)) == {A: [first.id]} and of.due_s == 5.0 + f.LATE_S
    assert bodies(of.requests(5.5)) == {}
    assert bodies(of.requests(5.6)) == {B: [first.id]}
    assert of.delivered(B, [first]) == [first]
    assert of.delivered(A, [first]) == [] and of.duplicates == 1, "what comes late is not judged again"


def test_what_one_peer_withholds_another_is_asked_for_at_once() -> None:
    of, _ = fetching(A, B)
    first = MESSAGES[0]
    of.announced(A, announced([first]))
    of.announced(B, announced([first]))
    of.requests(0.0)
    assert of.delivered(A, []) == [] and of.counts(A) == (1, 1)
    assert bodies(of.requests(0.1)) == {B: [first.id]}
    of.delivered(B, [])
    assert bodies(of.requests(0.2)) == {} and of.requests(9.0) == [], "nobody is left to be asked"
    assert not of._wanted and not of._todo


def test_what_is_refused_of_one_is_asked_of_another_unless_the_id_is_at_fault() -> None:
    of, _ = fetching(A, B)
    first, second = MESSAGES[:2]
    for peer in (A, B):
        of.announced(peer, announced([first, second]))
    of.requests(0.0)
    of.delivered(A, [first, second])
    of.refused(first.id, A, Fault.BAD_SIGNATURE)
    of.refused(second.id, A, Fault.EXPIRED)
    assert bodies(of.requests(0.1)) == {B: [first.id]}
    of.end(B)
    of.begin(B)
    of.requests(0.2)
    of.announced(B, announced([second]))
    assert bodies(of.requests(0.3)) == {}, "an expired id is not asked for again"


def test_an_id_that_does_not_name_its_expiry_is_asked_of_another_when_what_came_had_expired() -> None:
    of, _ = fetching(A, B)
    for peer in (A, B):
        of.announced(peer, announced(MESSAGES[:1]))
    of.requests(0.0)
    of.delivered(A, MESSAGES[:1])
    of.refused(MESSAGES[0].id, A, Fault.EXPIRED, is_named=False)
    assert bodies(of.requests(0.1)) == {B: [MESSAGES[0].id]}


def test_an_expiry_that_is_too_far_ahead_by_a_slow_clock_is_asked_for_when_it_is_announced_again() -> None:
    of, _ = fetching(A, B)
    of.announced(A, announced(MESSAGES[:1]))
    of.requests(0.0)
    of.delivered(A, MESSAGES[:1])
    of.refused(MESSAGES[0].id, A, Fault.EXPIRY_TOO_FAR)
    of.announced(B, announced(MESSAGES[:1]))
    assert bodies(of.requests(2.0)) == {B: [MESSAGES[0].id]}


def test_a_body_that_came_late_is_not_asked_for_again_while_it_is_judged() -> None:
    of, _ = fetching(A)
    of.announced(A, announced(MESSAGES[:1]))
    of.requests(0.0)
    assert bodies(of.requests(f.LATE_S)) == {}, "nobody else has it"
    of.delivered(A, MESSAGES[:1])
    assert bodies(of.requests(1.0)) == {}


def test_what_a_closed_peer_was_asked_for_is_asked_of_another() -> None:
    of, _ = fetching(A, B)
    first = MESSAGES[0]
    of.announced(A, announced([first]))
    of.announced(B, announced([first]))
    of.requests(0.0)
    of.end(A)
    assert bodies(of.requests(0.1)) == {B: [first.id]}
    of.delivered(B, [first])
    of.end(B)
    of.refused(first.id, B, Fault.BAD_SIGNATURE)
    assert not of._wanted


def test_a_wrong_reply_changes_nothing_and_has_the_name_that_a_dmq_node_gives_it() -> None:
    for case in BETWEEN_NODES["sizes"]:
        of, _ = fetching(A)
        message = DMQ.read(raw(BETWEEN_NODES["messages"]["a"]["cbor_hex"]))
        assert len(message.wire) == case["received"]
        of.announced(A, [(message.id, case["announced"])])
        of.requests(0.0)
        if case["verdict"] == "ok":
            assert of.delivered(A, [message]) == [message]
            continue
        with pytest.raises(RemoteProtocolError, match=case["verdict"]):
            of.delivered(A, [message])
    of, _ = fetching(A, B)
    first, second = MESSAGES[:2]
    of.announced(A, announced([first]))
    of.announced(B, announced([first]))
    of.requests(0.0)
    with pytest.raises(RemoteProtocolError, match="SigNotRequested"):
        of.delivered(A, [first, second])
    with pytest.raises(RemoteProtocolError, match="SigNotRequested"):
        of.delivered(A, [first, first])
    of.end(A)
    assert bodies(of.requests(0.1)) == {B: [first.id]}, "nothing that it brought was taken for judged"
    with pytest.raises(RemoteProtocolError, match="SigIdsNotRequested"):
        of.announced(B, announced([second]))


def test_a_peer_that_is_stopped_is_asked_for_nothing_and_finishes_when_it_owes_nothing() -> None:
    of, _ = fetching(A)
    of.announced(A, announced(MESSAGES[:1]))
    of.requests(0.0)
    of.stop(A)
    assert not of.is_finished(A)
    of.delivered(A, [])
    assert of.requests(0.1) == [] and of.is_finished(A)
    assert of.resume(A) and of.requests(0.2) == [AskIds(A, True, 1, 33)]


def test_ids_that_are_too_long_to_be_messages_are_acknowledged_unasked() -> None:
    of, _ = fetching(A)
    of.announced(A, [(b"x" * 32, f.SIZE_MAX + 1)])
    assert of.requests(0.0) == [AskIds(A, True, 1, 33)]


def test_each_fault_has_its_class() -> None:
    assert {fault for fault in Fault if peer_fault(fault) is PeerFault.DISCONNECT} == {
        Fault.WRONG_ID, Fault.AFTER_END, Fault.BEFORE_START, Fault.BAD_CERTIFICATE, Fault.BAD_SIGNATURE,
    }  # fmt: skip
    assert peer_fault(Fault.TOO_FREQUENT) is peer_fault(Fault.EXPIRY_TOO_FAR) is PeerFault.COUNT
    for fault in (Fault.DUPLICATE, Fault.EXPIRED, Fault.NOT_INITIALIZED, Fault.NOT_ELIGIBLE, Fault.UNKNOWN_POOL):
        assert peer_fault(fault) is PeerFault.DROP


@given(st.integers(0, 1 << 32))
def test_everything_that_one_honest_peer_has_comes_whatever_the_others_do(seed: int) -> None:
    """One peer of three is honest; the others withhold, bring wrong bodies, announce at random, come and go."""
    chance, mempool = Random(seed), Mempool(MempoolLimits(pause_s=0, pool_messages_max=1000))
    of, now_s = Fetching(mempool), 0.0
    for peer in (A, B, C):
        of.begin(peer)
    queue: list[AskIds | AskBodies] = []
    left = {peer: chance.sample(MESSAGES, len(MESSAGES)) for peer in (A, B, C)}
    for _ in range(2000):
        now_s += chance.choice((0.0, 0.3))
        queue += of.requests(now_s)
        if not queue:
            now_s += 1.0
            if len(mempool) == len(MESSAGES):
                break
            continue
        ask = queue.pop(0)
        liar = ask.peer != A
        if isinstance(ask, AskIds):
            some, left[ask.peer] = left[ask.peer][: ask.most], left[ask.peer][ask.most :]
            if some or not ask.blocking:
                of.announced(ask.peer, announced(some))
            continue
        if liar and chance.random() < 0.2:
            of.end(ask.peer)
            queue = [one for one in queue if one.peer != ask.peer]
            of.begin(ask.peer)
            continue
        known = {one.id: one for one in MESSAGES}
        some = [known[own_id] for own_id in ask.ids if not liar or chance.random() < 0.5]
        for message in of.delivered(ask.peer, some):
            if liar and chance.random() < 0.5:
                of.refused(message.id, ask.peer, Fault.BAD_SIGNATURE)
            else:
                take(mempool, message)
                of.taken(message.id)
    assert len(mempool) == len(MESSAGES)
    assert not of._wanted and not of._todo
