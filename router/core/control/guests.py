"""Letting guests in: invitations are made, redeemed and revoked here (R-D14, R-D15).

Use, grant and event commit in one transaction before a guest is told that it is let in. The grant is in force from that
moment; a guest that gets the right to join signs on again, as its link still has the narrow limits of strangers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct

from router.core.log import events as ev
from router.core.neighbours.directory import Neighbour, Standing
from router.core.neighbours.invitations import LEFT, WRITTEN, IssuedInvitation
from router.core.neighbours.terms import has_all, terms_of
from router.core.routing.admission import Admission
from router.core.routing.effects import GrantToWrite, LookAtFile, WriteGuests
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.invitation import RIGHTS
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.list_page import ListPage, page_of
from router.core.wire.now import Now
from router.core.wire.reasons import (
    INVITE_EXPIRED,
    INVITE_NO_ROOM,
    INVITE_REMOVED,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    Reason,
)
from router.core.wire.redemption import Redeem, Redeemed
from router.core.wire.text import key_text

from .part import Hears, Orders, Part, Refused
from .rights import Rights
from .terms_said import minute, ordered

INVITE, INVITES, UNINVITE, EXPEL = "invite", "invites", "uninvite", "expel"
WITH_GUESTS = "guests"
WRITE_AGAIN_S = 60.0
UNKNOWN_MAX = 3
"""Number of unknown secrets after which a link is closed."""
GUESTS_OF_ROW = 200
"""Most guests in a row of the list of invitations: in one answer, rows with as many fit, however long their names."""
GUESSED = "three secrets of invitations that this router has not made; ask its operator for another link"

Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Seconds = Annotated[int, Meta(ge=0, le=1 << 40)]


class _Invite(Struct, forbid_unknown_fields=True):
    id: Hex
    rights: Annotated[tuple[str, ...], Meta(min_length=1, max_length=len(RIGHTS))]
    until_s: Seconds
    uses: int = 1
    name: Annotated[str, Meta(max_length=64)] = ""
    grant_until_s: Seconds = 0


class FileLooked(NamedTuple):
    """The result of reading the configuration file: its digest, or why it cannot be changed."""

    digest: bytes
    problem: str = ""


class FileWritten(NamedTuple):
    """The outcome of `WriteGuests`: the keys whose grants the file holds, those whose grants do not fit their blocks,
    and the neighbours that it now names; or why nothing was written. `is_other`: the file had changed by then."""

    keys: tuple[PublicKey, ...] = ()
    left: tuple[PublicKey, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    problem: str = ""
    is_other: bool = False


class Guests(Part):
    """Carries out the operator's orders about invitations, and handles the secrets of guests.

    At `limits.guests_max` known neighbours nobody new is let in. `problem`: why the file cannot be written.
    `turned_away`: number of requests refused since the start, by the word of the reason; unknown secrets count as
    refused messages instead."""

    def __init__(self, kernel: Kernel, rights: Rights, admission: Admission) -> None:
        self._directory = kernel.directory
        self._invitations = kernel.book.invitations
        self._links = kernel.links
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._most = kernel.limits.guests_max
        self._say = kernel.speaker.say
        self._rights = rights
        self._admission = admission
        self._is_writing = False
        self._again_s = 0.0
        self.problem = ""
        self.turned_away: Counter[str] = Counter()

    def __repr__(self) -> str:
        return repr(self._invitations)

    # -- orders of the operator --------------------------------------------------------------------------------

    def _invite(self, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Invite)
        if unknown := set(said.rights) - set(RIGHTS):
            raise ValueError(f"{min(unknown)} is no right; there are {', '.join(RIGHTS)}")
        if said.until_s <= now.judged_s or 0 < said.grant_until_s <= now.judged_s:
            raise ValueError("its time would be over at once; choose a later end, or set the clock of the node right")
        one = IssuedInvitation(
            bytes.fromhex(said.id), frozenset(said.rights), said.uses, said.until_s, said.name, said.grant_until_s
        )
        self._rights.write([self._invitations.add(one)])
        self._log(one, "made", now, uses=one.uses, until_s=one.until_s)
        self._look_at_door(now)
        return {"invited": said.id}

    def _revoke(self, argument: str, now: Now) -> dict[str, Any]:
        """Revoke an invitation. If its guests go as well, their grants end here; the operator's command changes the
        file. Guests that are blocked are counted apart."""
        prefix, _, more = argument.partition(" ")
        one, removed = self._one(prefix), list[PublicKey]()
        if more == WITH_GUESTS:
            removed = [*one.guests]
            self._check_not_writing(removed)
            self._rights.rewrite(lambda: [row for key in removed for row in self._invitations.written(key)], now)
        if rows := self._invitations.revoke(one.id, now.judged_s):
            self._rights.write(rows)
            self._log(one, "revoked", now)
        named = [it.hex() for key in removed for it in (key, *self._directory.successors.formers(key))]
        blocked = sum(map(self._directory.is_blocked, one.guests))
        return {
            "revoked": one.id.hex(),
            "guests": len(one.guests) - blocked,
            "blocked": blocked,
            "removed": named,
        }

    def _expel(self, argument: str, now: Now) -> dict[str, Any]:
        """End the rights that a guest has by invitations and not by the file; the operator's command changes the
        file."""
        key = PublicKey(self._directory.successors.newest(bytes.fromhex(argument)))
        rights = [right for guest, _, one in self._invitations.owed() if guest == key for right in one.rights]
        self._check_not_writing([key])
        self._rights.rewrite(lambda: self._invitations.written(key), now)
        return {"expelled": key.hex(), "rights": ordered(rights)}

    def _check_not_writing(self, guests: Sequence[PublicKey]) -> None:
        """Raise `ValueError` if one of the guests is being written into the file, because its removal would be lost."""
        if self._is_writing and any(key in guests for key, _, _ in self._invitations.to_write()):
            raise ValueError("the guest is just being written into router.toml; run the command again")

    def _one(self, prefix: str) -> IssuedInvitation:
        found = self._invitations.find(prefix.lower()) if prefix else []
        if len(found) != 1:
            many = f"{len(found)} invitations have ids that begin" if found else "no invitation has an id that begins"
            raise ValueError(f'{many} with "{prefix[:64]}"; `router invite list` shows them')
        return found[0]

    def _list(self, argument: str, now: Now) -> ListPage | dict[str, str]:
        """List all invitations, one with many guests in several rows: each has the next `GUESTS_OF_ROW` of them."""
        parts = [(one, at) for one in self._invitations for at in range(0, len(one.guests) or 1, GUESTS_OF_ROW)]
        return page_of(parts, argument, lambda part: _row(*part, now.judged_s))

    # -- guests ------------------------------------------------------------------------------------------------

    def redeem(self, link: Link, said: Redeem, now: Now) -> Refused:
        """Let in the guest at the other end of the link, or tell it why not; return why its message is refused."""
        key = PublicKey(link.key)
        if link.standing is Standing.LOCAL or link.owner:
            return Reason.NOT_AUTHORISED, "an app of this node needs no invitation"
        found = self._invitations.redeem(
            said.secret,
            key,
            said.name or "",
            now.judged_s,
            None if self._has_room(key) else INVITE_NO_ROOM,
            lambda one: has_all(key, one.rights, one.grant_until_s, self._directory, self._invitations, now.judged_s),
        )
        if found.invitation is None:
            return self._unknown(link, said, now)
        one, row = found.invitation, found.row
        if (refused := found.refused or self._taken_back(one, key, now)) is not None:
            end_s = one.until_s if found.refused else one.grant_until_s
            if refused is INVITE_EXPIRED and end_s * SECOND_NS > now.earliest_ns:
                refused = Reason.CLOCK_DOUBTED
            self._say(link, Redeemed(said.secret, int(refused)), now)
            self.turned_away[refused.word] += 1
            if not self._rejections.counts(link.standing, "invite", now):
                self._log(one, "refused", now, peer=link.key, because=refused.word)
            return None
        rights, until_s = self._directory.grants(key) | one.rights, one.grant_until_s
        if key not in one.guests:  # it had them, and took no use
            until_s = terms_of(key, self._directory, self._invitations, now.judged_s).until_s
        had = key not in one.guests
        self._say(link, Redeemed(said.secret, None, ordered(rights), minute(until_s), had), now)
        if row is not None:
            self._log(one, "redeemed", now, peer=link.key, rights=",".join(sorted(one.rights)), left=one.left)
            self._rights.rewrite(lambda: [row], now)
        return None

    def _taken_back(self, one: IssuedInvitation, key: PublicKey, now: Now) -> Reason | None:
        """Return why a guest that was let in before has lost its rights; None if it has not."""
        guest = one.guests.get(key)
        if guest is None or guest.state != WRITTEN or one.rights <= self._directory.grants(key):
            return None
        if 0 < one.grant_until_s <= now.judged_s:
            return INVITE_EXPIRED
        return INVITE_REVOKED if one.revoked else INVITE_REMOVED

    def _has_room(self, key: bytes) -> bool:
        """Whether a key has a place among the neighbours that the file holds or is to hold, or one is free."""
        held = self._held()
        return key in held or len(held) < self._most

    def _held(self) -> set[bytes]:
        return {*self._directory.configured, *(bytes(key) for key, _, _ in self._invitations.owed())}

    def _unknown(self, link: Link, said: Redeem, now: Now) -> tuple[Reason, str]:
        self._say(link, Redeemed(said.secret, int(INVITE_UNKNOWN)), now)
        link.unknown_secrets += 1
        if link.unknown_secrets == UNKNOWN_MAX:
            self._admission.close(link, Reason.NOT_AUTHORISED, GUESSED, INVITE_UNKNOWN.word, now)
        return INVITE_UNKNOWN, ""

    # -- the configuration file ----------------------------------------------------------------------------------

    def started(self, file: bytes, now: Now) -> None:
        """Determine at a start which grants the file with this digest holds, and which were removed from it."""
        self._rights.rewrite(lambda: self._invitations.started(file, self._directory.configured), now)

    def _write_file(self, now: Now) -> None:
        """Begin to write all owed grants at once, if none are being written."""
        if not self._is_writing and now.mono_s >= self._again_s and any(self._invitations.to_write()):
            self._is_writing = True
            self._pending.effects.append(LookAtFile())

    def try_again(self) -> None:
        """Write again at the next tick, because the operator has just changed the file."""
        self._again_s = 0.0

    def looked(self, found: FileLooked, now: Now) -> None:
        """Record the digest of the file to be changed; the file is changed once that is committed."""
        grants = tuple(
            GrantToWrite(key, guest.name, one.rights, one.grant_until_s)
            for key, guest, one in self._invitations.to_write()
        )
        if found.problem or not grants:
            self._not_written(found.problem, now)
            return
        for key in dict.fromkeys(PublicKey(one.key) for one in grants):
            self._rights.write(self._invitations.begin(key, found.digest))
        self._pending.effects.append(WriteGuests(found.digest, grants))

    def file_written(self, found: FileWritten, now: Now) -> None:
        """Let the file alone decide about the grants that it holds now."""
        if found.problem or found.is_other:
            self._not_written(found.problem, now)
            return
        self._is_writing, self.problem = False, ""
        for key, _, one in self._invitations.owed():
            if key in found.keys:
                self._log(one, "written", now, peer=bytes(key))
        for key in found.left:
            self._rights.write(self._invitations.left(key))
        self._rights.configured(found.neighbours, now, found.keys)

    def _not_written(self, problem: str, now: Now) -> None:
        self._is_writing, self.problem = False, problem
        self._again_s = now.mono_s + (WRITE_AGAIN_S if problem else 0)
        self._rights.write(self._invitations.not_written())

    def facts(self) -> dict[str, Any]:
        """Return for `router status`: how many grants are not in the file yet, and why; how many never will be, because
        they end at another time than their block (`beside`); and the limit of neighbours if it is reached (`full`)."""
        unwritten, owed = sum(1 for _ in self._invitations.to_write()), sum(1 for _ in self._invitations.owed())
        full = self._most if len(self._held()) >= self._most else None
        return {"unwritten": unwritten, "problem": self.problem, "beside": owed - unwritten, "full": full}

    def formerly(self, key: bytes) -> tuple[str, str]:
        """Return the name of a guest that has no entry any more, "" if it has one or was none, and a sentence on it."""
        found = None if key in self._directory.neighbours else self._invitations.let_in(PublicKey(key))
        if found is None:
            return "", ""
        guest, one = found
        name = guest.name or key_text("addr", key)
        said = f"it was let in by the invitation {one.id.hex()[:8]} and has no entry here any more, so no rights"
        if self._directory.is_met(key):
            why = "it is still connected as a router that was met, because it has the link of a group that is read here"
        else:
            why = "it is still connected as a stranger, who may only redeem an invitation"
        return name, f"{said}; {why}; `router peer block {key_text('addr', key)}` shuts it out"

    # -- what happens by itself --------------------------------------------------------------------------------

    def began(self, now: Now) -> None:
        """Let strangers in at a start if an invitation of the store admits them."""
        self._directory.set_inviting(self._invitations.admits(now.judged_s))

    def tick(self, now: Now) -> None:
        """Forget invitations that ended long ago, and stop letting strangers in when no invitation admits them any
        more."""
        self._rights.write(self._invitations.forget(now.judged_s))
        self._write_file(now)
        self._look_at_door(now)

    def _look_at_door(self, now: Now) -> None:
        if not self._directory.set_inviting(self._invitations.admits(now.judged_s)):
            return
        self._rights.met([link.key for link in self._links if link.standing is Standing.STRANGER], now)

    def _log(self, one: IssuedInvitation, change: str, now: Now, **more: str | int | bytes) -> None:
        fields: ev.Fields = (("invitation", one.id), ("change", change), *more.items())
        self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "invite", fields))

    HEARS: ClassVar[Hears] = {Redeem: redeem}
    ORDERS: ClassVar[Orders] = {INVITE: _invite, INVITES: _list, UNINVITE: _revoke, EXPEL: _expel}


def _row(one: IssuedInvitation, first: int, now_s: int) -> dict[str, Any]:
    over = one.over(now_s)
    return {
        "id": one.id.hex(),
        "name": one.name,
        "grants": sorted(one.rights),
        "uses": one.uses,
        "used": len(one.guests),
        "guests": [
            {"address": key.hex(), "name": guest.name, "written": guest.state in (WRITTEN, LEFT)}
            for key, guest in islice(one.guests.items(), first, first + GUESTS_OF_ROW)
        ],
        "expires_s": one.until_s,
        "until_s": one.grant_until_s,
        "state": "open" if over is None else over.word.removeprefix("invite:"),
    }
