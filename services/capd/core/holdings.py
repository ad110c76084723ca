"""The state of a pool: messages, standing queries, and the ids of messages that were already sent to askers.

Each change is kept by deeds, which are committed together with the answer that reports it. The rows are those of
rows.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons

from . import rows
from .columns import Row
from .limits import NONCE_BYTES_MAX, PoolLimits, Profile
from .message import CapdMessage, rescind_hash_of
from .messages import MESSAGE_BYTES_MAX
from .outside import Outside
from .pool import Known, Pool, Rejected, Taken
from .priority import LIFE_S
from .watches import StandingQuery, Watches

TOLD_MAX = 100_000
"""Most messages remembered as sent to askers; beyond it, the first one remembered is forgotten."""
BYTES_MAX = MESSAGE_BYTES_MAX - 128
"""Most bytes of data and nonce together, also under `compat`: a larger message would not fit the unicast that sends it
to an asker."""
RESTORE_AT_ONCE = 1_024
"""Messages that are read from disk together at a start."""
SECRETS_MAX = 10_000
"""Most secrets remembered for having ended messages; beyond it, the first one remembered is forgotten."""


def data_bytes_max(limits: PoolLimits, profile: Profile) -> int:
    """Return the most bytes of data that a pool takes in one message."""
    return limits.of_one if profile is Profile.STRICT else BYTES_MAX - NONCE_BYTES_MAX


class Changes(Struct):
    """The rows that were taken and the secrets that have ended messages, collected for a follower of the holdings."""

    taken: list[Row] = field(default_factory=list)
    secrets: list[bytes] = field(default_factory=list)

    def take_rows(self) -> list[Row]:
        """Return the rows that were taken since the last call, and remove them from the list."""
        found, self.taken = self.taken, []
        return found

    def take_secrets(self) -> list[bytes]:
        """Return the secrets that have ended messages since the last call, and remove them from the list."""
        found, self.secrets = self.secrets, []
        return found


class Holdings:
    """The state of one pool. `kept`: the rows on disk. A method that changes the state returns or yields the deeds that
    keep the change."""

    def __init__(self, kept: Mapping[bytes, bytes], limits: PoolLimits, profile: Profile) -> None:
        self._kept = kept
        self.pool = Pool(limits, profile)
        self.watches = Watches()
        self._told: dict[bytes, int] = {}
        """The ids of messages that were sent to askers, displaced ones too, each with the Unix second until which it
        can come again."""
        self._unkept: dict[int, CapdMessage] = {}
        """Messages taken since `begin`, by their numbers: the deeds that keep them are not carried out yet."""
        self._recent: dict[bytes, tuple[bytes, int]] = {}
        """Secrets that have ended messages, each with its hash and the Unix second until which it is passed on."""
        self._followers: list[Changes] = []
        self.outside = Outside()
        self._began_at = 0  # the last number that was given before the start
        self.has_room = True
        """Whether the disk has room; if it has none, nothing is accepted that must be kept."""

    def __repr__(self) -> str:
        return f"<Holdings: {self.pool!r}, {self.watches!r}>"

    def restore(self, now_s: int) -> Iterator[c.Deed]:
        """Load the rows that were kept; yield the deed that adds the state's row if there is none. Raise `BadRow`."""
        if (state := self._kept.get(rows.STATE)) is None:
            yield c.Put(rows.STATE, rows.encode_state(0))
        else:
            self.pool.last = self._began_at = rows.read_state(state)
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
        """Return the message of a row."""
        found = self._unkept.get(row.number)
        return found or rows.read_kept(self._kept[rows.message_key(row.number)]).message

    def is_waiting(self, row: Row) -> bool:
        """Whether nobody outside is known to have a message. Of one that was taken before the start it is known only if
        somebody has named it or was sent it since."""
        reach = self.outside.of(row.id)
        return row.number <= self._began_at if reach is None else not reach.taken_by

    def has_outside(self, ids: Iterable[bytes], by: str) -> None:
        """Record that a neighbour or a peer has messages: it was sent them, or has named them itself."""
        for own_id in ids:
            if self.outside.of(own_id) is None:
                row = self.pool.get(own_id)
                if row is None or row.number > self._began_at:
                    continue
                self.outside.posted(own_id)
            self.outside.taken((own_id,), by)

    def begin(self) -> None:
        """Forget the messages that waited to be kept: all deeds yielded so far are carried out, and `kept` has them."""
        self._unkept.clear()

    def add(self, message: CapdMessage, own_id: bytes, now_s: int) -> tuple[Taken | Known | Rejected, list[c.Deed]]:
        """Judge a message, and take it unless it is rejected; return the verdict, and the deeds that keep the
        change."""
        if (size := len(message.data) + len(message.nonce)) > BYTES_MAX:
            return Rejected(reasons.TOO_LARGE, f"{size} bytes; at most {BYTES_MAX}"), []
        if not self.has_room and self.pool.get(own_id) is None:
            return Rejected(Reason.DISK_FULL, "make room there; the pool answers what is asked meanwhile"), []
        verdict = self.pool.add(message, own_id, now_s)
        if not isinstance(verdict, Taken):
            return verdict, []
        kept = rows.encode_kept(rows.Kept(own_id, verdict.row.life, message))
        deeds: list[c.Deed] = [c.Put(rows.message_key(one.row.number), None) for one in verdict.lost]
        deeds.append(c.Put(rows.message_key(verdict.row.number), kept))
        deeds.append(c.Put(rows.STATE, rows.encode_state(self.pool.last)))
        self._unkept[verdict.row.number] = message
        for one in self._followers:
            one.taken.append(verdict.row)
        return verdict, deeds

    def follow(self) -> Changes:
        """Return a `Changes`, to which all later changes are added."""
        self._followers.append(found := Changes())
        return found

    def rescind(self, secret: bytes) -> tuple[list[Row], list[c.Deed]]:
        """End the messages that the secret rescinds; return their rows, and the deeds that keep the change."""
        own_hash = self._recent[secret][0] if secret in self._recent else rescind_hash_of(secret)
        ended = self.pool.rescind(own_hash)
        deeds = self._ends(ended)
        if ended:
            deeds += self._remember(secret, own_hash, max(row.create_time for row in ended) + LIFE_S)
        return ended, deeds

    def has_secret(self, secret: bytes) -> bool:
        """Whether the pool holds a message that the secret rescinds, or has rescinded."""
        return self.pool.holds_rescindable(rescind_hash_of(secret))

    def expire_messages(self, now_s: int) -> tuple[list[Row], list[c.Deed]]:
        """End the messages whose own expiration has come; return their rows, and the deeds that keep the change."""
        ended = self.pool.expire(now_s)
        return ended, self._ends(ended)

    def _ends(self, ended: list[Row]) -> list[c.Deed]:
        return [
            c.Put(rows.message_key(row.number), rows.encode_kept(rows.Kept(row.id, row.life, self.message(row))))
            for row in ended
        ]

    def _remember(self, secret: bytes, own_hash: bytes, until_s: int) -> Iterator[c.Deed]:
        for one in self._followers:
            one.secrets.append(secret)
        self._recent[secret] = own_hash, until_s
        yield c.Put(rows.SECRET + own_hash, rows.encode_secret(secret, until_s))
        if len(self._recent) > SECRETS_MAX:
            oldest, _ = self._recent.pop(next(iter(self._recent)))
            yield c.Put(rows.SECRET + oldest, None)

    def knows_secret(self, secret: bytes) -> bool:
        """Whether the secret is remembered for having ended messages."""
        return secret in self._recent

    def recent_secrets(self) -> list[bytes]:
        """Return the remembered secrets, whose messages other pools may still hold live; those that matter longest come
        last."""
        return sorted(self._recent, key=lambda secret: self._recent[secret][1])

    # -- standing queries ----------------------------------------------------------------------------------

    def watch(self, watch: StandingQuery, until_s: int) -> Iterator[c.Deed]:
        """Add a standing query, or move its end; yield the deed that keeps it."""
        self.watches.put(watch, until_s)
        yield c.Put(rows.watch_key(watch), rows.encode_until(until_s))

    def unwatch(self, watch: StandingQuery) -> list[c.Deed]:
        """Remove a standing query; return the deed that keeps the change, or none if there was no such query."""
        return [c.Put(rows.watch_key(watch), None)] if self.watches.remove(watch) else []

    def was_told(self, own_id: bytes) -> bool:
        """Whether this message has already been sent to askers."""
        return own_id in self._told

    def told(self, row: Row) -> Iterator[c.Deed]:
        """Record that a message was sent to askers, for as long as it can come again."""
        self._told[row.id] = until_s = row.create_time + LIFE_S
        yield c.Put(rows.TOLD + row.id, rows.encode_until(until_s))
        if len(self._told) > TOLD_MAX:
            oldest = next(iter(self._told))
            del self._told[oldest]
            yield c.Put(rows.TOLD + oldest, None)

    def expire(self, now_s: int) -> Iterator[c.Deed]:
        """Remove the standing queries that are over, and the records of messages and secrets that are no longer
        needed."""
        for watch in self.watches.expire(now_s):
            yield c.Put(rows.watch_key(watch), None)
        for own_id in [one for one, until_s in self._told.items() if until_s <= now_s]:
            del self._told[own_id]
            yield c.Put(rows.TOLD + own_id, None)
        for secret in [one for one, (_, until_s) in self._recent.items() if until_s <= now_s]:
            own_hash, _ = self._recent.pop(secret)
            yield c.Put(rows.SECRET + own_hash, None)
