"""Invitations: links by which a node lets others in, with rights and perhaps a group (R-D14).

    [3 {"id" "at" "inv" "exp" "gr" "sig" ?"name" ?"grp"}]

`sig` by the inviting router is over a label and enc(the map without `sig`). `inv` is a secret: anyone who knows it may
redeem the invitation. The inviter keeps only its digest; no error and no repr shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct

from . import shape
from .address import TransportAddress, encoded_addresses, read_addresses
from .advert import Advertisement, read_advertisement
from .codec import Malformed, decode, encode
from .crypto import KEY_BYTES, PublicKey, Signature, SigningKey, digest, verify
from .grouplink import NAME_BYTES_MAX, GroupLink, link_name
from .lifetime import UINT32_MAX, expiry_s
from .link_text import ADVERTISEMENT, INVITATION, LINK_ITEMS_MAX, changed_link, read_link, write_link
from .text import clean, key_text, short

SECRET_BYTES = 16
LIFE_S_MAX = 3660 * 86_400
"""The longest life of an invitation; one that seems to live longer shows that the reader's clock is behind."""
RIGHTS = {"join": 1, "store": 2, "relay": 4, "why": 8}
"""The rights that an invitation may grant, and their bits."""
RIGHTS_ALL = 15

_LABEL = b"upsycle invitation 1"
_REQUIRED = ("id", "at", "inv", "exp", "gr", "sig")


class Invitation(Struct, frozen=True):
    """An offer of the router `inviter`: whoever sends it `secret` in time is granted the rights."""

    inviter: PublicKey
    addresses: tuple[TransportAddress, ...]
    secret: bytes
    expiry_min: int
    rights: tuple[str, ...]
    name: str | None
    group: GroupLink | None
    wire: bytes
    """The signed map, as received."""

    @property
    def id(self) -> bytes:
        """Return the digest of the secret, by which the inviter identifies the invitation."""
        return invitation_id(self.secret)

    def text(self) -> str:
        """Return the link as text, a secret of the inviter and the guest; raise `BadText` if it is too long."""
        return write_link(INVITATION, self.wire, leave_out="addresses, the group, or a name")

    def has_expired(self, now_s: float) -> bool:
        return expiry_s(self.expiry_min) <= now_s

    def __repr__(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        return f"<invitation {name}by {short(key_text('addr', self.inviter))}, {', '.join(self.rights)}>"


def invitation_id(secret: bytes) -> bytes:
    """Return the digest by which an inviter keeps the secret of an invitation."""
    return digest(secret)


def make_invitation(
    key: SigningKey,
    addresses: Iterable[TransportAddress],
    secret: bytes,
    *,
    expiry_min: int,
    rights: Collection[str],
    name: str | None = None,
    group: GroupLink | None = None,
) -> Invitation:
    """Return the invitation of the router with that key, signed. `secret` is 16 random bytes."""
    fields: dict[str, Any] = {
        "id": key.public,
        "at": encoded_addresses(addresses),
        "inv": secret,
        "exp": expiry_min,
        "gr": rights_number(rights),
    }
    if name := clean(name or "", NAME_BYTES_MAX).strip():
        fields["name"] = name
    if group is not None:
        fields["grp"] = _group_fields(group)
    return _read(decode(encode(fields | {"sig": key.sign(_signed(fields))}), LINK_ITEMS_MAX))


def parse_peer_link(text: str) -> Invitation | Advertisement:
    """Return the invitation or the node's advertisement in `text`, its signature verified.

    Raises `BadText`, which does not repeat its secrets.
    """
    kind, fields = read_link(text, INVITATION, ADVERTISEMENT)
    try:
        if kind == INVITATION:
            return _read(fields)
        advertisement = read_advertisement(fields)
        if not advertisement.verify():
            raise Malformed("its signature does not fit")
        return advertisement
    except ValueError as error:
        raise changed_link(kind, error) from None


def rights_number(rights: Collection[str]) -> int:
    """Return the rights as a number, the sum of their bits."""
    if not rights or not RIGHTS.keys() >= set(rights):
        raise ValueError(
            f"an invitation grants one or more of {', '.join(RIGHTS)}, not {', '.join(rights) or 'nothing'}"
        )
    return sum(RIGHTS[one] for one in set(rights))


def rights_in(number: int) -> tuple[str, ...]:
    """Return the rights whose bits are in this number."""
    return tuple([right for right, bit in RIGHTS.items() if number & bit])


def _read(value: Any) -> Invitation:
    found = shape.fields(value, "it", _REQUIRED, ("name", "grp"))
    rights = shape.uint(found["gr"], "gr", RIGHTS_ALL)
    if not rights:
        raise Malformed("gr grants nothing")
    inviter, signature = shape.public_key(found["id"], "id"), shape.signature(found["sig"], "sig")
    invitation = Invitation(
        inviter=inviter,
        addresses=read_addresses(found["at"], "at"),
        secret=shape.octets(found["inv"], "inv", SECRET_BYTES),
        expiry_min=shape.uint(found["exp"], "exp", UINT32_MAX),
        rights=rights_in(rights),
        name=link_name(found),
        group=_group(found["grp"]) if "grp" in found else None,
        wire=encode(found),
    )
    _check_signature(inviter, found, signature)
    return invitation


def _check_signature(inviter: PublicKey, found: shape.Fields, signature: Signature) -> None:
    signed = _signed({name: value for name, value in found.items() if name != "sig"})
    if not verify(inviter, signed, signature):
        raise Malformed("its signature does not fit")


def _signed(fields: shape.Fields) -> bytes:
    return _LABEL + encode(fields)


def _group_fields(group: GroupLink) -> shape.Fields:
    """Return the map of a group; its key is left out if it can be derived from the seed."""
    access = {"grp": group.group} if group.seed is None else {"seed": group.seed}
    return {"key": group.content_key, **access} | ({"name": group.name} if group.name else {})


def _group(value: Any) -> GroupLink:
    access = "seed" if type(value) is dict and "seed" in value else "grp"
    found = shape.fields(value, "grp", ("key", access), ("name",))
    content_key, name = shape.octets(found["key"], "key", KEY_BYTES), link_name(found)
    if access == "grp":
        return GroupLink(shape.checked_key(found["grp"], "grp"), content_key, None, name)
    seed = shape.octets(found["seed"], "seed", KEY_BYTES)
    return GroupLink(SigningKey(seed).public, content_key, seed, name)
