"""Group links: one text with all that a member needs to read a group, and perhaps to send to it (R-E7).

A link is `upsycle:` + base64url of enc([2, {"grp", "key", ?"name", ?"seed"}]); a read-only link lacks the seed. The
form is that of invitations (R-D9), which are type 1. Anyone who has a link can read the group, so no error and no
repr shows one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from typing import Any

from . import shape
from .codec import decode, encode
from .crypto import KEY_BYTES, PublicKey, SigningKey
from .text import BadText, clean, key_text, short

SCHEME = "upsycle:"
NAME_BYTES_MAX = 64
LINK_CHARACTERS_MAX = 512
LINK_ITEMS_MAX = 128  # enough for an invitation, to recognise it in the error; a group link has 11
ADVERTISEMENT, GROUP = 1, 2


@dataclass(frozen=True, slots=True, repr=False)
class GroupLink:
    """Access to a group: `content_key` opens its messages; `seed` makes its sending key, None in a read-only link."""

    group: PublicKey
    content_key: bytes
    seed: bytes | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if len(self.content_key) != KEY_BYTES:
            raise ValueError(f"a content key has {KEY_BYTES} bytes, not {len(self.content_key)}")
        if self.seed is not None and SigningKey(self.seed).public != self.group:
            raise ValueError("the sending seed does not fit the group's key")

    def text(self) -> str:
        """Return the link as text, a secret of the group's members."""
        fields: dict[str, bytes | str] = {"grp": self.group, "key": self.content_key}
        if self.name is not None:
            fields["name"] = self.name
        if self.seed is not None:
            fields["seed"] = self.seed
        return SCHEME + urlsafe_b64encode(encode([GROUP, fields])).rstrip(b"=").decode()

    def read_only(self) -> GroupLink:
        return replace(self, seed=None)

    def __repr__(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        rights = "read only" if self.seed is None else "may send"
        return f"<group {name}{short(key_text('group', self.group))}, {rights}>"


def new_group(seed: bytes, content_key: bytes, name: str | None = None) -> GroupLink:
    """Return the link to a new group; `seed` and `content_key` are 32 random bytes each."""
    return GroupLink(SigningKey(seed).public, content_key, seed, _name(name))


def parse_link(text: str) -> GroupLink:
    """Return the group link that `text` holds; else raise `BadText`, which does not repeat its secrets."""
    text = text.strip()
    if text[: len(SCHEME)].lower() != SCHEME:
        raise _bad(f"it begins with neither {SCHEME} nor anything else that is known")
    if len(text) > LINK_CHARACTERS_MAX:
        raise _bad(f"it has {len(text)} characters; {LINK_CHARACTERS_MAX} are the most")
    value = _decode(text[len(SCHEME) :])
    try:
        kind, found = shape.array(value, "it", 2, 2)
        if shape.uint(kind, "its type") == ADVERTISEMENT:
            raise ValueError("it is an invitation to a node, for `router peer add`")
        if kind != GROUP:
            raise ValueError(f"it is of type {kind}, which this version does not know")
        return _group_link(found)
    except ValueError as error:
        raise _bad(str(error)) from None


def _group_link(value: Any) -> GroupLink:
    found = shape.fields(value, "it", ("grp", "key"), ("name", "seed"))
    return GroupLink(
        shape.checked_key(found["grp"], "grp"),
        shape.octets(found["key"], "key", KEY_BYTES),
        shape.octets(found["seed"], "seed", KEY_BYTES) if "seed" in found else None,
        _name(shape.text(found["name"], "name", NAME_BYTES_MAX)) if "name" in found else None,
    )


def _decode(text: str) -> Any:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if urlsafe_b64encode(raw).rstrip(b"=").decode() == text:
            return decode(raw, LINK_ITEMS_MAX)
    except ValueError:
        pass
    raise _bad("letters are missing or changed")


def _name(name: str | None) -> str | None:
    return clean(name, NAME_BYTES_MAX).strip() or None if name else None


def _bad(cause: str) -> BadText:
    return BadText(f"This is not a group link: {cause}. Copy the whole link again, from {SCHEME} to its last letter.")
