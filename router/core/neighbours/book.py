"""Entries by services of this node: neighbours they learned or announced, and rights they granted, each with an end.

The book exists beside the configuration, which takes precedence and which a reload replaces. Each entry is a row of the
store, so it survives a restart; it ends at once when it is withdrawn, its time is over, or its uses are used up.
Invitations are here as well: their grants are in force by the book until the configuration has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import cbor2
from msgspec import Struct
from msgspec.structs import replace

from .advertisements import SAMPLED, Advertisements, Entry
from .agreements import AGREED
from .directory import CONFIG, HINT, INVITED, LAN, Neighbour
from .invitations import INVITED as INVITATION
from .invitations import Invitations
from .whereabouts import WHEREABOUTS, KnownWhereabouts, urls_said

LEARNED, GRANTED, NOTED, REVISION, ADVERTISED = b"l", b"g", b"n", b"r", b"a"
OF_SERVICES = (LEARNED, GRANTED, NOTED, ADVERTISED, AGREED)
"""The kinds of rows that name a service; they go with it."""
ENTRIES_MAX = 4096
"""The most grants of one service; a further one is refused."""


class Learned(Struct, frozen=True):
    """A neighbour that the service `by` has learned, valid until the Unix second `until_s`. `how`: that service's word
    for the way it was learned."""

    by: bytes
    key: bytes
    name: str
    urls: tuple[str, ...]
    until_s: int
    how: str = ""


class Granted(Struct, frozen=True):
    """Rights that the service `by` has granted to a key. `left`: how many more times the key may sign on with them;
    None: no limit."""

    by: bytes
    key: bytes
    rights: frozenset[str]
    until_s: int
    left: int | None


Row = tuple[bytes, bytes | None]
"""Key and value of a row in the store; the value None deletes the row."""


def move_services(
    rows: Sequence[tuple[bytes, bytes]], rotated: Mapping[bytes, bytes]
) -> tuple[list[tuple[bytes, bytes]], list[Row]]:
    """Return the rows of the store with those of services by their present keys, and the changes that make it so.
    `rotated`: these keys by the former ones."""
    found, changed = list[tuple[bytes, bytes]](), list[Row]()
    for key, value in rows:
        new = rotated.get(key[1:33]) if key[:1] in OF_SERVICES else None
        if new is not None:
            changed.append((key, None))
            key = key[:1] + new + key[33:]
            changed.append((key, value))
        found.append((key, value))
    return found, changed


class Book:
    """The entries by service and key, `learned_max` neighbours at most, and as many advertisements; its methods return
    changes as rows for the store."""

    def __init__(self, learned_max: int) -> None:
        self.learned_max = learned_max
        self.advertisements = Advertisements(learned_max)
        self.learned: dict[tuple[bytes, bytes], Learned] = {}
        self.granted: dict[tuple[bytes, bytes], Granted] = {}
        self.noted: dict[bytes, tuple[bytes, int]] = {}  # by service: the epoch of its state, the last event in the log
        self.advert_rev = 0  # the greatest revision of an advertisement of this router
        self.invitations = Invitations()
        self.whereabouts = KnownWhereabouts()
        self.damaged_whereabouts: Sequence[bytes] = ()
        self._names: Mapping[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<book: {len(self.learned)} neighbours learned, {len(self.granted)} grants>"

    def load(self, rows: Sequence[tuple[bytes, bytes]], services: Mapping[bytes, str]) -> list[Row]:
        """Load those rows of the store that are of this book's kinds; return the deletions of those whose service is no
        longer configured."""
        self._names = services
        gone: list[Row] = []
        self.invitations.load(row for row in rows if row[0][:1] == INVITATION)
        self.damaged_whereabouts = self.whereabouts.load(rows)
        gone += [(WHEREABOUTS + router, None) for router in self.damaged_whereabouts]
        for key, value in rows:
            kind, by, of = key[:1], key[1:33], key[33:]
            if kind == REVISION:
                self.advert_rev = cbor2.loads(value)
            elif kind in OF_SERVICES and by not in services:
                gone.append((key, None))
            elif kind == LEARNED:
                name, urls, until_s, *how = cbor2.loads(value)
                self.learned[by, of] = Learned(by, of, name, tuple(urls), until_s, *how)
            elif kind == ADVERTISED:
                self.advertisements.load(by, value)
            elif kind == GRANTED:
                rights, until_s, left = cbor2.loads(value)
                self.granted[by, of] = Granted(by, of, frozenset(rights), until_s, left)
            elif kind == NOTED:
                epoch, last = cbor2.loads(value)
                self.noted[by] = epoch, last
        return gone

    # -- changes -------------------------------------------------------------------------------------------

    def learn(self, one: Learned, now_s: int) -> Row:
        """Enter a learned neighbour, or delete it if its time has passed."""
        place = one.by, one.key
        if one.until_s <= now_s:
            self.learned.pop(place, None)
            return LEARNED + one.by + one.key, None
        self.learned[place] = one
        return LEARNED + one.by + one.key, cbor2.dumps([one.name, list(one.urls), one.until_s, one.how])

    def hear(self, one: Entry, is_connected: Callable[[bytes], bool]) -> tuple[list[Entry], list[Row]]:
        """Enter an advertisement; return the entries that it replaces, and the rows."""
        is_news = self.advertisements.is_news(one)
        gone = self.advertisements.hear(one, is_connected)
        own: list[Row] = [(ADVERTISED + one.by + one.router, one.encoded())] if is_news else []
        return gone, [*own, *map(_deleted, gone)]

    def adverts_over(self, now_s: int) -> tuple[list[Entry], list[Row]]:
        """Forget the advertisements whose time has passed; return these, and the rows."""
        gone = self.advertisements.take_over(now_s)
        return gone, list(map(_deleted, gone))

    def grant(self, one: Granted, now_s: int) -> Row:
        """Enter a grant, or delete it if it gives nothing any more."""
        place = one.by, one.key
        if one.until_s <= now_s or not one.rights or (one.left is not None and one.left < 0):
            self.granted.pop(place, None)
            return GRANTED + one.by + one.key, None
        self.granted[place] = one
        return GRANTED + one.by + one.key, cbor2.dumps([sorted(one.rights), one.until_s, one.left])

    def move_grants(self, key: bytes, to: bytes) -> list[Row]:
        """Give the rights that were granted to a renewed key to the key that has its place."""
        return [
            row
            for one in self._grants_of(key)
            for row in (self.grant(replace(one, rights=frozenset()), 0), self.grant(replace(one, key=to), 0))
        ]

    def note(self, by: bytes, epoch: bytes, last: int) -> Row:
        """Record that the log holds the events of a service up to number `last` of its state `epoch`."""
        self.noted[by] = epoch, last
        return NOTED + by, cbor2.dumps([epoch, last])

    def last_noted(self, by: bytes, epoch: bytes) -> int:
        """Return the number of the last event of a service's state `epoch` that the log holds; 0 if there is none."""
        known, last = self.noted.get(by, (epoch, 0))
        return last if known == epoch else 0

    def next_revision(self, now_ms: int) -> tuple[int, Row]:
        """Return the revision of the next advertisement of this router: Unix milliseconds, and always a greater one.

        It is in the store before the advertisement is seen outside, so it never goes back (R-D24)."""
        self.advert_rev = max(self.advert_rev + 1, now_ms)
        return self.advert_rev, (REVISION, cbor2.dumps(self.advert_rev))

    def takes_learned(self, by: bytes, key: bytes) -> bool:
        """Whether a service may enter this neighbour: it has it already, or fewer than `learned_max`."""
        return (by, key) in self.learned or len(self.learned) < self.learned_max

    def takes_grant(self, by: bytes, key: bytes) -> bool:
        """Whether a service may grant rights to this key: it has done so already, or for fewer than `ENTRIES_MAX`
        keys."""
        return (by, key) in self.granted or sum(place[0] == by for place in self.granted) < ENTRIES_MAX

    def signed_on(self, key: bytes, now_s: int) -> list[Row]:
        """Take one use of each of a key's limited grants when it signs on."""
        return [
            self.grant(replace(one, left=one.left - 1), now_s) for one in self._grants_of(key) if one.left is not None
        ]

    def signed_off(self, key: bytes, now_s: int) -> list[Row]:
        """End a key's grants without a use left when it signs off."""
        return [self.grant(replace(one, left=-1), now_s) for one in self._grants_of(key) if one.left == 0]

    def over(self, now_s: int) -> list[Row]:
        """Delete the entries whose time is over."""
        learned = [one for one in self.learned.values() if one.until_s <= now_s]
        granted = [one for one in self.granted.values() if one.until_s <= now_s]
        return [
            *(self.learn(one, now_s) for one in learned),
            *(self.grant(one, now_s) for one in granted),
            *self.invitations.ended(now_s),
        ]

    def ends_s(self) -> Iterator[int]:
        """Yield the Unix second at which each entry with an end ends."""
        yield from (one.until_s for one in self.learned.values())
        yield from (one.until_s for one in self.granted.values())
        yield from (one.grant_until_s for _, _, one in self.invitations.owed() if one.grant_until_s)

    def used_up(self) -> list[Row]:
        """End the grants without a use left at a start, when no key is signed on."""
        return [self.grant(replace(one, left=-1), 0) for one in [*self.granted.values()] if one.left == 0]

    def _grants_of(self, key: bytes) -> list[Granted]:
        return [one for one in self.granted.values() if one.key == key]

    # -- reading -------------------------------------------------------------------------------------------

    def neighbours(
        self, configured: Mapping[bytes, Neighbour], now_s: int, *, on_loopback: bool = False
    ) -> dict[bytes, Neighbour]:
        """Return all neighbours: the configured ones, with rights granted in addition, guests, and those added by
        services.

        A configured one whose time is over is left out, unless it is blocked. `on_loopback`: this node is reached on
        its own machine only, so loopback addresses count (R-D12)."""
        found = {key: one for key, one in configured.items() if one.blocked or not 0 < one.until_s <= now_s}
        for key, more in self._entries(on_loopback):
            known = found.get(key)
            if known is None:
                found[key] = more
            elif not known.blocked:
                learned = known.learned not in (CONFIG, INVITED)
                found[key] = replace(
                    known,
                    grants=known.grants | more.grants,
                    urls=(known.urls or more.urls) if learned else known.urls,
                    name=known.name or (more.name if learned else ""),
                    doubted=known.doubted if known.urls or not learned else more.doubted,
                    until_s=max(known.until_s, more.until_s) if learned else known.until_s,
                )
        for key, one in found.items():
            is_chosen = one.urls and one.learned in (CONFIG, INVITED)
            if is_chosen and (said := self._said_urls(one, now_s, on_loopback=on_loopback)):
                found[key] = replace(one, said_urls=said)
        return found

    def _said_urls(self, known: Neighbour, now_s: int, *, on_loopback: bool) -> tuple[str, ...]:
        """Return where a chosen neighbour is by its own word: its whereabouts, then its advertisement."""
        said, advert = self.whereabouts.addresses_of(known.key, now_s), self.advertisements.get(known.key)
        more = () if advert is None else advert.addresses
        return urls_said((*said, *more), known.urls, on_loopback=on_loopback) if said or more else ()

    def _entries(self, on_loopback: bool) -> Iterator[tuple[bytes, Neighbour]]:
        for key, guest, of in self.invitations.owed():
            yield key, Neighbour(key, guest.name, of.rights, learned=INVITED, until_s=of.grant_until_s)
        for one in self.learned.values():
            yield (
                one.key,
                Neighbour(
                    one.key,
                    f'"{one.name}"' if one.name and one.how == LAN else one.name,
                    urls=one.urls,
                    learned=one.how or self._names[one.by],
                    until_s=one.until_s,
                    doubted=one.how in (HINT, LAN),
                    by=one.by,
                ),
            )
        for said in self.advertisements:
            urls = said.urls(on_loopback=on_loopback)
            yield said.router, Neighbour(said.router, urls=urls, learned=SAMPLED, until_s=said.until_s, doubted=True)
        for granted in self.granted.values():
            yield (
                granted.key,
                Neighbour(
                    granted.key,
                    "",
                    granted.rights,
                    learned=self._names[granted.by],
                    until_s=granted.until_s,
                    by=granted.by,
                ),
            )


def _deleted(one: Entry) -> Row:
    return ADVERTISED + one.by + one.router, None
