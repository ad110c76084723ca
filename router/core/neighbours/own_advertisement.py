"""This router's own advertisement: signed with its key for the discovery service of its node (R-D24).

The service decides which groups are public and how long the advertisement lives; the router knows its public services
and the addresses at which others reach it, and lets no revision go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from router.core.wire.address import ADDRESSES_MAX, HOST_BYTES_MAX, parse_address
from router.core.wire.advert import EXPIRY_S, GROUPS_MAX, SERVICES, TTL_S, Advertisement, make_advertisement
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.now import Now
from router.core.wire.text import BadText

from .book import Book, Row
from .directory import Directory

NOWHERE = "others cannot reach this node: name an address they reach it at in node.advertise, or in node.listen"


class CannotAdvertise(ValueError):
    """An advertisement would contain nothing useful to others; the text says why and what to do."""


class Wish(Struct, forbid_unknown_fields=True):
    """The discovery service's wish for an advertisement; without addresses the node's own are used."""

    addresses: Annotated[
        tuple[Annotated[str, Meta(max_length=HOST_BYTES_MAX)], ...], Meta(max_length=ADDRESSES_MAX)
    ] = ()
    groups: Annotated[tuple[Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")], ...], Meta(max_length=GROUPS_MAX)] = ()
    ttl_s: Annotated[int, Meta(ge=0, le=TTL_S)] = TTL_S
    life_s: Annotated[int, Meta(ge=60, le=EXPIRY_S)] = EXPIRY_S


class OwnAdvertisement:
    """Signs advertisements of this router; the book holds the revision of the last one."""

    def __init__(self, key: SigningKey, directory: Directory, book: Book) -> None:
        self._key = key
        self._directory = directory
        self._book = book

    def sign(self, argument: str, now: Now) -> tuple[Advertisement, Sequence[Row]]:
        """Return an advertisement and the rows that must be in the store before anybody sees it; raise
        `CannotAdvertise`."""
        wish = msgspec.json.decode(argument, type=Wish)
        try:
            addresses = tuple(map(parse_address, wish.addresses)) or self._directory.addresses
        except BadText as error:
            raise CannotAdvertise(str(error)) from None
        if not addresses:
            raise CannotAdvertise(NOWHERE)
        groups = [PublicKey.checked(bytes.fromhex(one)) for one in wish.groups]
        rev, row = self._book.next_revision(now.wall_ns // 1_000_000)
        try:
            made = make_advertisement(
                self._key,
                addresses,
                services=self._services(),
                groups=groups,
                rev=rev,
                ttl_s=wish.ttl_s,
                expiry_min=expiry_min(now.wall_s + wish.life_s),
            )
        except ValueError as error:
            raise CannotAdvertise(f"it does not fit an advertisement: {error}") from None
        return made, (row,)

    def _services(self) -> dict[str, PublicKey]:
        """Return the public services that an advertisement may name."""
        directory = self._directory
        found = {one.name: key for key, one in directory.services.items() if key in directory.public}
        return {name: PublicKey(key) for name, key in found.items() if name in SERVICES}
