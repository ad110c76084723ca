"""Percentiles by nearest rank over one fixed table of logarithmic buckets: integers, mergeable, equal in every engine.

A value always has the same bucket, none wider than 1/128 of its values. So the sum of the counts of two tables is the
table of both, and engines that sort, merge or stream agree to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping

MANTISSA_BITS = 7
_STEPS = 1 << MANTISSA_BITS


def bucket(value: int) -> int:
    """Return the bucket of a value >= 0: the value itself below 256, then 128 buckets for every power of two."""
    exponent = max(0, value.bit_length() - MANTISSA_BITS - 1)
    return _STEPS * exponent + (value >> exponent)


def upper_edge(number: int) -> int:
    """Return the greatest value in that bucket."""
    exponent = max(0, number // _STEPS - 1)
    return ((number - _STEPS * exponent + 1) << exponent) - 1


def percentile(counts: Mapping[int, int], percent: int, greatest: int) -> int | None:
    """Return the value that `percent` (1..100) of all values do not exceed, by nearest rank; None if there are none.

    `counts`: bucket -> count. The answer is the upper edge of the bucket of that rank, but never more than `greatest`,
    the exact maximum.
    """
    rank = -(-sum(counts.values()) * percent // 100)
    for number in sorted(counts):
        rank -= counts[number]
        if rank <= 0 < counts[number]:
            return min(upper_edge(number), greatest)
    return None
