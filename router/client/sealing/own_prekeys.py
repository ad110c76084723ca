"""An app's own prekeys: made and renewed, kept as long as something sealed to them may come, then forgotten (pure).

Times are minutes since 2020, as in `exp`. Nothing sealed to a prekey outlives it, because who seals cuts the message's
expiry to the prekey's end: so its secret is of no use afterwards, and goes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from router.client.sealing.rows import OWN_PREKEYS, PrekeyRow
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min, expiry_s
from router.core.wire.prekey import Prekey, make_prekey

DAY_MIN = 1440
MINUTE_S = 60  # the second in which a prekey was made is known to the minute

_NUMBER, _MADE_S = struct.Struct(">Q"), struct.Struct(">Q")


class PrekeyLimits(Struct, frozen=True):
    """`renew_min`: how long one prekey is given out. `life_min`: how long it can be sealed to: the seven days for which
    its owner may be away, and the day for which it was given out. `kept_max`: most secrets kept; beyond that the oldest
    go. `ahead_min`: how far the end of another's prekey may lie ahead, as clocks may be a day apart."""

    renew_min: int = DAY_MIN
    life_min: int = 8 * DAY_MIN
    kept_max: int = 8
    ahead_min: int = 9 * DAY_MIN


@dataclass(frozen=True, slots=True)
class OwnPrekey:
    """A prekey with its secret, the `number`-th of its owner, and the Unix second in which it was made."""

    number: int
    made_s: int
    prekey: Prekey
    seed: bytes = field(repr=False)

    @property
    def until_min(self) -> int:
        assert self.prekey.until_min is not None
        return self.prekey.until_min

    def row(self) -> PrekeyRow:
        return PrekeyRow(OWN_PREKEYS, _NUMBER.pack(self.number), _MADE_S.pack(self.made_s) + self.seed, is_secret=True)

    def no_row(self) -> PrekeyRow:
        return PrekeyRow(OWN_PREKEYS, _NUMBER.pack(self.number), None, is_secret=True)


class OwnPrekeys:
    """The prekeys of one app, the newest last. `kept`: the rows that an earlier run has left; `since_s`: since which
    Unix second the owner has its key."""

    def __init__(
        self,
        owner: SigningKey,
        kept: Iterable[tuple[bytes, bytes]] = (),
        limits: PrekeyLimits | None = None,
        since_s: int = 0,
    ) -> None:
        self._owner = owner
        self._since_s = since_s
        self._limits = limits or PrekeyLimits()
        self._all = [self._read(*row) for row in sorted(kept)]
        self._by_id = {one.prekey.id: one for one in self._all}

    def __repr__(self) -> str:
        return f"<{len(self._all)} own prekeys of {self._owner.public.hex()[:12]}…>"

    def __len__(self) -> int:
        return len(self._all)

    def _read(self, key: bytes, value: bytes) -> OwnPrekey:
        (number,), (made_s,), seed = _NUMBER.unpack(key), _MADE_S.unpack_from(value), value[_MADE_S.size :]
        prekey = make_prekey(self._owner, seed, expiry_min(made_s) + self._limits.life_min)
        return OwnPrekey(number, made_s, prekey, seed)

    @property
    def rows(self) -> list[tuple[bytes, bytes]]:
        """Return the rows in which they are kept."""
        return [(one.key, one.value) for one in map(OwnPrekey.row, self._all) if one.value is not None]

    def current(self) -> OwnPrekey | None:
        """Return the newest one; None if there is none."""
        return self._all[-1] if self._all else None

    def seed_of(self, prekey_id: bytes, now_min: int) -> bytes | None:
        """Return the secret that opens what was sealed to that prekey; None if it is not ours, or no longer."""
        found = self._by_id.get(prekey_id)
        return None if found is None or found.until_min <= now_min else found.seed

    def is_given_out_no_more(self, prekey_id: bytes, now_min: int) -> bool:
        """Whether that prekey is ours, and so old that who seals to it should get a newer one: what is sealed expires
        with the prekey."""
        found = self._by_id.get(prekey_id)
        return found is not None and found.until_min - now_min <= self._limits.life_min - self._limits.renew_min

    def is_due(self, now_min: int) -> bool:
        """Whether a new one is to be made: there is none, it is a day old, or the clock was ahead when it was made."""
        newest = self.current()
        if newest is None or newest.made_s + MINUTE_S <= self._since_s:
            return True
        left_min, limits = newest.until_min - now_min, self._limits
        return not limits.life_min - limits.renew_min < left_min <= limits.life_min

    def renew(self, now_min: int, seed: bytes) -> list[PrekeyRow]:
        """Make a new prekey of this secret, 32 random bytes; return the rows to write before it is given out."""
        number = self._all[-1].number + 1 if self._all else 0
        prekey = make_prekey(self._owner, seed, now_min + self._limits.life_min)
        made = OwnPrekey(number, expiry_s(now_min), prekey, seed)
        self._all.append(made)
        self._by_id[made.prekey.id] = made
        return [made.row(), *self.forget_ended(now_min), *self._drop(self._all[: -self._limits.kept_max])]

    def has_ended(self, now_min: int) -> bool:
        """Whether there is a prekey to forget."""
        return any(one.until_min <= now_min for one in self._all)

    def forget_ended(self, now_min: int) -> list[PrekeyRow]:
        """Forget the secrets whose prekeys have ended; return the rows to write."""
        return self._drop([one for one in self._all if one.until_min <= now_min])

    def _drop(self, gone: list[OwnPrekey]) -> list[PrekeyRow]:
        for one in gone:
            self._all.remove(one)
            self._by_id.pop(one.prekey.id, None)
        return [one.no_row() for one in gone]
