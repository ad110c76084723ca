"""What a pool holds and keeps: messages, standing queries, and whom it has told of what was displaced since.

What changes is kept by deeds, which commit together with the answer that tells of it. The rows are those of rows.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons

from . import rows
from .columns import Row
from .limits import PoolLimits, Profile
from .message import CapdMessage, rescind_hash_of
from .messages import MESSAGE_BYTES_MAX
from .pool import Known, Pool, Rejected, Taken
from .priority import LIFE_S
from .watches import Watch, Watches

TOLD_MAX = 100_000
"""So many messages that somebody was told of are remembered; beyond that, the one that came first is forgotten."""
BYTES_MAX = MESSAGE_BYTES_MAX - 128
"""Bytes of data and nonce at most, also under `compat`: a larger message could not be told of in a unicast."""
RESTORE_AT_ONCE = 1_024
"""Messages that are read from disk together at a start."""
SECRETS_MAX = 10_000
"""So many secrets that have ended messages are remembered; beyond that, the one that came first is forgotten."""


class Changes(Struct):
    """What was taken, and the secrets that have ended messages, for one who follows the holdings and takes it out."""

    taken: list[Row] = field(default_factory=list)
    secrets: list[bytes] = field(default_factory=list)

    def take(self) -> tuple[list[Row], list[bytes]]:
        """Return what has come since this was asked last."""
        found = self.taken, self.secrets
        self.taken, self.secrets = [], []
        return found


class Holdings:
    """The state of one node. `kept` shows what is on disk; a method that changes something yields the deeds for it."""

    def __init__(self, kept: Mapping[bytes, bytes], limits: PoolLimits, profile: Profile) -> None:
        self._kept = kept
        self.pool = Pool(limits, profile)
        self.watches = Watches()
        self._told: dict[bytes, int] = {}
        """Until when a message could come again of which somebody was told; also those that were displaced since."""
        self._unkept: dict[int, CapdMessage] = {}
        """Messages that were taken since `begin`, by their numbers: what keeps them is not carried out yet."""
        self._recent: dict[bytes, tuple[bytes, int]] = {}
        """Secrets that have ended messages, each with its hash, and until when others are told of it."""
        self._followers: list[Changes] = []
        self.has_room = True
        """Whether the disk takes more; without, nothing is taken that has to be kept."""

    def __repr__(self) -> str:
        return f"<Holdings: {self.pool!r}, {self.watches!r}>"

    def restore(self, now_s: int) -> Iterator[c.Deed]:
        """Take what was kept before. Raises `BadRow`."""
        if (state := self._kept.get(rows.STATE)) is None:
            yield c.Keep(rows.STATE, rows.encode_state(0))
        else:
            self.pool.last = rows.read_state(state)
        keys = sorted(self._kept)
        messages = [key for key in keys if key.startswith(rows.MESSAGE)]
        for at in range(0, len(messages), RESTORE_AT_ONCE):
            some = messages[at : at + RESTORE_AT_ONCE]
            for key, value in zip(some, c.kept_values(self._kept, some), strict=True):
                own_id, life, message = rows.read_kept(value)
                self.pool.restore(Row.of(rows.number_of(key), own_id, message, life), message, now_s)
        for key in keys:
            if key.startswith(rows.WATCH):
                self.watches.put(rows.watch_of(key), rows.read_until(self._kept[key]))
            elif key.startswith(rows.TOLD):
                self._told[rows.told_of(key)] = rows.read_until(self._kept[key])
            elif key.startswith(rows.SECRET):
                secret, until_s = rows.read_secret(self._kept[key])
                self._recent[secret] = rows.secret_hash_of(key), until_s

    # -- messages ------------------------------------------------------------------------------------------

    def message(self, row: Row) -> CapdMessage:
        """Return a message of the pool."""
        found = self._unkept.get(row.number)
        return found or rows.read_kept(self._kept[rows.message_key(row.number)]).message

    def begin(self) -> None:
        """Hear that all deeds that were yielded are carried out: `kept` shows what they keep."""
        self._unkept.clear()

    def add(self, message: CapdMessage, own_id: bytes, now_s: int) -> tuple[Taken | Known | Rejected, list[c.Deed]]:
        """Judge a message, and take it if nothing speaks against it; return the verdict, and what keeps it."""
        if (size := len(message.data) + len(message.nonce)) > BYTES_MAX:
            return Rejected(reasons.TOO_LARGE, f"{size} bytes; at most {BYTES_MAX}"), []
        if not self.has_room and self.pool.get(own_id) is None:
            return Rejected(Reason.DISK_FULL, "make room there; the pool answers what is asked meanwhile"), []
        verdict = self.pool.add(message, own_id, now_s)
        if not isinstance(verdict, Taken):
            return verdict, []
        kept = rows.encode_kept(rows.Kept(own_id, verdict.row.life, message))
        deeds: list[c.Deed] = [c.Keep(rows.message_key(one.row.number), None) for one in verdict.lost]
        deeds.append(c.Keep(rows.message_key(verdict.row.number), kept))
        deeds.append(c.Keep(rows.STATE, rows.encode_state(self.pool.last)))
        self._unkept[verdict.row.number] = message
        for one in self._followers:
            one.taken.append(verdict.row)
        return verdict, deeds

    def follow(self) -> Changes:
        """Return a list of changes, into which all that come from now on are put."""
        self._followers.append(found := Changes())
        return found

    def rescind(self, secret: bytes) -> tuple[list[Row], list[c.Deed]]:
        """End the messages that the secret rescinds; return them, and what keeps that."""
        own_hash = self._recent[secret][0] if secret in self._recent else rescind_hash_of(secret)
        ended = self.pool.rescind(own_hash)
        deeds = self._ends(ended)
        if ended:
            deeds += self._remember(secret, own_hash, max(row.create_time for row in ended) + LIFE_S)
        return ended, deeds

    def expire_messages(self, now_s: int) -> tuple[list[Row], list[c.Deed]]:
        """End the messages whose own expiration has come; return them, and what keeps that."""
        ended = self.pool.expire(now_s)
        return ended, self._ends(ended)

    def _ends(self, ended: list[Row]) -> list[c.Deed]:
        return [
            c.Keep(rows.message_key(row.number), rows.encode_kept(rows.Kept(row.id, row.life, self.message(row))))
            for row in ended
        ]

    def _remember(self, secret: bytes, own_hash: bytes, until_s: int) -> Iterator[c.Deed]:
        for one in self._followers:
            one.secrets.append(secret)
        self._recent[secret] = own_hash, until_s
        yield c.Keep(rows.SECRET + own_hash, rows.encode_secret(secret, until_s))
        if len(self._recent) > SECRETS_MAX:
            oldest, _ = self._recent.pop(next(iter(self._recent)))
            yield c.Keep(rows.SECRET + oldest, None)

    def knows_secret(self, secret: bytes) -> bool:
        """Whether the secret has ended messages, and is remembered for that."""
        return secret in self._recent

    def recent_secrets(self) -> list[bytes]:
        """Return the secrets of messages that others may still hold live, as far as they are remembered; the latest
        come last."""
        return sorted(self._recent, key=lambda secret: self._recent[secret][1])

    # -- standing queries ----------------------------------------------------------------------------------

    def watch(self, watch: Watch, until_s: int) -> Iterator[c.Deed]:
        """Take a standing query."""
        self.watches.put(watch, until_s)
        yield c.Keep(rows.watch_key(watch), rows.encode_until(until_s))

    def unwatch(self, watch: Watch) -> list[c.Deed]:
        """Remove a standing query; nothing follows if there is none."""
        return [c.Keep(rows.watch_key(watch), None)] if self.watches.remove(watch) else []

    def was_told(self, own_id: bytes) -> bool:
        """Whether somebody was told of this message before it was displaced."""
        return own_id in self._told

    def told(self, row: Row) -> Iterator[c.Deed]:
        """Remember that somebody was told of a message, as long as it can come again."""
        self._told[row.id] = until_s = row.create_time + LIFE_S
        yield c.Keep(rows.TOLD + row.id, rows.encode_until(until_s))
        if len(self._told) > TOLD_MAX:
            oldest = next(iter(self._told))
            del self._told[oldest]
            yield c.Keep(rows.TOLD + oldest, None)

    def expire(self, now_s: int) -> Iterator[c.Deed]:
        """Forget standing queries that are over, and messages that cannot come again."""
        for watch in self.watches.expire(now_s):
            yield c.Keep(rows.watch_key(watch), None)
        for own_id in [one for one, until_s in self._told.items() if until_s <= now_s]:
            del self._told[own_id]
            yield c.Keep(rows.TOLD + own_id, None)
        for secret in [one for one, (_, until_s) in self._recent.items() if until_s <= now_s]:
            own_hash, _ = self._recent.pop(secret)
            yield c.Keep(rows.SECRET + own_hash, None)
