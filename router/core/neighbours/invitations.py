"""Invitations of this node: their secrets, the guests let in by them, and the grants that are not in the file yet
(R-D15).

A secret stays in the links that contain it; here an invitation is named by the secret's digest. Each use binds one key:
the same key gets the same answer again and takes no further use. Use and grant are one row of the store, so there is
never one without the other. A grant is in force from here until its `[[peers]]` block is written; after that the file
alone decides, and a block that the operator removes stays removed.

A block is written in two steps, so that a crash between them can be told apart from a removal: the row first names the
digest of the old file (`begun`), then the file changes. At the next start a file with that digest lacks the block,
which is then written; any other file has had it. A grant that does not fit its key's block, because they end at
different times, is in force from here until its end (`LEFT`), or until that block is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

import cbor2
from msgspec import Struct, field
from msgspec.structs import replace

from router.core.wire.crypto import PublicKey, digest
from router.core.wire.reasons import INVITE_EXPIRED, INVITE_REVOKED, INVITE_UNKNOWN, INVITE_USED_UP, Reason

INVITED = b"i"
"""The first byte of the keys of these rows in the store."""
INVITATIONS_MAX = 1_000
USES_MAX = 1_000
KEEP_S = 30 * 86_400
"""Seconds for which an ended invitation is still known, so that its end can be explained."""
HEARD_S = 86_400
"""Seconds after the end of an invitation during which strangers are still let in to be told of it."""
OWED, BEGUN, WRITTEN, LEFT = range(4)

Row = tuple[bytes, bytes | None]


class Guest(Struct, frozen=True):
    """A key that an invitation let in. `state`: whether the file has its grant; `begun`: digest of the file before the
    change."""

    name: str = ""
    state: int = OWED
    begun: bytes = b""


class IssuedInvitation(Struct, frozen=True):
    """An invitation by the digest of its secret. `until_s`: end of the invitation; `grant_until_s`: end of the grants
    that it gives, 0: none."""

    id: bytes
    rights: frozenset[str]
    uses: int
    until_s: int
    name: str = ""
    grant_until_s: int = 0
    revoked: bool = False
    guests: dict[PublicKey, Guest] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Return the number of keys that it may still let in."""
        return self.uses - len(self.guests)

    def over(self, now_s: int) -> Reason | None:
        """Return why it lets in nobody new; None if it does."""
        if self.revoked:
            return INVITE_REVOKED
        if self.until_s <= now_s:
            return INVITE_EXPIRED
        return INVITE_USED_UP if self.left <= 0 else None


class RedeemResult(Struct, frozen=True):
    """The answer to a secret: the reason why it is not valid, or the invitation and the rows for the store."""

    refused: Reason | None
    invitation: IssuedInvitation | None = None
    row: Row | None = None


class Invitations:
    """All invitations of this node, at most `INVITATIONS_MAX`; methods return changes as rows for the store."""

    def __init__(self) -> None:
        self._all: dict[bytes, IssuedInvitation] = {}

    def __repr__(self) -> str:
        return f"<{len(self._all)} invitations>"

    def __iter__(self) -> Iterator[IssuedInvitation]:
        return iter(self._all.values())

    def get(self, id: bytes) -> IssuedInvitation | None:
        return self._all.get(id)

    def find(self, prefix: str) -> list[IssuedInvitation]:
        """Return the invitations whose id, in hex, begins like this."""
        return [one for one in self if one.id.hex().startswith(prefix)]

    def admits(self, now_s: int) -> bool:
        """Whether strangers are let in far enough to redeem, or to be told why an invitation is over."""
        return any(one.until_s + HEARD_S > now_s for one in self)

    # -- changes -------------------------------------------------------------------------------------------

    def add(self, one: IssuedInvitation) -> Row:
        """Add an invitation; raise `ValueError` with a sentence if there is no room or it is known."""
        if one.id in self._all:
            raise ValueError("an invitation with this secret exists; make another one")
        if len(self._all) >= INVITATIONS_MAX:
            raise ValueError(f"there are {INVITATIONS_MAX} invitations; revoke some, or wait until some are over")
        if not 1 <= one.uses <= USES_MAX:
            raise ValueError(f"an invitation has 1 to {USES_MAX} uses, not {one.uses}")
        return self._put(one)

    def redeem(
        self,
        secret: bytes,
        key: PublicKey,
        name: str,
        now_s: int,
        full: Reason | None = None,
        has_all: Callable[[IssuedInvitation], bool] = lambda one: False,
    ) -> RedeemResult:
        """Let in the key that holds the secret, or return why not. `full`: why there is no room for a new guest;
        `has_all`: whether the key has an invitation's rights already, so that it takes no use."""
        one = self._all.get(digest(secret))
        if one is None:
            return RedeemResult(INVITE_UNKNOWN)
        if key in one.guests:
            return RedeemResult(None, one)
        refused = one.over(now_s)
        if refused in (None, INVITE_USED_UP) and has_all(one):
            return RedeemResult(None, one)
        if (refused := refused or full) is not None:
            return RedeemResult(refused, one)
        more = replace(one, guests={**one.guests, key: Guest(name)})
        return RedeemResult(None, more, self._put(more))

    def revoke(self, id: bytes, now_s: int) -> list[Row]:
        """Let in nobody new by it; its grants stay."""
        one = self._all.get(id)
        if one is None or one.revoked:
            return []
        return [self._put(replace(one, revoked=True, until_s=min(one.until_s, now_s)))]

    def begin(self, key: PublicKey, file: bytes) -> list[Row]:
        """Record, before the key's block is written, the digest of the file that is about to change."""
        return [self._mark(one, key, BEGUN, file) for one in [*self] if key in one.guests and not self._is_in(one, key)]

    def written(self, key: PublicKey) -> list[Row]:
        """Record that the file has the key's block, or that it was removed: from now on the file alone decides."""
        return [self._mark(one, key, WRITTEN) for one in [*self] if key in one.guests and not self._is_in(one, key)]

    def left(self, key: PublicKey) -> list[Row]:
        """Record that the key's grants do not fit its block: they are in force from here to their end."""
        return [self._mark(one, key, LEFT) for one in [*self] if key in one.guests and not self._is_in(one, key)]

    def move(self, key: PublicKey, to: PublicKey) -> list[Row]:
        """Let the key that has the place of a guest's be the guest."""
        return [
            self._put(replace(one, guests={to if guest == key else guest: it for guest, it in one.guests.items()}))
            for one in [*self]
            if key in one.guests
        ]

    def not_written(self) -> list[Row]:
        """Record that the file did not change: blocks that were begun are owed again."""
        return [self._mark(self._all[one.id], key, OWED) for key, guest, one in [*self.owed()] if guest.state == BEGUN]

    def started(self, file: bytes, configured: Container[bytes] = ()) -> list[Row]:
        """Determine at a start which begun blocks were written, which were begun on another file than the present one,
        and which keys whose grants did not fit their blocks have none any more."""
        found = []
        for key, guest, one in [*self.owed()]:
            if guest.state == BEGUN:
                found.append(self._mark(self._all[one.id], key, OWED if guest.begun == file else WRITTEN))
            elif guest.state == LEFT and key not in configured:
                found.append(self._mark(self._all[one.id], key, WRITTEN))
        return found

    def ended(self, now_s: int) -> list[Row]:
        """End the grants whose time is over before the file has them."""
        over = [(key, one) for key, _, one in [*self.owed()] if 0 < one.grant_until_s <= now_s]
        return [self._mark(self._all[one.id], key, WRITTEN) for key, one in over]

    def forget(self, now_s: int) -> list[Row]:
        """Delete the invitations that ended `KEEP_S` ago or earlier and whose grants are all in the file."""
        gone = [
            one for one in self if one.until_s + KEEP_S <= now_s and all(self._is_in(one, key) for key in one.guests)
        ]
        for one in gone:
            del self._all[one.id]
        return [(INVITED + one.id, None) for one in gone]

    @staticmethod
    def _is_in(one: IssuedInvitation, key: PublicKey) -> bool:
        return one.guests[key].state == WRITTEN

    def _mark(self, one: IssuedInvitation, key: PublicKey, state: int, begun: bytes = b"") -> Row:
        guest = replace(one.guests[key], state=state, begun=begun)
        return self._put(replace(one, guests={**one.guests, key: guest}))

    def _put(self, one: IssuedInvitation) -> Row:
        self._all[one.id] = one
        return INVITED + one.id, to_row(one)

    # -- reading -------------------------------------------------------------------------------------------

    def owed(self) -> Iterator[tuple[PublicKey, Guest, IssuedInvitation]]:
        """Yield each grant that is in force from here because the file does not have it yet."""
        for one in self:
            for key, guest in one.guests.items():
                if guest.state != WRITTEN:
                    yield key, guest, one

    def to_write(self) -> Iterator[tuple[PublicKey, Guest, IssuedInvitation]]:
        """Yield each grant that is to be written into the file."""
        return (each for each in self.owed() if each[1].state != LEFT)

    def let_in(self, key: PublicKey) -> tuple[Guest, IssuedInvitation] | None:
        """Return the invitation that let a key in, the latest if there are several; None if none did."""
        found = (one for one in reversed(self._all.values()) if key in one.guests)
        return next(((one.guests[key], one) for one in found), None)

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the rows of the store."""
        for key, value in rows:
            self._all[key[1:]] = from_row(key[1:], value)


def to_row(one: IssuedInvitation) -> bytes:
    guests = {bytes(key): [guest.name, guest.state, guest.begun] for key, guest in one.guests.items()}
    fields = [sorted(one.rights), one.uses, one.until_s, one.name, one.grant_until_s, one.revoked, guests]
    return cbor2.dumps(fields)


def from_row(id: bytes, value: bytes) -> IssuedInvitation:
    rights, uses, until_s, name, grant_until_s, revoked, guests = cbor2.loads(value)
    known = {PublicKey(key): Guest(*guest) for key, guest in guests.items()}
    return IssuedInvitation(id, frozenset(rights), uses, until_s, name, grant_until_s, revoked, known)
