"""The keys that have the place of renewed ones at this node: who reads, speaks and has rights for which old address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import cbor2
from msgspec import Struct

from router.core.wire.renewal import Renewal, decode_renewal, encode_renewal
from router.core.wire.succession import KeySuccession, decode_succession, encode_succession

RENEWED, SUCCEEDED = b"k", b"s"
"""The kinds of the rows of renewed keys in the book of the store: of apps here, and of nodes."""
Statement = Renewal | KeySuccession
"""By which two keys say that one has taken the other's place: of an app, or of a node."""


class Successor(Struct, frozen=True):
    """`new` has the place of `old` here. Until the Unix second `until_s` it also has what comes to the old address.

    `arrival`: what arrived with a lower number was owed to the old key, and is told of by it. `statement`: by which
    both keys said so; `kind`: whose keys these are."""

    old: bytes
    new: bytes
    until_s: int
    arrival: int
    statement: bytes = b""
    kind: bytes = RENEWED

    @classmethod
    def of(cls, said: Statement, arrival: int) -> Successor:
        """Return what follows from a statement that is believed from that arrival number on."""
        kind = SUCCEEDED if isinstance(said, KeySuccession) else RENEWED
        wire = encode_succession(said) if isinstance(said, KeySuccession) else encode_renewal(said)
        return cls(bytes(said.old), bytes(said.new), said.until_s, arrival, wire, kind)

    @classmethod
    def from_row(cls, key: bytes, row: bytes) -> Successor:
        """Return the succession that the store has under the key: a kind, `RENEWED` or `SUCCEEDED`, and the old key."""
        statement, arrival = cbor2.loads(row)
        return cls.of(decode_succession(statement) if key[:1] == SUCCEEDED else decode_renewal(statement), arrival)

    @property
    def said(self) -> Statement:
        """Return the statement, read."""
        return decode_succession(self.statement) if self.kind == SUCCEEDED else decode_renewal(self.statement)

    def row(self) -> tuple[bytes, bytes]:
        """Return key and value of the row in the store."""
        return self.kind + self.old, cbor2.dumps([self.statement, self.arrival])


class Successors:
    """The successions in force, each old key's first one for good."""

    def __init__(self, them: Iterable[Successor] = ()) -> None:
        self._by_old: dict[bytes, Successor] = {}
        self._by_new: dict[bytes, Successor] = {}
        for one in them:
            self.add(one)

    def __repr__(self) -> str:
        return f"<successors of {len(self._by_old)} keys>"

    def __bool__(self) -> bool:
        return bool(self._by_old)

    def __iter__(self) -> Iterator[Successor]:
        return iter(self._by_old.values())

    def __contains__(self, key: bytes) -> bool:
        """Whether another key has this one's place."""
        return key in self._by_old

    def add(self, one: Successor) -> None:
        self._by_old[one.old] = self._by_new[one.new] = one

    def newest(self, key: bytes) -> bytes:
        """Return the key that has the place of this one now: itself, if it was not renewed."""
        while (one := self._by_old.get(key)) is not None:
            key = one.new
        return key

    def formers(self, key: bytes) -> list[bytes]:
        """Return the keys that this one has followed, the newest first."""
        found = list[bytes]()
        while (one := self._by_new.get(key)) is not None:
            found.append(key := one.old)
        return found

    def first(self, key: bytes) -> bytes:
        """Return the first of the keys that this one has followed: itself, if it has followed none."""
        return [key, *self.formers(key)][-1]

    def reader_of(self, old: bytes, now_s: int) -> bytes | None:
        """Return the key that has what comes to a renewed address, None if its time is over."""
        return self.newest(old) if now_s < self._by_old[old].until_s else None

    def speaks_for(self, new: bytes, old: bytes, now_s: int) -> bool:
        """Whether a key may bring what a renewed one has signed: it was under way, and its time is not over."""
        return self.newest(old) == new and now_s < self._by_old[old].until_s

    def owed_as(self, recipient: bytes, arrival: int) -> bytes:
        """Return the key to which the message with this arrival number was owed when it came: the log tells of its end
        by that key, so that beginning and end fit."""
        while (one := self._by_new.get(recipient)) is not None and arrival < one.arrival:
            recipient = one.old
        return recipient
