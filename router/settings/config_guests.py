"""Writing guests into `router.toml`: what an invitation has granted becomes a `[[peers]]` block (R-D15).

Rights are added to a block that is there, never taken from it. A block has one end; a grant whose end cannot be written
into it without giving or taking something is left to the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from router.core.neighbours.directory import INVITED
from router.core.wire.crypto import PublicKey, digest
from router.settings.config import Config, rewrite
from router.settings.config_peers import AddPeer, Grant, Peer, UpdatePeer, changed, time_text
from router.settings.config_text import ConfigError, text_of
from router.settings.keyring import NAME_PATTERN

NAME_MAX = 60
_OWNER_WRITES = 0o200


class GuestGrant(Struct, frozen=True):
    """A grant to a key: its name, its rights, and the Unix second at which they end (0: never)."""

    key: PublicKey
    name: str
    rights: frozenset[str]
    until_s: int = 0


class Written(NamedTuple):
    """The result of writing guests. `keys`: those whose grants the file now holds, or that it blocks; `left`: those
    whose grants stay in the store."""

    keys: tuple[PublicKey, ...]
    left: tuple[PublicKey, ...]


def digest_of(path: Path) -> bytes:
    """Return the digest of the file's text; raise `ConfigError` if it cannot be read."""
    return digest(text_of(path).encode())


def check_writable(path: Path) -> None:
    """Raise `ConfigError` if the file may not be changed."""
    try:
        if not path.stat().st_mode & _OWNER_WRITES:
            raise ConfigError((f"{path} is read-only; allow its owner to write it, or write the blocks by hand",))
        is_writable = os.access(path.resolve().parent, os.W_OK)
    except OSError as error:
        raise ConfigError((f"{path} cannot be read: {error.strerror}; see that it may be",)) from None
    if not is_writable:
        raise ConfigError((f"{path} cannot be replaced; see that its directory may be written",))


def write_guests(path: Path, guests: Sequence[GuestGrant], expected: bytes, now_s: int) -> Written | None:
    """Write the guests into the file; return None and change nothing if its digest is not the expected one.

    Raises `ConfigError`.
    """
    found: list[Written | None] = [None]

    def write(text: str, config: Config) -> str:
        if digest(text.encode()) != expected:
            return text
        text, found[0] = with_guests(text, config, guests, now_s)
        return text

    rewrite(path, write)
    return found[0]


def with_guests(text: str, config: Config, guests: Sequence[GuestGrant], now_s: int) -> tuple[str, Written]:
    """Return the text with the guests' blocks, and which guests it holds."""
    peers = {one.address: one for one in config.peers}
    names = {*(one.name for one in config.peers), *(one.name for one in config.local)}
    left: dict[PublicKey, None] = {}
    for key, theirs in _by_key(guests).items():
        known = peers.get(key)
        if known is not None and known.blocked:
            continue
        wanted = known or Peer(address=key, name=free_name(theirs[0].name, names.__contains__), learned=INVITED)
        if known is not None and known == Peer(address=key, name=known.name):  # as a ban leaves it that was lifted
            wanted = replace(known, learned=INVITED)
        for one in theirs:
            more = _with_grant(wanted, one, now_s, is_new=wanted.address not in peers and wanted.grant == ())
            if more is None:
                left[key] = None
                break
            wanted = more
        else:
            if wanted != known:
                text = changed(text, AddPeer(wanted) if known is None else UpdatePeer(wanted))
                names.add(wanted.name)
    return text, Written(tuple(one for one in _by_key(guests) if one not in left), tuple(left))


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """Return a valid name derived from this one that is not taken; "" if it has no character that a name may have."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:NAME_MAX]
    if not re.fullmatch(NAME_PATTERN, plain):
        return ""
    return next(one for one in (plain, *(f"{plain}-{n}" for n in range(2, 1 << 20))) if not is_taken(one))


def _by_key(guests: Iterable[GuestGrant]) -> dict[PublicKey, list[GuestGrant]]:
    found: dict[PublicKey, list[GuestGrant]] = {}
    for one in guests:
        found.setdefault(one.key, []).append(one)
    return found


def _with_grant(known: Peer, more: GuestGrant, now_s: int, *, is_new: bool) -> Peer | None:
    """Return the block with the rights added; None if some rights in it would have to end at another time."""
    has, gets, ends_s, until_s = frozenset(known.grant), more.rights, known.until_s, more.until_s
    if is_new or 0 < ends_s <= now_s:
        return replace(known, grant=_sorted(gets), until=time_text(until_s))
    if ends_s == until_s:
        return replace(known, grant=_sorted(has | gets))
    outlasts = ends_s == 0 or 0 < until_s < ends_s
    if outlasts and gets <= has:
        return known
    if not outlasts and has <= gets:
        return replace(known, grant=_sorted(gets), until=time_text(until_s))
    return None


def _sorted(rights: Iterable[str]) -> tuple[Grant, ...]:
    known = set(rights)
    return cast(tuple[Grant, ...], tuple(one for one in ("join", "store", "relay", "why") if one in known))
