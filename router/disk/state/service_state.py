"""A service's durable state: an LMDB environment of its own, in `services/NAME/` of the home.

One transaction holds the values that the service keeps, its events, its outgoing messages and the ids it has handled.
So after `kill -9` its state and its events agree, no message is handled twice, and no outgoing message is lost: events
stay here until they are in the node's log, and messages until the router has them in custody.

    kept    key                       -> value
    secrets key                       -> value, sealed (router/disk/state/secrets.py); no key is in both tables
    events  number(8)                 -> JSON of an event that is not in the node's log yet
    outbox  number(8)                 -> CBOR [tag, message]: not in the router's custody yet
    heard   id(32)                    -> expiry minute(4) of a message that was handled
    meta    name                      -> epoch, numbers, version, id of the key to secrets; named groups: CBOR of the
                                         keys of the groups that were joined by name, {name: key(32)}
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import msgspec
from msgspec import Struct, field

from router.disk.state.environment import Environment, StateError, StateForm
from router.disk.state.secrets import Secrets

EVENTS_MAX = 10_000
"""Number of events waiting for the node's log at which the service waits before it handles more."""
SWEEP_MAX = 1_000
GOES_ON = "and the service goes on where it stopped"
FORM = StateForm(
    ("kept", "events", "outbox", "heard", "meta", "secrets"),
    1,
    "to begin anew, stop the node and move it away",
    GOES_ON,
)
NAMED_GROUPS_ROW = b"named groups"
_NUMBER, _MINUTE = struct.Struct(">Q"), struct.Struct(">I")


SMALL_ROWS, SMALL_BYTES = 160, 64 << 10
"""Most rows, and bytes of values and messages, in a batch that may be committed in the loop."""


class Batch(Struct):
    """The content of one transaction. `secret`: those keys of `kept` whose values are sealed; `forgets`: what was
    secret and is no longer kept cannot be read any more; `heard`: ids of messages with their expiry minutes; `sent`:
    numbers of messages that are in custody; `noted`: number of the last event that is in the node's log."""

    kept: dict[bytes, bytes | None] = field(default_factory=dict)
    secret: set[bytes] = field(default_factory=set)
    forgets: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    outbox: list[tuple[str, bytes]] = field(default_factory=list)
    heard: list[tuple[bytes, int]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    noted: int = 0

    def put(self, key: bytes, value: bytes | None, *, secret: bool = False) -> None:
        """Keep a value under a key; None removes it."""
        self.kept[key] = value
        if secret:
            self.secret.add(key)
        else:
            self.secret.discard(key)

    def take(self, other: Batch) -> None:
        """Add what follows from one more event; of equal keys the later value counts."""
        if self.secret or other.secret:
            self.secret = (self.secret - other.kept.keys()) | other.secret
        self.kept.update(other.kept)
        self.forgets |= other.forgets
        self.events += other.events
        self.outbox += other.outbox

    def __bool__(self) -> bool:
        return bool(self.grows or self.kept or self.heard or self.sent or self.noted or self.forgets)

    @property
    def is_small(self) -> bool:
        """Whether a commit of it is as quick as commits get."""
        rows = len(self.kept) + len(self.events) + len(self.outbox) + len(self.heard) + len(self.sent)
        if self.forgets or rows > SMALL_ROWS:
            return False
        kept = sum([len(value) for value in self.kept.values() if value is not None])
        return kept + sum([len(wire) for _, wire in self.outbox]) <= SMALL_BYTES

    @property
    def grows(self) -> bool:
        """Whether it adds rows that stay until the service or the router removes them."""
        return bool(self.events or self.outbox) or any(value is not None for value in self.kept.values())


ROOM_SHARE = 1.25
"""With less than so many times what a state must leave free, its rules should take in nothing more."""


class State(Mapping[bytes, bytes]):
    """The service's kept values, as a mapping that shows the last commit; `commit` writes a batch.

    `epoch` names this state: a new one counts its events from the start. `leave_free_bytes`: the state does not grow
    when its disk has less than that free.
    """

    def __init__(self, path: Path, leave_free_bytes: int = 0) -> None:
        self.path = path
        self._leave_free_bytes = leave_free_bytes
        self._env = Environment(path, FORM)
        self._db = self._env.db
        self._secrets = Secrets(self._env, "secrets")
        try:
            self._load()
        except BaseException as error:
            self._env.close()
            if isinstance(error, ValueError):
                raise self._env.unusable("cannot be opened", error) from None
            raise

    def __repr__(self) -> str:
        return f"<state in {self.path}: {len(self)} keys, {self.events_waiting} events not in the log>"

    def _load(self) -> None:
        with self._env.reading() as txn:
            epoch = txn.get(b"epoch", db=self._db["meta"])
            numbers = txn.get(b"numbers", db=self._db["meta"])
        self.epoch = bytes(epoch or os.urandom(8))
        self._next_event: int
        self._next_message: int
        self._next_event, self._next_message = cbor2.loads(numbers) if numbers else (1, 1)
        self.judged_from = self._next_event
        """The number of the first event that this program wrote; earlier ones may be of another version of it."""
        self._env.write(self._begin)

    def _begin(self, txn: Any) -> None:
        self._secrets.settle(txn)
        txn.put(b"epoch", self.epoch, db=self._db["meta"], overwrite=False)
        self._has_secrets = self._env.entries(txn, "secrets") > 0

    def close(self) -> None:
        self._env.close()

    # -- reading -------------------------------------------------------------------------------------------

    def __getitem__(self, key: bytes) -> bytes:
        with self._env.reading() as txn:
            found = txn.get(key, db=self._db["kept"])
            if found is None and self._has_secrets:
                found = self._secrets.get(txn, key)
        if found is None:
            raise KeyError(key)
        return bytes(found)

    def __iter__(self) -> Iterator[bytes]:
        with self._env.reading() as txn:
            plain = [bytes(key) for key in txn.cursor(self._db["kept"]).iternext(values=False)]
            return iter(sorted([*plain, *self._secrets.rows(txn)]) if self._has_secrets else plain)

    def __len__(self) -> int:
        return self._entries("kept") + self._entries("secrets")

    @property
    def events_waiting(self) -> int:
        """Return the number of events that are not in the node's log."""
        return self._entries("events")

    @property
    def has_room(self) -> bool:
        """Whether rules may take in more: before the disk is so full that nothing can be kept, there is no room."""
        return shutil.disk_usage(self.path).free >= ROOM_SHARE * self._leave_free_bytes

    def _entries(self, name: str) -> int:
        with self._env.reading() as txn:
            return int(txn.stat(self._db[name])["entries"])

    def has_heard(self, id: bytes) -> bool:
        """Whether a message of that id was handled."""
        with self._env.reading() as txn:
            return txn.get(id, db=self._db["heard"]) is not None

    def events(self, bytes_max: int, after: int = 0) -> tuple[int, list[bytes]]:
        """Return the number of the oldest event behind `after`, and from it on at most so many bytes of events: JSON.
        These are not in the node's log yet."""
        found: list[bytes] = []
        first = 0
        with self._env.reading() as txn:
            cursor = txn.cursor(self._db["events"])
            if not cursor.set_range(_NUMBER.pack(after + 1)):
                return 0, []
            for key, value in cursor:
                bytes_max -= len(value) + 1
                if found and bytes_max < 0:
                    break
                first = first or _NUMBER.unpack(key)[0]
                found.append(bytes(value))
        return first, found

    def under(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys that begin so, without the prefix, each with its value, in order."""
        found: list[tuple[bytes, bytes]] = []
        with self._env.reading() as txn:
            cursor = txn.cursor(self._db["kept"])
            if cursor.set_range(prefix):
                for key, value in cursor:
                    if not key.startswith(prefix):
                        break
                    found.append((bytes(key[len(prefix) :]), bytes(value)))
            if self._has_secrets:
                found += [(key[len(prefix) :], value) for key, value in self._secrets.under(txn, prefix)]
                found.sort()
        return found

    def several(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the values of these keys, in one reading; raise `KeyError` for one that is not kept."""
        with self._env.reading() as txn:
            return [found for _, found in self._found(txn, keys)]

    def _found(self, txn: Any, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for key in keys:
            found = txn.get(key, db=self._db["kept"])
            if found is None and self._has_secrets:
                found = self._secrets.get(txn, key)
            if found is None:
                raise KeyError(key)
            yield key, bytes(found)

    def outbox(self) -> list[tuple[int, str, bytes]]:
        """Return number, tag and bytes of each message that is not in custody yet, oldest first."""
        with self._env.reading() as txn:
            rows = [(_NUMBER.unpack(key)[0], *cbor2.loads(value)) for key, value in txn.cursor(self._db["outbox"])]
        return rows

    def named_groups(self) -> dict[str, bytes]:
        """Return the keys of the groups that the service has joined by name."""
        with self._env.reading() as txn:
            found = txn.get(NAMED_GROUPS_ROW, db=self._db["meta"])
        return cbor2.loads(found) if found else {}

    # -- writing -------------------------------------------------------------------------------------------

    def keep_named_groups(self, groups: Mapping[str, bytes]) -> None:
        """Write the keys of the groups that the service has joined by name. May run in a thread.

        Raises `StateError`.
        """
        row = cbor2.dumps(dict(groups))
        self._env.write(lambda txn: txn.put(NAMED_GROUPS_ROW, row, db=self._db["meta"]))

    def commit(self, batch: Batch, now_min: int) -> list[int]:
        """Write all of it durably, or nothing; return the numbers of its messages. May run in a thread.

        Raises `StateError`.
        """
        if batch.grows and (free := shutil.disk_usage(self.path).free) < self._leave_free_bytes:
            left = f"its disk has {free >> 20} MiB left, and services leave {self._leave_free_bytes >> 20} to the node"
            raise StateError(f"the state in {self.path} may not grow: {left}; make room, {GOES_ON}")
        numbers, key = self._env.write(partial(self._write, batch, now_min))
        self._next_event += len(batch.events)
        self._next_message += len(numbers)
        self._has_secrets |= bool(batch.secret)
        if key:
            self._finish_forgetting(key)
        return numbers

    def _finish_forgetting(self, key: bytes) -> None:
        """Raise `StateError` if the old key is still there; the next opening or `forgets` tries again."""
        try:
            self._secrets.finish(key)
        except OSError as error:
            raise self._env.unusable("has forgotten, but its old key is still on the disk", error) from None

    def _write(self, batch: Batch, now_min: int, txn: Any) -> tuple[list[int], bytes]:
        db = self._db
        event, message = self._next_event, self._next_message
        self._keep(txn, batch)
        for one in batch.events:
            txn.put(_NUMBER.pack(event), msgspec.json.encode(one), db=db["events"], append=True)
            event += 1
        numbers = list(range(message, message + len(batch.outbox)))
        for number, (tag, wire) in zip(numbers, batch.outbox, strict=True):
            txn.put(_NUMBER.pack(number), cbor2.dumps([tag, wire]), db=db["outbox"], append=True)
        for number in batch.sent:
            txn.delete(_NUMBER.pack(number), db=db["outbox"])
        self._forget(txn, batch.noted)
        for id, until_min in batch.heard:
            txn.put(id, _MINUTE.pack(until_min), db=db["heard"])
        self._sweep(txn, now_min)
        txn.put(b"numbers", cbor2.dumps([event, message + len(numbers)]), db=db["meta"])
        return numbers, self._secrets.renew(txn) if batch.forgets else b""

    def _keep(self, txn: Any, batch: Batch) -> None:
        kept, has_secrets = self._db["kept"], self._has_secrets or bool(batch.secret)
        for key, value in batch.kept.items():
            is_secret = key in batch.secret and value is not None
            if value is None or is_secret:
                txn.delete(key, db=kept)
            if has_secrets and not is_secret:
                self._secrets.delete(txn, key)
            if value is not None and is_secret:
                self._secrets.put(txn, key, value)
            elif value is not None:
                txn.put(key, value, db=kept)

    def _forget(self, txn: Any, noted: int) -> None:
        """Remove the events that the node's log has."""
        cursor = txn.cursor(self._db["events"])
        while noted and cursor.first() and _NUMBER.unpack(cursor.key())[0] <= noted:
            cursor.delete()

    def _sweep(self, txn: Any, now_min: int) -> None:
        """Remove ids of messages that have expired, which no router brings again, from a part of the table each
        time."""
        cursor = txn.cursor(self._db["heard"])
        if not cursor.set_range(os.urandom(32)):
            return
        for _ in range(SWEEP_MAX):
            if _MINUTE.unpack(cursor.value())[0] + 10 < now_min:
                if not cursor.delete() or not cursor.key():
                    return
            elif not cursor.next():
                return
