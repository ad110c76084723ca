"""Group links: one text with everything that a member needs to read a group, and perhaps to send to it (R-E7).

A link is `upsycle:` + base64url of enc([2, {"grp", "key", ?"name", ?"seed", ?"at"}]); a read-only link lacks the seed.
`at` names up to two routers that serve the group (R-C28). Anyone who has a link can read the group, so no error and no
repr shows one.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from . import shape
from .codec import encode
from .crypto import KEY_BYTES, PublicKey, SigningKey, digest
from .hint import HINTS_MAX, Hint, encoded_hints, read_hints
from .link_text import GROUP, changed_link, read_link, write_link
from .text import BadText, clean, key_text, short

NAME_BYTES_MAX = 64
CHECK_DIGITS = 6


class GroupLink(Struct, frozen=True):
    """Access to a group: `content_key` opens its messages; `seed` makes its sending key, None in a read-only link."""

    group: PublicKey
    content_key: bytes
    seed: bytes | None = None
    name: str | None = None
    hints: tuple[Hint, ...] = ()

    def __post_init__(self) -> None:
        if len(self.content_key) != KEY_BYTES:
            raise ValueError(f"a content key has {KEY_BYTES} bytes, not {len(self.content_key)}")
        if self.seed is not None and SigningKey(self.seed).public != self.group:
            raise ValueError("the sending seed does not fit the group's key")
        if len(self.hints) > HINTS_MAX:
            raise ValueError(f"a group link names at most {HINTS_MAX} routers, not {len(self.hints)}")

    def text(self) -> str:
        """Return the link as text, a secret of the group's members; raise `BadText` if hints make it too long."""
        fields: dict[str, Any] = {"grp": self.group, "key": self.content_key}
        if self.name is not None:
            fields["name"] = self.name
        if self.seed is not None:
            fields["seed"] = self.seed
        if self.hints:
            fields["at"] = encoded_hints(self.hints)
        return write_link(GROUP, encode(fields), leave_out="addresses of the routers that serve the group")

    def with_hints(self, hints: tuple[Hint, ...]) -> GroupLink:
        """Return the link with the first of these hints for which it has room."""
        for count in range(min(len(hints), HINTS_MAX), 0, -1):
            found = replace(self, hints=hints[:count])
            try:
                found.text()
            except BadText:
                continue
            return found
        return replace(self, hints=())

    def read_only(self) -> GroupLink:
        return replace(self, seed=None)

    @property
    def check(self) -> str:
        """Return a check of the group and its content key, for people to compare.

        A link has no checksum (R-C2): a changed letter may give the keys of another group, or one that opens nothing.
        """
        return digest(b"check of a group link" + self.group + self.content_key).hex()[:CHECK_DIGITS]

    def __repr__(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        rights = "read only" if self.seed is None else "may send"
        return f"<group {name}{short(key_text('group', self.group))}, {rights}>"


def new_group(seed: bytes, content_key: bytes, name: str | None = None) -> GroupLink:
    """Return the link to a new group; `seed` and `content_key` are 32 random bytes each."""
    return GroupLink(SigningKey(seed).public, content_key, seed, _name(name))


def parse_link(text: str) -> GroupLink:
    """Return the group link in `text`; else raise `BadText`, which does not repeat its secrets."""
    _, value = read_link(text, GROUP)
    try:
        found = shape.fields(value, "it", ("grp", "key"), ("name", "seed", "at"))
        key = shape.public_key if "seed" in found else shape.checked_key  # a key that a seed makes is a valid one
        return GroupLink(
            key(found["grp"], "grp"),
            shape.octets(found["key"], "key", KEY_BYTES),
            shape.octets(found["seed"], "seed", KEY_BYTES) if "seed" in found else None,
            link_name(found),
            read_hints(found["at"]) if "at" in found else (),
        )
    except ValueError as error:
        raise changed_link(GROUP, error) from None


def link_name(found: shape.Fields) -> str | None:
    """Return the printable name in the map of a link; None if there is none."""
    return _name(shape.text(found["name"], "name", NAME_BYTES_MAX)) if "name" in found else None


def _name(name: str | None) -> str | None:
    return clean(name, NAME_BYTES_MAX).strip() or None if name else None
