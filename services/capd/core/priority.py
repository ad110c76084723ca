"""Priority, in IEEE doubles and in the reference's order of operations, so that it is equal to the last bit.

    p0 = 2^248 / target, scaled by 100 / length beyond 100 bytes of data
    p  = p0 - (p0 / 600) * age

`age` is an unsigned number of 64 bits, so a message from the future counts as older than any other. As two messages
age, their priorities may cross.
"""

from __future__ import annotations

from functools import lru_cache

from .compact_bits import TARGETS_MAX, bits_of, target_of

LOCAL_TARGET = (1 << 248) - 1
"""The target of priority 1."""
LOCAL_PRIORITY, RELAY_PRIORITY = 1.0, 2.0
"""Below the first, no pool takes a message; below the second, no node passes one on."""
NOMINAL_BYTES = 100
LIFE_S = 600
_ONE = float(LOCAL_TARGET)
_FRACTION = 1 << 20
_AGE = (1 << 64) - 1


def initial_priority(bits: int, length: int) -> float:
    """Return the priority at age 0 of a message with `length` bytes of data; infinite if its target is 0."""
    found = _of_bits(bits)
    return found / length * NOMINAL_BYTES if length > NOMINAL_BYTES else found


def priority_at(bits: int, length: int, create_time: int, now_s: int) -> float:
    """Return the priority at a Unix second: `initial_priority` and `aged` in one step, for reading many messages."""
    initial = _of_bits(bits)
    if length > NOMINAL_BYTES:
        initial = initial / length * NOMINAL_BYTES
    age = now_s - create_time
    return initial - initial / LIFE_S * float(age if age >= 0 else age & _AGE)


@lru_cache(TARGETS_MAX)
def _of_bits(bits: int) -> float:
    target = target_of(bits)
    return _ONE / float(target) if target else float("inf")


def aged(initial: float, create_time: int, now_s: int) -> float:
    """Return the priority at a Unix second; NaN if the initial one is infinite."""
    age = now_s - create_time
    return initial - initial / LIFE_S * float(age if age >= 0 else age & _AGE)


def target_of_priority(priority: float, length: int) -> int:
    """Return the target of about this initial priority, as the reference computes it."""
    wanted = priority * length / NOMINAL_BYTES if length > NOMINAL_BYTES else priority
    if wanted >= 1.0:
        return LOCAL_TARGET // int(wanted * _FRACTION) * _FRACTION
    return LOCAL_TARGET // _FRACTION * int(1.0 / wanted * _FRACTION)


def bits_for(priority: float, length: int, harder_by: int = 0) -> int:
    """Return bits of at least this initial priority. Raise `ValueError` if it is out of range.

    `harder_by`: additional work, in parts of 65,536, so that equal messages of one second can differ."""
    if not LOCAL_PRIORITY <= priority < float("inf"):
        raise ValueError(f"the priority {priority} is out of range; it is at least {LOCAL_PRIORITY}")
    bits = bits_of(target_of_priority(priority, length) * ((1 << 16) - harder_by) >> 16)
    while initial_priority(bits, length) < priority:
        bits -= 1
    return bits


def last_second(initial: float, create_time: int, line: float) -> int:
    """Return the last Unix second at which the priority is not below the line; if there is none, the one before
    creation."""
    if initial < line:
        return create_time - 1
    found = create_time + int(LIFE_S * (1.0 - line / initial)) + 1
    while aged(initial, create_time, found) < line:
        found -= 1
    return found
