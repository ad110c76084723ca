"""The addresses with which an app exchanges unicasts, and what is known of each: its prekey, with its end, or that it
opens nothing that is sealed (pure). Times are minutes since 2020.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from router.client.sealing.own_prekeys import DAY_MIN, PrekeyLimits
from router.client.sealing.rows import CORRESPONDENTS, PrekeyRow
from router.core.wire import shape
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.crypto import PublicKey
from router.core.wire.prekey import PREKEY_ITEMS_MAX, Prekey, prekey_fields, read_prekey

_UNTIL = struct.Struct(">I")


class CorrespondentLimits(Struct, frozen=True):
    """`correspondents_max`: most addresses remembered; beyond that those go that have only written to this app, then
    those that were used longest ago, and are asked again. `plain_min`: how long an address is believed to open nothing
    that is sealed. `ask_again_min`: after this long without an answer an address is asked again. `answer_min`: how long
    an answer to a request is accepted."""

    correspondents_max: int = 10_000
    plain_min: int = DAY_MIN
    ask_again_min: int = 10
    answer_min: int = 9 * DAY_MIN


class Verdict(Enum):
    """What was decided about a prekey, or the wish for messages in the open, that came from an address."""

    TAKEN = "it is used from now on"
    KNOWN = "it is known already"
    OLDER = "it is older than the one that is known"
    EXPIRED = "it has expired; a clock may be wrong"
    TOO_FAR_AHEAD = "its end lies further ahead than any prekey's; a clock may be wrong"
    NOT_OWN = "it belongs to another address"
    FORGED = "it is not signed by its owner"
    NOT_ASKED = "nobody asked this address for it"
    STILL_SEALED = "it asks for messages in the open while a prekey of it is valid"

    @property
    def is_accepted(self) -> bool:
        return self in (Verdict.TAKEN, Verdict.KNOWN, Verdict.OLDER)


class Writing(Enum):
    """How to write to an address of which no prekey is known."""

    PLAIN = "in the open, as it has asked for"
    ASK = "ask it for a prekey first"
    WAIT = "it has been asked a moment ago"


class Correspondent(NamedTuple):
    """What is known of an address until a minute: its prekey, or that it opens nothing (`is_plain`), or that it was
    asked, in which case `until_min` says until when an answer is accepted."""

    until_min: int
    prekey: Prekey | None = None
    is_plain: bool = False

    def encode(self) -> bytes:
        prekey = None if self.prekey is None else prekey_fields(self.prekey)
        return _UNTIL.pack(self.until_min) + encode([self.is_plain, prekey])

    @classmethod
    def decode(cls, data: bytes) -> Correspondent:
        is_plain, prekey = shape.array(decode(data[_UNTIL.size :], 3 + PREKEY_ITEMS_MAX), "a correspondent", 2, 2)
        found = None if prekey is None else read_prekey(prekey)
        return cls(_until_of(data), found, shape.boolean(is_plain, "plain"))


class Correspondents:
    """The correspondents of one app, those used last at the end. `kept`: the rows that an earlier run has left;
    `written_to`: those of their addresses to which this app has ever written."""

    def __init__(
        self,
        kept: Iterable[tuple[bytes, bytes]] = (),
        limits: CorrespondentLimits | None = None,
        prekeys: PrekeyLimits | None = None,
        written_to: Collection[bytes] = (),
    ) -> None:
        self._limits = limits or CorrespondentLimits()
        self._prekeys = prekeys or PrekeyLimits()
        rows = [(PublicKey(key), value) for key, value in kept if len(value) > _UNTIL.size]
        rows.sort(key=lambda row: _until_of(row[1]))
        self._known: OrderedDict[PublicKey, Correspondent | bytes] = OrderedDict(rows)  # each is read when it is used
        self._strangers = OrderedDict.fromkeys(address for address, _ in rows if address not in written_to)

    def __repr__(self) -> str:
        return f"<{len(self._known)} correspondents>"

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, address: PublicKey) -> bool:
        """Whether anything is known of this address."""
        return address in self._known

    @property
    def addresses(self) -> list[PublicKey]:
        return list(self._known)

    def prekey_of(self, address: PublicKey, now_min: int) -> Prekey | Writing:
        """Return the prekey to seal with to this address, or how else to write to it."""
        found = self._find(address)
        if found is None or found.until_min <= now_min:
            return Writing.ASK
        self._use(address)
        if found.prekey is not None:
            return found.prekey
        if found.is_plain:
            return Writing.PLAIN
        asked_min = found.until_min - self._limits.answer_min
        return Writing.WAIT if asked_min <= now_min < asked_min + self._limits.ask_again_min else Writing.ASK

    def asked(self, address: PublicKey, now_min: int) -> list[PrekeyRow]:
        """Record that this address was asked for its prekey; return the rows to write."""
        found = self._find(address)
        if found is not None and found.until_min > now_min and (found.prekey is not None or found.is_plain):
            return []
        return self._keep(address, Correspondent(now_min + self._limits.answer_min))

    def not_asked(self, address: PublicKey) -> list[PrekeyRow]:
        """Record that a request has not come to this address; return the rows to write."""
        found = self._find(address)
        if found is None or found.prekey is not None or found.is_plain:
            return []
        return [self._forget(address)]

    def expects(self, address: PublicKey, now_min: int) -> list[PrekeyRow]:
        """Take a prekey that this address sends without being asked, but ask it if none comes; return the rows to
        write."""
        if address in self._known:
            return []
        return self._keep(address, Correspondent(now_min + self._limits.answer_min - self._limits.ask_again_min))

    def answered(self, address: PublicKey, prekey: Prekey | None, now_min: int) -> tuple[Verdict, list[PrekeyRow]]:
        """Judge what came from an address in answer to a request, also one that came late; return the rows to write.
        The answer is signed by that address."""
        found = self._find(address)
        if found is None or found.until_min <= now_min:
            return Verdict.NOT_ASKED, []
        if prekey is not None:
            return self.brought(address, prekey, now_min)
        if found.prekey is not None:
            return Verdict.STILL_SEALED, []
        if found.is_plain:
            return Verdict.KNOWN, []
        return Verdict.TAKEN, self._keep(address, Correspondent(now_min + self._limits.plain_min, is_plain=True))

    def brought(self, address: PublicKey, prekey: Prekey, now_min: int) -> tuple[Verdict, list[PrekeyRow]]:
        """Judge a prekey that came from an address, as inside a sealed message; return the rows to write."""
        found = self._find(address)
        known = found.prekey if found is not None else None
        if known == prekey:
            return Verdict.KNOWN, []
        until_min = prekey.until_min
        if prekey.owner != address:
            return Verdict.NOT_OWN, []
        if until_min is None or until_min <= now_min:
            return Verdict.EXPIRED, []
        if until_min > now_min + self._prekeys.ahead_min:
            return Verdict.TOO_FAR_AHEAD, []
        if known is not None and known.until_min is not None and known.until_min > until_min:
            return Verdict.OLDER, []
        if not prekey.verify():
            return Verdict.FORGED, []
        return Verdict.TAKEN, self._keep(address, Correspondent(until_min, prekey), is_used=False)

    def forget_ended(self, now_min: int) -> list[PrekeyRow]:
        """Forget what is no longer true; return the rows to write."""
        ended = [address for address, one in self._known.items() if _until_of(one) <= now_min]
        return [self._forget(address) for address in ended]

    def _find(self, address: PublicKey) -> Correspondent | None:
        found = self._known.get(address)
        if isinstance(found, bytes):
            try:
                found = self._known[address] = Correspondent.decode(found)
            except Malformed:  # of another version: it is asked again
                self._forget(address)
                return None
        return found

    def _keep(self, address: PublicKey, one: Correspondent, *, is_used: bool = True) -> list[PrekeyRow]:
        if address not in self._known and not is_used:
            self._strangers[address] = None
        self._known[address] = one
        if is_used:
            self._use(address)
        rows = [PrekeyRow(CORRESPONDENTS, address, one.encode())]
        while len(self._known) > self._limits.correspondents_max:
            stranger = next(iter(self._strangers), address)
            rows.append(self._forget(next(iter(self._known)) if stranger == address else stranger))
        return rows

    def _use(self, address: PublicKey) -> None:
        self._known.move_to_end(address)
        self._strangers.pop(address, None)

    def _forget(self, address: PublicKey) -> PrekeyRow:
        del self._known[address]
        self._strangers.pop(address, None)
        return PrekeyRow(CORRESPONDENTS, address, None)


def _until_of(one: Correspondent | bytes) -> int:
    return one.until_min if isinstance(one, Correspondent) else int(_UNTIL.unpack_from(one)[0])
