"""Filters of the groups that a node wants, randomised so that none can be read from them with certainty (R-C36).

A group stands for 4 of 1,024 bits. Every bit is flipped with a probability p = 1 / (1 + exp(ε / 4)), drawn once for
each bit and true value from a secret: the same groups always give the same filter, and a group that comes or goes
changes only bits of its own, so nothing is gained by asking often. Without a group's key its bits cannot be found.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import exp

from blake3 import blake3

from router.core.wire.crypto import PublicKey

BITS = 1_024
FILTER_BYTES = BITS // 8
BITS_OF_A_GROUP = 4
EPSILON = 3.0
"""The most by which a group changes the logarithm of the probability of a filter (local differential privacy)."""
SECRET_BYTES = 32
ONES_MAX = 770
"""Most bits set in a filter made in this way: if all bits are true, 695 on average, with a deviation of 15."""
GROUPS_REMEMBERED = 1_024
"""Number of groups whose bits are cached, since every filter that comes in is compared with the same ones."""

_LABEL = b"upsycle interest 1"
_DRAW_BYTES = 4
_OTHER_WAY = 1 / (1 + exp(EPSILON / BITS_OF_A_GROUP))
_OTHER_WAY_BELOW = round((1 << 8 * _DRAW_BYTES) * _OTHER_WAY)


@lru_cache(maxsize=GROUPS_REMEMBERED)
def bits_of(group: PublicKey) -> tuple[int, ...]:
    """Return the bits that stand for a group; some of them may be equal."""
    digest = blake3(_LABEL + group).digest(2 * BITS_OF_A_GROUP)
    return tuple([int.from_bytes(digest[at : at + 2], "big") % BITS for at in range(0, len(digest), 2)])


@lru_cache(maxsize=GROUPS_REMEMBERED)
def mask_of(group: PublicKey) -> int:
    """Return the bits that stand for a group as a number in which they alone are set."""
    return sum(1 << bit for bit in set(bits_of(group)))


def tell(groups: Iterable[PublicKey], secret: bytes) -> bytes:
    """Return the randomised filter of these groups. `secret`: 32 random bytes of this service, always the same."""
    true = {bit for group in groups for bit in bits_of(group)}
    draws = [blake3(bytes([value]), key=secret).digest(_DRAW_BYTES * BITS) for value in (False, True)]
    told = 0
    for bit in range(BITS):
        draw = draws[bit in true][_DRAW_BYTES * bit : _DRAW_BYTES * (bit + 1)]
        is_other_way = int.from_bytes(draw, "big") < _OTHER_WAY_BELOW
        told |= ((bit in true) != is_other_way) << bit
    return told.to_bytes(FILTER_BYTES, "little")


def agreement(told: bytes, group: PublicKey) -> int:
    """Return how many of a group's bits a filter has: 0 to 4. This suggests whom to meet, and proves nothing."""
    return sum(told[bit >> 3] >> (bit & 7) & 1 for bit in bits_of(group))


def count_ones(told: bytes) -> int:
    return int.from_bytes(told, "little").bit_count()


class Reading:
    """A received filter as evidence: how much likelier it is if its node wants a group than if it does not.

    The share of bits set is taken into account: a filter with all bits set is evidence for no group."""

    __slots__ = ("_bits", "_if_clear", "_if_set")

    def __init__(self, told: bytes) -> None:
        ones = min(max(count_ones(told), 1), BITS - 1) / BITS
        self._bits = int.from_bytes(told, "little")
        self._if_set, self._if_clear = (1 - _OTHER_WAY) / ones, _OTHER_WAY / (1 - ones)

    def __repr__(self) -> str:
        return f"<filter with {self._bits.bit_count()} bits set>"

    def likelihood(self, group: PublicKey) -> float:
        """Return the ratio of both likelihoods: 1 says nothing, more speaks for the group."""
        mask = mask_of(group)
        found = (self._bits & mask).bit_count()
        return float(self._if_set**found * self._if_clear ** (mask.bit_count() - found))
