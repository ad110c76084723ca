"""The partial view of peer sampling: a few entries of other nodes, exchanged and merged as in Cyclon.

"CYCLON: Inexpensive Membership Management for Unstructured P2P Overlays" (Voulgaris, Gavidia, van Steen 2005).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Set
from typing import NamedTuple, Protocol

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance


class Advertised(Protocol):
    """A node's signed advertisement, verified before sampling sees it; it is passed on unchanged (R-D11).

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


class ViewLimits(Struct, frozen=True):
    """The size of the view, the greatest age in periods, and the entries of one public prefix (R-D21)."""

    size: int = 20
    age_max: int = 25
    of_prefix_max: int = 4


class View:
    """Entries by key: never the node's own, at most one for each key, and a few for each public prefix."""

    __slots__ = ("_entries", "_limits", "_own", "_prefixes")

    def __init__(self, own: PublicKey, limits: ViewLimits) -> None:
        self._own = own
        self._limits = limits
        self._entries: dict[PublicKey, ViewEntry] = {}
        self._prefixes = Counter[bytes]()

    def __repr__(self) -> str:
        return f"<view of {len(self._entries)}>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def keys(self) -> Set[PublicKey]:
        return self._entries.keys()

    @property
    def entries(self) -> tuple[ViewEntry, ...]:
        return tuple(self._entries.values())

    def grow_older(self, wall_s: float) -> None:
        """Age every entry by a period; drop those too old or expired."""
        entries, self._entries = self._entries, {}
        self._prefixes.clear()
        for key, (age, advert) in entries.items():
            if age < self._limits.age_max and advert.exp > wall_s:
                self._put(key, ViewEntry(age + 1, advert))

    def take_oldest(self, but: Container[PublicKey] = ()) -> ViewEntry | None:
        """Remove and return the oldest entry, except these keys; None if there is none."""
        entries = (entry for key, entry in self._entries.items() if key not in but)
        found = max(entries, key=lambda entry: entry.age, default=None)
        if found is not None:
            self._remove(found.advert.key)
        return found

    def pick(self, count: int, chance: Chance, but: Container[PublicKey] = ()) -> tuple[ViewEntry, ...]:
        """Return some entries at random, except these keys; they stay in the view."""
        entries = [entry for key, entry in self._entries.items() if key not in but]
        return tuple(chance.sample(entries, min(count, len(entries))))

    def among(self, keys: Iterable[PublicKey]) -> tuple[ViewEntry, ...]:
        """Return the entries of those of the keys that are here."""
        return tuple(self._entries[key] for key in dict.fromkeys(keys) if key in self._entries)

    def merge(self, received: Iterable[ViewEntry], sent: Iterable[ViewEntry]) -> None:
        """Fill empty places with received entries, then replace entries that were sent and did not come back.

        The youngest goes first: an old entry that both sides keep is soon asked, and disturbs the in-degrees little.
        """
        received = tuple(received)
        came = {entry.advert.key for entry in received}
        oldest_last = sorted(sent, key=lambda entry: entry.age)
        replaceable = [entry.advert.key for entry in oldest_last if entry.advert.key not in came]
        for entry in received:
            key = entry.advert.key
            if key == self._own or entry.age > self._limits.age_max:
                continue
            if key in self._entries:
                self._renew(key, entry)
            else:
                self._admit(key, entry, replaceable)

    def _renew(self, key: PublicKey, entry: ViewEntry) -> None:
        """Keep the greater revision, and of equal ones the lower age; drop a revision for whose prefix there is no
        room."""
        old = self._entries[key]
        if entry.advert.rev == old.advert.rev:
            self._entries[key] = ViewEntry(min(old.age, entry.age), old.advert)
        elif entry.advert.rev > old.advert.rev:
            self._remove(key)
            if not self._is_full(entry.advert.prefix):
                self._put(key, entry)

    def _admit(self, key: PublicKey, entry: ViewEntry, replaceable: list[PublicKey]) -> None:
        prefix = entry.advert.prefix
        is_full = self._is_full(prefix)
        if not is_full and len(self._entries) < self._limits.size:
            self._put(key, entry)
            return
        for sent in replaceable:
            old = self._entries.get(sent)
            if old is not None and (not is_full or old.advert.prefix == prefix):
                replaceable.remove(sent)
                self._remove(sent)
                self._put(key, entry)
                return

    def _is_full(self, prefix: bytes | None) -> bool:
        return prefix is not None and self._prefixes[prefix] >= self._limits.of_prefix_max

    def _put(self, key: PublicKey, entry: ViewEntry) -> None:
        self._entries[key] = entry
        if entry.advert.prefix is not None:
            self._prefixes[entry.advert.prefix] += 1

    def _remove(self, key: PublicKey) -> None:
        prefix = self._entries.pop(key).advert.prefix
        if prefix is not None:
            self._prefixes[prefix] -= 1
            if not self._prefixes[prefix]:
                del self._prefixes[prefix]
