"""The measurements of `router capd bench` in one process, each beside its yardstick, and the goals.

Both sides of a ratio are measured in turns, by the CPU time of this process, and the fastest of several rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import new, sha256
from random import Random
from typing import Any

import trio

from router.actors.process import program
from router.bench.goal import Goal
from router.core.wire.crypto import PublicKey
from router.rig.ending import Scenario
from router.rig.process import run_command
from services.capd.bench import plain_codec
from services.capd.bench.beside import beside as flooded
from services.capd.bench.pools import DATA_BYTES, NOW_S, OFFER, first_half, full_pool, newcomers
from services.capd.core.message import CapdMessage, is_met, read_with_id
from services.capd.core.pattern import KEY_BYTES, Pattern
from services.capd.core.pool import Pool, Taken
from services.capd.core.solving import PART, Draft, bits_of_priority, tried
from services.capd.core.watches import StandingQuery, Watches
from services.capd.solver import solve

ROUNDS = 5
SMALL = 10_000
"""Messages of the small pool with which a large one is compared."""
NEWCOMERS, PER_S = 4_000, 2_000
SCANS = 10
"""Searches in a row, as of a pool that is asked much; the list comprehension runs alone, and its keys fit no cache."""
WATCHES = 10_000
CODEC_MESSAGES = 2_000
NONCES = PART
PROCESS_NONCES = 40 * PART
NO_TARGET = 0x03000001
"""Bits of the target 1, for which no nonce is found."""

Rows = list[Goal]


@dataclass
class Bench:
    """A bench with pools of `messages` messages, which are made when they are needed."""

    messages: int
    say: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def pool(self) -> Pool:
        """A pool in which a thousand messages share a first half."""
        self.say(f"filling a pool with {self.messages:,} messages")
        return full_pool(self.messages)


def best_s(*acts: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the seconds of CPU of each function's fastest round; the functions take turns."""
    found = [float("inf")] * len(acts)
    for _ in range(rounds):
        for at, act in enumerate(acts):
            began_s = time.process_time()
            act()
            found[at] = min(found[at], time.process_time() - began_s)
    return found


def ratio(title: str, plain_s: float, ours_s: float, goal: float) -> Goal:
    return Goal(title, plain_s / ours_s, goal, remark=f"{_span(ours_s)} against {_span(plain_s)}")


def _span(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


# -- queries --------------------------------------------------------------------------------------------------------


def keys_of(pool: Pool) -> list[int]:
    """Return the first 16 bytes of each message as a number."""
    columns = pool.columns
    words = (column[columns.live()].tolist() for column in columns.words)
    return [a << 96 | b << 64 | c << 32 | d for a, b, c, d in zip(*words, strict=True)]


def _compared(pool: Pool, keys: list[int], pattern: Pattern, times: int = 1) -> tuple[float, float, int]:
    """Return the seconds that a list comprehension and our query take, and the number of matches."""
    value, mask = int.from_bytes(pattern.value), int.from_bytes(pattern.mask)
    count, _ = pool.find(pattern, NOW_S, 0, 1)
    plain = [key for key in keys if key & mask == value]
    assert len(plain) == count, f"{len(plain)} keys match, and {count} were found"

    def ours() -> None:
        for _ in range(times):
            pool.find(pattern, NOW_S, 0, 1)

    plain_s, ours_s = best_s(lambda: [key for key in keys if key & mask == value], ours)
    return plain_s, ours_s / times, count


def any_mask(bench: Bench) -> Rows:
    bench.say(f"filling a pool with {bench.messages:,} messages whose first halves are equal")
    pool = full_pool(bench.messages, one_half=True)
    keys = keys_of(pool)
    tail = Random(3).randbytes(1)
    pattern = Pattern.of(OFFER + tail + bytes(7), b"\x7f\xff\xff\x0f\xff\xff\xff\xff\xff\x00\x00" + bytes(5))
    plain_s, ours_s, count = _compared(pool, keys, pattern, SCANS)
    title = f"Any mask over {bench.messages:,} messages, all first halves equal, {count:,} match"
    return [ratio(f"{title}: times a list comprehension", plain_s, ours_s, 20)]


def first_eight(bench: Bench) -> Rows:
    half = first_half(7, bench.messages)
    pattern = Pattern.of(half, b"\x7f" + b"\xff" * 7)
    plain_s, ours_s, count = _compared(bench.pool, keys_of(bench.pool), pattern, SCANS)
    title = f"A mask that the first 8 bytes decide, over {bench.messages:,} messages, {count:,} match"
    return [ratio(f"{title}: times a list comprehension", plain_s, ours_s, 60)]


def prefix(bench: Bench) -> Rows:
    half = first_half(7, bench.messages)
    plain_s, ours_s, count = _compared(bench.pool, keys_of(bench.pool), Pattern.prefix(half), 100)
    title = f"A prefix of 8 bytes by the index, of {bench.messages:,} messages, {count:,} match"
    return [ratio(f"{title}: times a list comprehension", plain_s, ours_s, 1000)]


def standing_queries(bench: Bench) -> Rows:
    """Measure which standing queries a message meets, beside a loop over all of them."""
    chance = Random(4)
    watches = Watches()
    plain: list[tuple[int, int, int, PublicKey]] = []
    for number in range(WATCHES):
        pattern = Pattern.of(chance.randbytes(KEY_BYTES), b"\xff" * 4 + chance.randbytes(12))
        watch = StandingQuery(PublicKey(number.to_bytes(32)), pattern)
        watches.put(watch, NOW_S + 1)
        value, mask = int.from_bytes(pattern.value), int.from_bytes(pattern.mask)
        plain.append((value, mask, pattern.bytes_needed, watch.asker))
    data = plain[WATCHES // 2][0].to_bytes(KEY_BYTES) + bytes(DATA_BYTES - KEY_BYTES)
    key = int.from_bytes(data[:KEY_BYTES])
    size = min(KEY_BYTES, len(data))

    def loop() -> list[PublicKey]:
        return [asker for value, mask, needed, asker in plain if key & mask == value and size >= needed]

    def ours() -> None:
        for _ in range(100):
            list(watches.askers(data))

    assert loop() == list(watches.askers(data)) != []
    plain_s, ours_s = best_s(loop, ours)
    return [ratio(f"A message against {WATCHES:,} standing queries: times a loop", plain_s, ours_s / 100, 50)]


# -- priorities -----------------------------------------------------------------------------------------------------


def priorities(bench: Bench) -> Rows:
    """Measure the priorities of all live messages, beside a loop over their numbers."""
    columns, now_s = bench.pool.columns, NOW_S
    live = columns.live()
    rows = list(zip(columns.initials[live].tolist(), columns.created[live].astype(int).tolist(), strict=True))

    def loop() -> list[float]:
        return [initial - initial / 600 * (now_s - created) for initial, created in rows]

    def loop_and_sort() -> tuple[float, float]:
        found = sorted(initial - initial / 600 * (now_s - created) for initial, created in rows)
        return found[0], found[len(found) // 2]

    def lowest_and_middle() -> tuple[float, float]:
        return columns.weakest(1, now_s)[0][0], columns.middle_and_highest(now_s)[0]

    assert columns.priorities(now_s).tolist() == loop() and lowest_and_middle() == loop_and_sort()
    loop_s, ours_s = best_s(loop, lambda: columns.priorities(now_s))
    sort_s, both_s = best_s(loop_and_sort, lowest_and_middle, rounds=3)
    return [
        ratio(f"Priorities of {bench.messages:,} messages: times a Python loop", loop_s, ours_s, 30),
        ratio("With the lowest and the middle one: times loop and sort", sort_s, both_s, 12),
    ]


def admission(bench: Bench) -> Rows:
    bench.say("doing the work of newcomers")
    coming = [newcomers(PER_S, NOW_S + second, second) for second in range(NEWCOMERS // PER_S)]
    large_s = min(_admission_s(full_pool(bench.messages, seed=seed), coming) for seed in range(2))
    small_s = min(_admission_s(full_pool(SMALL, seed=seed), coming) for seed in range(5))
    title = f"Admission into a full pool of {bench.messages:,} messages: times as much as of {SMALL:,}"
    remark = f"{_span(large_s)} against {_span(small_s)}, {PER_S:,} a second"
    return [Goal(title, large_s / small_s, 2.0, more=False, remark=remark)]


def _admission_s(pool: Pool, coming: list[list[tuple[CapdMessage, bytes]]]) -> float:
    """Return the seconds of CPU to take one message and judge its state."""
    began_s = time.process_time()
    for second, messages in enumerate(coming):
        for message, own_id in messages:
            verdict = pool.add(message, own_id, NOW_S + second)
            assert isinstance(verdict, Taken) and verdict.lost, f"a full pool has said {verdict}"
            pool.standing(verdict.row, NOW_S + second)
    return (time.process_time() - began_s) / sum(map(len, coming))


# -- messages -------------------------------------------------------------------------------------------------------


def codec(bench: Bench) -> Rows:
    """Measure reading and judging a message, beside a plain class."""
    chance = Random(5)
    wires = [
        CapdMessage(
            chance.randbytes(DATA_BYTES),
            NOW_S + number % 500,
            bits_of_priority(2 + number % 50 / 10, DATA_BYTES),
            chance.randbytes(2),
        ).encoded()
        for number in range(CODEC_MESSAGES)
    ]
    now_s = NOW_S + 500

    def ours() -> list[tuple[bytes, bool, float]]:
        found = []
        for wire in wires:
            message, own_id = read_with_id(wire)
            found.append((own_id, is_met(own_id, message.difficulty_bits), message.priority(now_s)))
        return found

    def plain() -> list[tuple[bytes, bool, float]]:
        found = []
        for wire in wires:
            message = plain_codec.read(wire)
            own_id = message.id()
            found.append((own_id, int.from_bytes(own_id, "little") < message.target(), message.priority(now_s)))
        return found

    assert ours() == plain()
    plain_s, ours_s = best_s(plain, ours, rounds=2 * ROUNDS)
    count = len(wires)
    title = "Reading a message, its id, its work and its priority: times a plain class"
    return [ratio(title, plain_s / count, ours_s / count, 1.8)]


def solver(bench: Bench) -> Rows:
    """Measure the solver, beside plain loops of SHA-256."""
    stage1 = bytes(32)

    def plain() -> None:
        for number in range(NONCES):
            nonce = number.to_bytes(4, "little")
            if int.from_bytes(sha256(sha256(stage1 + nonce).digest()).digest(), "little") < 1:
                return

    def by_name() -> None:
        for number in range(NONCES):
            nonce = number.to_bytes(4, "little")
            once = new("sha256", stage1 + nonce).digest()
            if int.from_bytes(new("sha256", once).digest(), "little") < 1:
                return

    plain_s, name_s, ours_s = best_s(plain, by_name, lambda: tried(stage1, NO_TARGET, 1 << 20, NONCES))
    return [
        ratio("The solver: times a loop of sha256(sha256())", plain_s / NONCES, ours_s / NONCES, 1.15),
        ratio('The solver: times a loop of hashlib.new("sha256")', name_s / NONCES, ours_s / NONCES, 1.8),
    ]


async def processes(bench: Bench) -> Rows:
    one, two = [await _rate(count) for count in (1, 2)]
    remark = f"{two / 1e6:.2f} against {one / 1e6:.2f} million nonces a second by the clock"
    return [Goal("The solver with two processes: times one", two / one, 1.8, remark=remark)]


async def _rate(count: int) -> float:
    """Return the nonces that `count` processes try in a second, measured after their first parts are done."""
    seen: list[tuple[float, int]] = []
    with trio.CancelScope() as scope:

        def progressed(done: int) -> None:
            seen.append((time.perf_counter(), done))
            if done >= count * PROCESS_NONCES:
                scope.cancel()

        await solve(Draft(b"", NOW_S, NO_TARGET), count, progressed)
    (began_s, first), (ended_s, last) = seen[count - 1], seen[-1]
    return (last - first) / (ended_s - began_s)


async def resident(bench: Bench) -> Rows:
    bench.say(f"filling a pool with {bench.messages:,} messages in a process of its own")
    command = program("services.capd.bench.resident", str(bench.messages))
    found = (await run_command(command)).json
    counted, taken = found["counted"], found["taken"]
    title = f"Memory of a pool of {bench.messages:,} messages of {DATA_BYTES} bytes: share of its counted bytes"
    return [Goal(title, taken / counted, 1.2, more=False, remark=f"{taken >> 20} of {counted >> 20} MiB")]


async def beside(bench: Bench) -> Rows:
    bench.say(f"filling a pool with {bench.messages:,} messages on disk, and starting its node")
    return await flooded(bench.messages)


SCENARIOS: dict[str, Scenario[Bench, Rows]] = {
    "mask": any_mask,
    "half": first_eight,
    "prefix": prefix,
    "priorities": priorities,
    "standing": standing_queries,
    "solver": solver,
    "processes": processes,
    "codec": codec,
    "admission": admission,
    "resident": resident,
    "beside": beside,
}
