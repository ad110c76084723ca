"""Where chosen neighbours are reached by their own word, and where this router says that it is reached itself.

Of each router the newest statement is kept that its key has signed (cddl/whereabouts.cddl): a row of the book, never of
`router.toml`. An address in it is dialled after those that the configuration names, within a budget of its own, and
the link proves the key: a wrong one costs a dial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import cbor2

from router.core.wire.address import (
    AddressSource,
    Reach,
    TransportAddress,
    WebSocketAddress,
    parse_address,
    reach_of,
    refusal_of,
)
from router.core.wire.codec import Malformed
from router.core.wire.reasons import ADVERT_ADDRESS, ADVERT_STALE, Reason
from router.core.wire.text import BadText
from router.core.wire.whereabouts import PLACES_MAX, DatedAddress, Whereabouts, decode_whereabouts

WHEREABOUTS = b"w"
"""The kind of the rows of whereabouts in the book of the store."""
VERSION = 1
HERE_MAX = PLACES_MAX - 1
"""How many of its present addresses a router names, so that there is room for one where it will be or was."""
STAYS_S = 30 * 86_400
"""How long a router still names an address at which it is no more, after the next one began to count."""
AHEAD_S = 86_400
"""How far ahead a statement may be signed: clocks may differ by a day, and a greater revision would shut out all later
ones."""

Refusal = tuple[Reason, str]
Row = tuple[bytes, bytes | None]


class KnownWhereabouts:
    """The newest statement of each router; that of this router is among them. Its owner forgets those of routers that
    are no neighbours any more, so there are as many as neighbours are configured, each of at most 1 KiB."""

    def __init__(self) -> None:
        self._by_router: dict[bytes, Whereabouts] = {}
        self._formers: Callable[[bytes], Sequence[bytes]] = lambda key: ()

    def __repr__(self) -> str:
        return f"<whereabouts of {len(self._by_router)} routers>"

    def __iter__(self) -> Iterator[Whereabouts]:
        return iter(self._by_router.values())

    def of(self, router: bytes) -> Whereabouts | None:
        return self._by_router.get(router)

    def latest(self, router: bytes) -> Whereabouts | None:
        """Return what a router has said by its present key, or else by the newest of those that it had."""
        return next((said for key in (router, *self._formers(router)) if (said := self.of(key)) is not None), None)

    def ask_formers(self, formers: Callable[[bytes], Sequence[bytes]]) -> None:
        """Let what a router has said by an earlier key count until it says something by its present one. `formers`
        returns the keys that one has followed, the newest first."""
        self._formers = formers

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        """Load the rows of this kind; return the routers whose row is damaged, or of a version that is not known. These
        are left out."""
        damaged = []
        for key, value in rows:
            if key[:1] == WHEREABOUTS:
                found = _from_row(key[1:], value)
                if found is None:
                    damaged.append(key[1:])
                else:
                    self._by_router[key[1:]] = found
        return damaged

    def judge(self, said: Whereabouts, now_s: int, held: Whereabouts | None = None) -> Refusal | None:
        """Return why a statement does not count, or None: it is news, or the known one. `held`: a newer one than the
        known one, which is not entered yet."""
        known = held or self.of(said.router)
        if known is not None and known.wire == said.wire:
            return None
        if known is not None and said.rev <= known.rev and not _is_ahead(known, now_s):
            newer = f"whereabouts of that router with the revision {known.rev} are known"
            return ADVERT_STALE, f"{newer}; these have {said.rev}"
        if _is_ahead(said, now_s):
            ahead = "it is signed more than a day ahead of the clock here"
            return Reason.EXPIRY_TOO_FAR, f"{ahead}; set the one that is wrong"
        if not said.verify():
            return Reason.BAD_SIGNATURE, "the whereabouts are not signed by the router that they are about"
        return None

    def next_rev(self, router: bytes, now_s: int) -> int:
        """Return the revision of a router's next statement: a greater one than that of its last, unless that was signed
        by a clock that was so far ahead that nobody has taken it."""
        known = self.of(router)
        after = 0 if known is None or _is_ahead(known, now_s) else known.rev + 1
        return max(after, now_s * 1000)

    def put(self, said: Whereabouts) -> Row:
        """Enter a statement in place of the known one; return its row."""
        self._by_router[said.router] = said
        return WHEREABOUTS + said.router, cbor2.dumps([VERSION, said.wire])

    def forget(self, router: bytes) -> Row:
        self._by_router.pop(router, None)
        return WHEREABOUTS + router, None

    def next_since_s(self, now_s: int) -> int | None:
        """Return the Unix second at which the next address begins to count; None if all do."""
        return min((one.since_s for said in self for one in said.places if one.since_s > now_s), default=None)

    def addresses_of(self, router: bytes, now_s: int) -> tuple[TransportAddress, ...]:
        """Return where a router is reached now by its own word."""
        said = self.latest(router)
        return () if said is None else tuple(one.address for one in said.places if one.since_s <= now_s)


def _is_ahead(said: Whereabouts, now_s: int) -> bool:
    """Whether a statement was signed further ahead of this time than clocks may differ."""
    return said.rev > (now_s + AHEAD_S) * 1000


def _from_row(router: bytes, value: bytes) -> Whereabouts | None:
    try:
        version, wire = cbor2.loads(value)
        found = decode_whereabouts(wire) if version == VERSION else None
    except (cbor2.CBORError, Malformed, ValueError, TypeError):
        return None
    return found if found is not None and found.router == router and found.verify() else None


def own_places(
    known: Sequence[DatedAddress], addresses: Sequence[TransportAddress], now_s: int
) -> tuple[DatedAddress, ...]:
    """Return the places that this router names, of those in its last statement and the first `HERE_MAX` of the
    addresses where it is now, the newest first. One where it is no more goes `STAYS_S` after the next one began to
    count."""
    here = addresses[:HERE_MAX]
    since = {one.address: one.since_s for one in known}
    places = [DatedAddress(one, since.get(one, now_s)) for one in here]
    times = sorted({one.since_s for one in (*places, *known)})
    old = (one for one in known if one.address not in here)
    places += [one for one in old if next((at for at in times if at > one.since_s), now_s) + STAYS_S > now_s]
    return most_useful(places, here)


def most_useful(places: Iterable[DatedAddress], addresses: Sequence[TransportAddress]) -> tuple[DatedAddress, ...]:
    """Return `PLACES_MAX` of the places at the most, the newest first: it, those where the router is, then others."""
    here = addresses[:HERE_MAX]
    by_age = sorted(places, key=lambda one: -one.since_s)
    first, rest = by_age[:1], by_age[1:]
    chosen = [*first, *sorted(rest, key=lambda one: one.address not in here)][:PLACES_MAX]
    return tuple(one for one in by_age if one in chosen)


def urls_said(
    addresses: Iterable[TransportAddress], configured: Sequence[str], *, on_loopback: bool
) -> tuple[str, ...]:
    """Return the URLs of addresses that a chosen neighbour says itself, without those that do not count."""
    found = dict.fromkeys(
        one.url
        for one in addresses
        if one.url not in configured and why_not_dialled(one, configured, on_loopback=on_loopback) is None
    )
    return tuple(found)


def why_not_dialled(at: TransportAddress, configured: Iterable[str], *, on_loopback: bool) -> Refusal | None:
    """Return why an address that a neighbour says itself is not dialled, None if it may be.

    `configured`: its URLs in the configuration; `on_loopback`: this node is reached on its own machine only. An address
    in a private network counts only if one of `configured` is there or on this machine, and one on loopback only if one
    of these is: else a router far away could have this node look for machines around it. One without TLS counts only if
    one of `configured` is so too: else a neighbour would decide that others read along."""
    configured = tuple(configured)
    reaches = {reach_of(one.host) for one in _addresses(configured)}
    if _is_plain(at) and not any(map(_is_plain, _addresses(configured))):
        return ADVERT_ADDRESS, f"{at} is without TLS, which counts only where an address in the configuration is so too"
    is_near = bool(reaches & {Reach.PRIVATE, Reach.LINK_LOCAL, Reach.LOOPBACK})
    source = AddressSource.NEIGHBOUR if is_near else AddressSource.ANYBODY
    return refusal_of(at, source, on_loopback=on_loopback or Reach.LOOPBACK in reaches)


def _addresses(urls: Iterable[str]) -> Iterator[TransportAddress]:
    for url in urls:
        with suppress(BadText):  # of this machine only, as a Unix socket
            yield parse_address(url)


def _is_plain(at: TransportAddress) -> bool:
    """Whether an address that others reach is without TLS."""
    return isinstance(at, WebSocketAddress) and at.is_plain and reach_of(at.host) is not Reach.LOOPBACK
