"""This router's own advertisement: signed with its key for the discovery service of its node (R-D24).

The service decides which groups are public and how long the advertisement lives; the router knows its public services
and the addresses at which others reach it, and lets no revision go back.
"""

from __future__ import annotations

from collections.abc import Sequence

from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.now import Now
from router.core.wire.text import BadText
from router.service.verbs.advertise import SignAdvertisement

from .book import Book, Row
from .directory import Directory

NOWHERE = "others cannot reach this node: name an address they reach it at in node.advertise, or in node.listen"


class CannotAdvertise(ValueError):
    """An advertisement would contain nothing useful to others; the text says why and what to do."""


class OwnAdvertisement:
    """Signs advertisements of this router; the book holds the revision of the last one."""

    def __init__(self, key: SigningKey, directory: Directory, book: Book) -> None:
        self._key = key
        self._directory = directory
        self._book = book

    def sign(self, wish: SignAdvertisement, now: Now) -> tuple[Advertisement, Sequence[Row]]:
        """Return an advertisement and the rows that must be in the store before anybody sees it; without addresses the
        node's own are used. Raise `CannotAdvertise`."""
        try:
            addresses = tuple(map(parse_address, wish.addresses)) or self._directory.addresses
        except BadText as error:
            raise CannotAdvertise(str(error)) from None
        if not addresses:
            raise CannotAdvertise(NOWHERE)
        groups = [PublicKey.checked(one) for one in wish.groups]
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
        public = ((one.role, key) for key, one in directory.services.items() if key in directory.public)
        return {role.advertised_as: PublicKey(key) for role, key in public if role is not None}
