"""The parts of an advertisement that sampling reads, an entry of a view, and the randomness that is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from router.core.wire.crypto import PublicKey

T = TypeVar("T")


class Advertised(Protocol):
    """A node's signed advertisement, verified before sampling sees it; it is passed on unchanged (D11).

    The wire's `Advertisement` has neither deadline nor public network: what hears it adds both."""

    @property
    def key(self) -> PublicKey:
        """The address of the node's router."""

    @property
    def rev(self) -> int:
        """The revision: only a greater one replaces."""

    @property
    def exp(self) -> int:
        """The Unix second from which it no longer counts."""

    @property
    def prefix(self) -> bytes | None:
        """The public network of its address; None where the address is private or a name."""


class ViewEntry(NamedTuple):
    """An advertisement and its age in periods, which travels outside the signature."""

    age: int
    advert: Advertised


class Chance(Protocol):
    """The randomness that sampling is given: `random.SystemRandom` in a node, a seeded `random.Random` elsewhere."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 up to `stop`."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Return `k` different members in random order."""
