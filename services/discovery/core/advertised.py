"""The parts of an advertisement that sampling needs, and an entry of a view."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from router.core.wire.crypto import PublicKey


class Advertised(Protocol):
    """A node's signed advertisement, verified before sampling sees it; it is passed on unchanged (D11).

    The wire's `Advertisement` has neither deadline nor public network: the receiving part adds both."""

    @property
    def key(self) -> PublicKey:
        """Return the address of the node's router."""

    @property
    def rev(self) -> int:
        """Return the revision: only a greater one replaces."""

    @property
    def exp(self) -> int:
        """Return the Unix second from which it no longer counts."""

    @property
    def prefix(self) -> bytes | None:
        """Return the public network of its address; None if the address is private or a name."""


class ViewEntry(NamedTuple):
    """An advertisement and its age in periods, which travels outside the signature."""

    age: int
    advert: Advertised
