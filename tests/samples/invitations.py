"""Invitations of a core to its guests."""

from __future__ import annotations

from router.core.wire.address import parse_address
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import GroupLink, new_group
from router.core.wire.invitation import Invitation, make_invitation
from router.core.wire.lifetime import expiry_min

CORE = SigningKey(b"C" * 32)
FRIENDS = new_group(b"f" * 32, b"k" * 32, "friends")


def invitation(
    *urls: str,
    until_s: float,
    secret: bytes = b"s" * 16,
    rights: tuple[str, ...] = ("join", "store", "relay"),
    name: str | None = "the core",
    group: GroupLink | None = FRIENDS,
    key: SigningKey = CORE,
) -> Invitation:
    """Return an invitation by the core, to `FRIENDS` unless another group is given."""
    addresses = [parse_address(one) for one in urls or ("tls://core.example.org:4100",)]
    return make_invitation(
        key, addresses, secret, expiry_min=expiry_min(until_s), rights=rights, name=name, group=group
    )
