"""The routers that a node knows by their places: many near its own, fewer the farther away, as in Kademlia.

A bucket holds some of the routers whose places share the same number of leading bits with the own one; known ones stay
while they answer, so a flood of new keys displaces nobody. A bucket takes few of one public network.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rendezvous.points import Contact, nearest, place_of


class ContactLimits(Struct, frozen=True):
    """The number of routers in a bucket, and of those of one public network; there are at most 64 buckets."""

    of_bucket_max: int = 16
    of_prefix_max: int = 2


class Contacts:
    """The routers known to the router `own`, which is none of them."""

    __slots__ = ("_buckets", "_limits", "_own", "place")

    def __init__(self, own: PublicKey, limits: ContactLimits | None = None) -> None:
        self._own = own
        self._limits = limits or ContactLimits()
        self._buckets: dict[int, dict[PublicKey, Contact]] = {}
        self.place = place_of(own)

    def __repr__(self) -> str:
        return f"<{len(self)} routers by their places>"

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def __iter__(self) -> Iterator[Contact]:
        for bucket in self._buckets.values():
            yield from bucket.values()

    def hear(self, contact: Contact) -> bool:
        """Take a router in, if there is room; return whether it is known now. A known one that moves to another public
        network is judged as a new one."""
        if contact.router == self._own:
            return False
        bucket = self._buckets.setdefault((contact.place ^ self.place).bit_length(), {})
        known = bucket.get(contact.router)
        if known is not None:
            if known.prefix == contact.prefix:
                return True
            del bucket[contact.router]
        if len(bucket) >= self._limits.of_bucket_max or self._is_crowded(bucket, contact.prefix):
            return False
        bucket[contact.router] = contact
        return True

    def forget(self, router: PublicKey) -> None:
        """Take out a router that does not answer."""
        self._buckets.get((place_of(router) ^ self.place).bit_length(), {}).pop(router, None)

    def nearest(self, place: int, count: int) -> list[Contact]:
        """Return the routers nearest to a place, the nearest first."""
        return nearest(place, self, count)

    def nearer(self, place: int) -> int:
        """Return the number of known routers that are nearer to a place than the own one."""
        own = self.place ^ place
        return sum(one.place ^ place < own for one in self)

    def _is_crowded(self, bucket: dict[PublicKey, Contact], prefix: bytes | None) -> bool:
        if prefix is None:
            return False
        return sum(one.prefix == prefix for one in bucket.values()) >= self._limits.of_prefix_max
