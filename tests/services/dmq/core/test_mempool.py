"""The mempool: bounds, pace, taken ids, expiry, restarts, and a comparison with a slow and simple one."""

from __future__ import annotations

from random import Random

import pytest
from samples.dmq import BODY, NOW, POOLS, Pool

from services.dmq.core import mempool as m
from services.dmq.core.mempool import Mempool, MempoolLimits, Row
from services.dmq.core.messages.authentication import Moment
from services.dmq.core.messages.fault import Fault
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage

DMQ = Dmq05()
LIMITS = MempoolLimits()
FREE = MempoolLimits(pause_s=0)


def message_of(number: int = 0, pool: Pool = POOLS[0]) -> SignedMessage:
    return DMQ.read(DMQ.write(pool.draft(number.to_bytes(2, "big") + BODY)))


MESSAGES = [message_of(number) for number in range(12)]
SIZE = len(MESSAGES[0].wire)


def later(seconds: float) -> Moment:
    return Moment(NOW.wall_s + seconds, NOW.mono_s + seconds)


def take(of: Mempool, message: SignedMessage, at: Moment = NOW, expires_at: float = NOW.wall_s + 900) -> Row | Fault:
    rejected = of.judge(message, at)
    return of.take(message, expires_at, at) if rejected is None else rejected.fault


def test_an_early_message_is_taken_and_waits_for_peers() -> None:
    """Eight may wait for each pool."""
    of = Mempool(LIMITS)
    rows = [take(of, message, later(at)) for at, message in enumerate(MESSAGES[:9])]
    assert [row.peers_at - NOW.wall_s for row in rows if isinstance(row, Row)] == [60.0 * at for at in range(9)]
    assert take(of, MESSAGES[9], later(9)) is Fault.PACE_FULL
    other = take(of, message_of(pool=POOLS[1]), later(9))
    assert isinstance(other, Row) and other.peers_at == NOW.wall_s + 9
    assert isinstance(take(of, MESSAGES[9], later(60)), Row), "the second is out of its turn"
    assert [row.number for row in of.after(0)] == list(range(1, 12)), "consumers get all at once"


def test_a_message_that_is_not_early_waits_for_nobody() -> None:
    of = Mempool(LIMITS)
    rows = [take(of, message, later(61.0 * at)) for at, message in enumerate(MESSAGES)]
    assert [row.peers_at - NOW.wall_s for row in rows if isinstance(row, Row)] == [61.0 * at for at in range(12)]


@pytest.mark.parametrize(
    ("limits", "count", "fault"),
    (
        (MempoolLimits(pause_s=0, messages_max=3), 3, Fault.MEMPOOL_FULL),
        (MempoolLimits(pause_s=0, bytes_max=4 * SIZE - 1), 3, Fault.MEMPOOL_FULL),
        (MempoolLimits(pause_s=0, pool_messages_max=3), 3, Fault.POOL_FULL),
        (MempoolLimits(pause_s=0, pool_bytes_max=4 * SIZE - 1), 3, Fault.POOL_FULL),
        (MempoolLimits(paced_max=1), 2, Fault.PACE_FULL),
    ),
)
def test_what_does_not_fit_changes_nothing(limits: MempoolLimits, count: int, fault: Fault) -> None:
    of = Mempool(limits)
    answers = [take(of, message) for message in MESSAGES[:6]]
    assert [isinstance(one, Row) for one in answers] == [True] * count + [False] * (6 - count)
    assert set(answers[count:]) == {fault}
    assert (len(of), of.bytes, of.last) == (count, count * SIZE, count)
    of.expire(NOW.wall_s + 900)
    assert isinstance(take(of, MESSAGES[5], later(1000)), Row), "what has expired makes room"


def test_a_taken_id_is_not_a_known_one() -> None:
    """Another pool signs the payload of POOLS[0]: both are live, and peers get the later one under the id."""
    first = message_of()
    second = DMQ.read(DMQ.write(POOLS[1].draft(first.body)))
    assert first.id == second.id and first.wire != second.wire
    of = Mempool(LIMITS)
    take(of, second, expires_at=NOW.wall_s + 10)
    assert of.knows(second) and not of.knows(first)
    take(of, first)
    assert of.knows(first) and of.knows(second) and of.served(first.id) == 2
    assert [row.number for row in of.expire(NOW.wall_s + 10)] == [1]
    assert of.knows(first) and not of.knows(second) and of.served(first.id) == 2
    of.expire(NOW.wall_s + 900)
    assert of.served(first.id) is None and not of.knows(first) and len(of) == of.bytes == 0


def test_messages_expire_when_they_are_due() -> None:
    of = Mempool(FREE)
    for at, expires in enumerate((30.0, 10.0, 20.0, 10.5)):
        take(of, MESSAGES[at], expires_at=NOW.wall_s + expires)
    assert of.expires_next() == NOW.wall_s + 10
    assert of.expire(NOW.wall_s + 9.9) == []
    assert [row.number for row in of.expire(NOW.wall_s + 10)] == [2]
    assert [row.number for row in of.expire(NOW.wall_s + 40)] == [4, 3, 1]
    assert of.expires_next() is None and repr(of) == "<Mempool of 0 messages, 0 bytes, 0 pools>"


def test_a_pool_whose_turn_is_to_come_is_not_forgotten() -> None:
    of = Mempool(LIMITS)
    take(of, MESSAGES[0], expires_at=NOW.wall_s + 1)
    of.expire(NOW.wall_s + 1)
    row = take(of, MESSAGES[1], later(2))
    assert isinstance(row, Row) and row.peers_at == NOW.wall_s + 60


def test_a_restart_changes_nothing() -> None:
    of, again = Mempool(LIMITS), Mempool(LIMITS)
    for at in range(6):
        take(of, MESSAGES[at], later(at), NOW.wall_s + 100 + 100 * (at % 2))
    of.expire(NOW.wall_s + 100)
    again.restore(list(of.after(0)), of.last)
    assert (list(again.after(0)), again.bytes, again.last) == (list(of.after(0)), of.bytes, 6)
    assert take(again, MESSAGES[7], later(101)) == take(of, MESSAGES[7], later(101))
    empty = Mempool(LIMITS)
    empty.restore([], 41)
    row = take(empty, MESSAGES[0])
    assert isinstance(row, Row) and row.number == 42, "no number is given twice"


def test_beside_a_simple_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are taken and expire at random, with few dead rows allowed, so that the columns are packed again and
    again."""
    monkeypatch.setattr(m, "DEAD_MAX", 3)
    chance, of, simple = Random(5), Mempool(FREE), dict[int, Row]()
    for at in range(600):
        message = chance.choice(MESSAGES)
        if not of.knows(message):
            row = take(of, message, later(at), NOW.wall_s + at + chance.randrange(1, 40))
            assert isinstance(row, Row)
            simple[row.number] = row
        gone = {number: row for number, row in simple.items() if row.expires_at <= NOW.wall_s + at}
        assert sorted(of.expire(NOW.wall_s + at), key=lambda row: row.number) == list(gone.values())
        simple = {number: row for number, row in simple.items() if number not in gone}
        start = chance.randrange(of.last + 1)
        assert list(of.after(start)) == [row for number, row in simple.items() if number > start]
        assert len(of) == len(simple) and of.bytes == SIZE * len(simple)
        assert of.get(start) == simple.get(start)
        assert {one.id for one in MESSAGES if of.knows(one)} == {row.id for row in simple.values()}
    assert len(simple) > 5


def test_lone_messages_are_all_that_peers_get_of_their_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools speak often and seldom, some sign another's payload, and few of the latest rows are kept."""
    monkeypatch.setattr(m, "RECENT_MAX", 6)
    chance, of, counts = Random(6), Mempool(LIMITS), set[int]()
    for at in range(500):
        message = message_of(chance.randrange(12), chance.choice(POOLS))
        is_relayed = chance.random() < 0.5
        if not of.knows(message) and of.judge(message, later(at), is_relayed=is_relayed) is None:
            of.take(message, NOW.wall_s + at + chance.randrange(1, 8), later(at), is_relayed=is_relayed)
        of.expire(NOW.wall_s + at)
        counts.add(len(of.lone))
        for row in map(of.get, of.lone):
            assert row is not None and of.served(row.id) == row.number and list(of.of_pool(row.pool)) == [row.number]
            assert row.peers_at <= NOW.wall_s + at
    assert counts == set(range(len(POOLS) + 1))


def test_ids_of_any_length_survive_those_that_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m, "DEAD_MAX", 0)
    of, pool, wall_s = Mempool(LIMITS), POOLS[0].id, NOW.wall_s
    ids = [b"", bytes(31), b"i" * 32, b"j" * 64, b"k" * 32]
    rows = [Row(number, own_id, pool, 100, wall_s + number, wall_s) for number, own_id in enumerate(ids, 1)]
    of.restore(rows, 0)
    assert list(of.after(0)) == rows and [of.served(one) for one in ids] == [1, 2, 3, 4, 5]
    assert of.expire(wall_s + 3) == rows[:3] and list(of.after(0)) == rows[3:]
    assert [of.served(one) for one in ids] == [None, None, None, 4, 5]
