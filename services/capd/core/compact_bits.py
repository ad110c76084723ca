"""Targets in 32 bits: an exponent and 23 bits of mantissa, Bitcoin's "nBits", read as the reference does.

The sign bit is masked out, and bits that the exponent shifts beyond 256 are lost; neither is an error.
"""

from __future__ import annotations

from functools import lru_cache

TARGETS_MAX = 4_096
"""Most targets that are cached: pools meet the same bits again and again."""
_MANTISSA = 0x007F_FFFF
_SIGN = 0x0080_0000
_TARGET = (1 << 256) - 1


@lru_cache(TARGETS_MAX)
def target_of(bits: int) -> int:
    """Return the target that these bits stand for."""
    exponent, mantissa = bits >> 24, bits & _MANTISSA
    if exponent <= 3:
        return mantissa >> 8 * (3 - exponent)
    return (mantissa << 8 * (exponent - 3)) & _TARGET


@lru_cache(TARGETS_MAX)
def target_bytes(bits: int) -> bytes:
    """Return the target as 32 bytes, the most significant first."""
    return target_of(bits).to_bytes(32)


def bits_of(target: int) -> int:
    """Return the bits of the greatest expressible target that is not above this one."""
    exponent = (target.bit_length() + 7) // 8
    mantissa = target << 8 * (3 - exponent) if exponent <= 3 else target >> 8 * (exponent - 3)
    if mantissa & _SIGN:
        mantissa, exponent = mantissa >> 8, exponent + 1
    return mantissa | exponent << 24
