"""The pool: the deployed node's trace in `compat`, and `strict` beside a slow and simple pool."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.capd import BORN, PlainPool, posted

from services.capd import reasons
from services.capd.core.limits import PoolLimits, Profile, Standing
from services.capd.core.message import CapdMessage, read_message, shown_id
from services.capd.core.pattern import Pattern
from services.capd.core.pool import Known, Lost, Pool, Rejected, Taken

TRACE = json.loads((Path(__file__).parents[3] / "vectors" / "capd" / "pool_trace.json").read_text())
HASHES = [bytes([number]) * 20 for number in range(1, 4)]


def add(pool: Pool, message: CapdMessage, now_s: int = BORN) -> Taken | Known | Rejected:
    return pool.add(message, message.own_id(), now_s)


def lost_to(pool: Pool, message: CapdMessage, now_s: int) -> list[Lost]:
    found = add(pool, message, now_s)
    assert isinstance(found, Taken)
    return found.lost


def word(verdict: Taken | Known | Rejected) -> str:
    return verdict.reason.word if isinstance(verdict, Rejected) else type(verdict).__name__.lower()


def test_compat_pool_follows_the_trace_of_the_deployed_node() -> None:
    """The numbers of the trace were printed with 16 digits."""
    trace = TRACE["pool_trace"]
    pool, now_s = Pool(PoolLimits(trace["max_pool"]), Profile.COMPAT), trace["now"]
    for step in trace["steps"]:
        message = read_message(bytes.fromhex(step["wire"]))
        assert repr(message.priority(now_s)) == repr(float(step["priority"]))
        found = add(pool, message, now_s)
        assert word(found) == {"added": "taken", "too low": "capd:below-line"}[step["result"]], step["step"]
        lines = [float(f"{line:.16g}") for line in pool.lines(now_s)]
        assert lines == [step["relay"], step["min"], step["max"]], step["step"]
        assert (pool.bytes, len(pool)) == (step["size"], step["count"])
        assert (pool.get(message.own_id()) is not None) is step["newest_in_pool"]


def test_newcomer_displaces_messages_above_it_in_compat_and_not_in_strict() -> None:
    case = TRACE["evicts_higher"]
    messages = [read_message(bytes.fromhex(wire)) for wire in case["pool"]]
    incoming = read_message(bytes.fromhex(case["incoming"]))
    for profile in Profile:
        pool = Pool(PoolLimits(case["max_pool"], 1 << 20), profile)
        for message in messages:
            assert word(add(pool, message)) == "taken"
        before = [row.id for row in pool.rows()]
        verdict = word(add(pool, incoming))
        if profile is Profile.COMPAT:
            assert verdict == "taken"
            kept = [shown_id(row.id) for row in pool.rows()]
            assert set(kept) == {*case["survivors"], shown_id(incoming.own_id())}
        else:
            assert verdict == "capd:too-large" and [row.id for row in pool.rows()] == before


def test_verdicts_have_a_reason_each() -> None:
    pool = Pool(PoolLimits(100_000, 1000))
    good = posted(b"good")
    bad = replace(good, nonce=b"")
    assert not bad.has_work()
    cases = [
        (bad, BORN, reasons.BAD_WORK),
        (good, BORN - 1, reasons.FUTURE),
        (good, BORN + 500, reasons.BELOW_LINE),
        (posted(b"g" * 1001, 1.0), BORN, reasons.TOO_LARGE),
        (replace(good, nonce=bytes(256)), BORN, reasons.MALFORMED),
    ]
    for message, now_s, reason in cases:
        verdict = add(pool, message, now_s)
        assert isinstance(verdict, Rejected) and verdict.reason is reason
        assert verdict.sentence.startswith(reason.sentence.rstrip("."))
    assert isinstance(add(pool, good), Taken) and isinstance(add(pool, good, BORN + 9999), Known)
    assert (len(pool), pool.bytes, pool.last) == (1, 132, 1)


def test_message_with_a_target_of_0_is_never_taken() -> None:
    for profile in Profile:
        pool = Pool(PoolLimits(), profile)
        assert word(add(pool, CapdMessage(b"", BORN, 0))) == "capd:bad-work"
        assert word(add(pool, CapdMessage(b"", BORN, 0x04000000))) == "capd:bad-work"


def test_rescinded_and_expired_messages_stay_and_are_not_served() -> None:
    pool = Pool(PoolLimits())
    rescindable, short = posted(b"abc1", secret_hash=HASHES[1]), posted(b"abc2", expiration=10)
    plain = posted(b"abc3", secret_hash=HASHES[2])
    for message in (rescindable, short, plain):
        add(pool, message)
    everything = Pattern.prefix(b"abc")
    assert pool.find(everything, BORN + 9)[0] == 3 and pool.expire(BORN + 9) == []
    assert [row.id for row in pool.rescind(HASHES[1])] == [rescindable.own_id()]
    assert pool.rescind(HASHES[1]) == [] == pool.rescind(bytes(20))
    assert [row.id for row in pool.expire(BORN + 10)] == [short.own_id()] and pool.expire(BORN + 11) == []
    assert [row.id for row in pool.find(everything, BORN + 10)[1]] == [plain.own_id()]
    assert len(pool) == 3 and pool.bytes == 3 * 132
    standings = [pool.standing(row, BORN + 10) for row in pool.rows()]
    assert standings == [Standing.RESCINDED, Standing.EXPIRED, Standing.RELAYED]
    assert isinstance(add(pool, short, BORN + 20), Known), "a peer that does not look at expiration brings it again"
    assert pool.standing(pool.rows()[2], BORN + 200) is Standing.LOCAL
    assert pool.standing(pool.rows()[2], BORN + 600) is Standing.FADED


def test_lost_messages_have_a_reason_unless_they_had_ended_before() -> None:
    """A message that had ended before is lost without a reason, since its end was logged then."""
    pool = Pool(PoolLimits(1200, 1 << 20))
    ended = posted(b"e", 4.5, secret_hash=HASHES[1])
    add(pool, ended)
    for number in range(8):
        add(pool, posted(b"%d" % number, 4.0 + number))
    pool.rescind(HASHES[1])
    later = BORN + 300
    assert [one.reason for one in lost_to(pool, posted(b"new", 30.0, later), later)] == [reasons.DISPLACED]
    assert [one.reason for one in lost_to(pool, posted(b"newer", 31.0, later), later)] == [None]
    assert [one.reason for one in lost_to(pool, posted(b"newest", 3.0, BORN + 600), BORN + 600)] == [reasons.FADED]


def test_restored_pool_equals_the_one_before() -> None:
    pool, again = Pool(PoolLimits()), Pool(PoolLimits())
    messages = [
        posted(b"%d" % number, 3.0 + number, BORN - number, secret_hash=HASHES[number % 3]) for number in range(6)
    ]
    for message in messages:
        add(pool, message)
    pool.rescind(HASHES[2])
    for row, message in zip(pool.rows(), messages, strict=True):
        again.restore(row, message, BORN + 50)
    assert list(again.rows()) == list(pool.rows()) and again.bytes == pool.bytes and again.last == 6
    assert again.lines(BORN + 60) == pool.lines(BORN + 60)
    assert [again.rescind(one) for one in HASHES] == [pool.rescind(one) for one in HASHES]


# Messages whose work takes 256 to some thousand hashes each, done once.
MESSAGES = [
    posted(
        bytes([number % 4]) * (1 + number * 37 % 220), 1.05 + (number * 7 % 23) / 2, BORN + number * 61 % 700,
        expiration=(0xFFFF, 0xFFFF, 40, 300)[number % 4], secret_hash=(bytes(20), *HASHES)[number * 3 % 4],
    )
    for number in range(60)
]  # fmt: skip


@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.sampled_from((700, 1500, 4000)))
def test_strict_pool_equals_a_plain_pool(seed: int, bytes_max: int) -> None:
    chance = Random(seed)
    limits = PoolLimits(bytes_max, 200)
    pool, plain = Pool(limits), PlainPool(bytes_max, limits.of_one)
    now_s = BORN + 300
    for _ in range(40):
        now_s += chance.choice((0, 0, 1, 7, 120, -30))
        match chance.randrange(8):
            case 0:
                pool.rescind(one := chance.choice(HASHES))
                plain.rescind(one)
            case _:
                message = chance.choice(MESSAGES)
                assert word(add(pool, message, now_s)) == plain.add(message, now_s)
        assert pool.lines(now_s) == plain.lines(now_s)
        assert [row.id for row in pool.rows()] == [one.message.own_id() for one in plain.held]
        assert (pool.bytes, len(pool)) == (plain.size, len(plain.held)) and pool.bytes <= bytes_max
        value, mask = bytes([chance.randrange(4)]) * 3, chance.choice((b"", b"\xff", b"\x01\0\0", b"\0\xff\x03"))
        value = value[: len(mask)]
        found = plain.found(value, mask, now_s)
        count, rows = pool.find(Pattern.of(value, mask), now_s, start := chance.randrange(3), 2)
        assert (count, [row.id for row in rows]) == (len(found), found[start : start + 2])
