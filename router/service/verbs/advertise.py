"""Advertisements of the own router, which it signs for a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from router.core.service.roles import Role
from router.core.wire.address import ADDRESSES_MAX, HOST_BYTES_MAX
from router.core.wire.advert import EXPIRY_S, GROUPS_MAX, TTL_S
from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard

from .verb import Deed, Request


class Advertise(Deed, frozen=True):
    """Have the router sign an advertisement of itself, which `Signed` with the same tag brings.

    The advertisement names the public services of this node and these groups, given by name or key, and without
    addresses those at which others reach the node; it expires in `life_s`. The later of two has the greater `rev`."""

    addresses: tuple[str, ...] = ()
    groups: tuple[PublicKey | str, ...] = ()
    ttl_s: int = TTL_S
    life_s: int = EXPIRY_S
    tag: str = ""

    def request(self, key_of: Callable[[PublicKey | str], PublicKey]) -> SignAdvertisement:
        """Return this as it travels. `key_of`: the key of a group that is given by name or key."""
        return SignAdvertisement(self.addresses, tuple(map(key_of, self.groups)), self.ttl_s, self.life_s)

    def answered(self, answer: Mapping[str, Any]) -> Signed:
        """Return the event that follows from the answer to that request."""
        if "error" in answer:
            return Signed(self.tag, error=str(answer["error"]))
        return Signed(self.tag, bytes.fromhex(answer["message"]))


class SignAdvertisement(Request, frozen=True):
    """An `Advertise` as it travels: the groups by their keys. The answer is the signed message."""

    WORD: ClassVar[str] = "advertise"
    ROLES: ClassVar[frozenset[Role]] = frozenset((Role.FINDER, Role.OVERLAY))

    addresses: Annotated[
        tuple[Annotated[str, Meta(max_length=HOST_BYTES_MAX)], ...], Meta(max_length=ADDRESSES_MAX)
    ] = ()
    groups: Annotated[tuple[PublicKey, ...], Meta(max_length=GROUPS_MAX)] = ()
    ttl_s: Annotated[int, Meta(ge=0, le=TTL_S)] = TTL_S
    life_s: Annotated[int, Meta(ge=60, le=EXPIRY_S)] = EXPIRY_S


class Signed(Heard, frozen=True):
    """The answer to the `Advertise` with this tag: the signed message `[1, PEER_ADVERTISEMENT]`, or why there is
    none."""

    tag: str
    message: bytes = b""
    error: str = ""
