"""The rows of an app's state: what one decision writes, and how they are read, on disk and in memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from msgspec import Struct, field

from router.disk.state.secrets import Secrets

TABLES = ("meta", "handled", "ends", "heads", "numbers", "rows", "secrets")
TABLE = re.compile(r"[a-z][a-z-]{0,30}")
KEY_BYTES_MAX = 400
PRUNE_MIN = 16
"""How many handled ids leave with a commit at least, if so many have expired; more with a commit that adds many."""
_MINUTE, _NUMBER = struct.Struct(">I"), struct.Struct(">Q")
_ID_BYTES = 32
_HEAD_BYTES = _ID_BYTES + _MINUTE.size

Until = tuple[bytes, int]
"""A key or an id, and the minute from which on it is not needed any more."""


class AppRow(Struct, frozen=True):
    """A value to be kept; `secret`: sealed, so that it can be forgotten. Its repr does not show it."""

    value: bytes
    secret: bool = False

    def __repr__(self) -> str:
        return f"<{'secret ' if self.secret else ''}row of {len(self.value)} bytes>"


class AppBatch(Struct):
    """What one decision of an app writes, in one transaction.

    `handled`: keys of messages that were handled (8 bytes of a journal, 32 of the message); `heads`: the heads of a
    group (8 bytes of a journal, 32 of the group); `numbers`: the next sequence number of a group that is not reserved;
    `rows`: see `put`; `forgets`: secrets that are no longer kept cannot be read any more. `handled_before`: gives very
    many more of `handled`, and is asked again if the environment has to grow."""

    handled: list[Until] = field(default_factory=list)
    handled_before: Callable[[], Iterable[Until]] = tuple
    heads: dict[bytes, Sequence[Until]] = field(default_factory=dict)
    numbers: dict[bytes, int] = field(default_factory=dict)
    rows: dict[tuple[str, bytes], AppRow | None] = field(default_factory=dict)
    forgets: bool = False

    def __bool__(self) -> bool:
        return bool(self.handled or self.heads or self.numbers or self.rows or self.forgets)

    @property
    def is_of_handled(self) -> bool:
        """Whether it only says that messages were handled."""
        other = self.numbers or self.rows or self.forgets or self.handled_before is not tuple
        return bool(self.handled or self.heads) and not other

    def put(self, table: str, key: bytes, value: bytes, *, secret: bool = False) -> None:
        """Keep a value under a key of a table, whose name is of small letters and dashes. Tables need not be
        declared."""
        self.rows[_place(table, key)] = AppRow(value, secret)

    def remove(self, table: str, key: bytes) -> None:
        """Remove a value; of a secret one, `forgets` removes the last trace."""
        self.rows[_place(table, key)] = None

    def take(self, other: AppBatch) -> None:
        """Add what is to be written later, in the same transaction."""
        assert other.handled_before is tuple, "very many handled ids have a commit of their own"
        self.handled += other.handled
        self.heads.update(other.heads)
        self.numbers.update(other.numbers)
        self.rows.update(other.rows)
        self.forgets |= other.forgets


def _place(table: str, key: bytes) -> tuple[str, bytes]:
    if TABLE.fullmatch(table) is None:
        raise ValueError(f"{table!r} is no name of a table: it has 1 to 31 small letters and dashes")
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"a key of {len(key)} bytes in the table {table}, where {KEY_BYTES_MAX} are the most")
    return table, key


class AppRows(Protocol):
    """The rows of an app's state at one moment."""

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under a key of a table, None if there is none."""

    def rows(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Return the keys of a table that begin so, each with its value, in order."""

    def known(self, keys: Sequence[bytes]) -> Collection[bytes]:
        """Return the keys among these of messages that were handled."""

    def handled(self) -> int:
        """Return the number of messages that are remembered as handled."""

    def heads(self, place: bytes) -> list[Until]:
        """Return the heads of a group, oldest first, as they were written last."""

    def number(self, group: bytes) -> int:
        """Return the next sequence number of a group that is not reserved."""

    def groups(self) -> int:
        """Return the number of groups in which this app numbers its messages."""


class DiskRows:
    """The rows within a transaction of LMDB."""

    def __init__(self, txn: Any, db: Mapping[str, Any], secrets: Secrets) -> None:
        self._txn = txn
        self._db = db
        self._secrets = secrets

    def __repr__(self) -> str:
        return f"<rows in a transaction, {self._secrets!r}>"

    def get(self, table: str, key: bytes) -> bytes | None:
        row = _row(table, key)
        found = self._txn.get(row, db=self._db["rows"])
        return self._secrets.get(self._txn, row) if found is None else bytes(found)

    def rows(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        first = _row(table, prefix)
        cut = len(first) - len(prefix)
        found = [(row[cut:], value) for row, value in self._secrets.under(self._txn, first)]
        cursor = self._txn.cursor(self._db["rows"])
        for row, value in cursor if cursor.set_range(first) else ():
            if not row.startswith(first):
                break
            found.append((bytes(row[cut:]), bytes(value)))
        return sorted(found)

    def known(self, keys: Sequence[bytes]) -> Collection[bytes]:
        return {bytes(key) for key, _ in self._txn.cursor(self._db["handled"]).getmulti(keys)}

    def handled(self) -> int:
        return int(self._txn.stat(self._db["handled"])["entries"])

    def heads(self, place: bytes) -> list[Until]:
        return _heads_in(bytes(self._txn.get(place, db=self._db["heads"]) or b""))

    def number(self, group: bytes) -> int:
        found = self._txn.get(group, db=self._db["numbers"])
        return 0 if found is None else int(_NUMBER.unpack(found)[0])

    def groups(self) -> int:
        return int(self._txn.stat(self._db["numbers"])["entries"])

    # -- writing -------------------------------------------------------------------------------------------

    def apply(self, batch: AppBatch, now_min: int, ids_max: int) -> bytes:
        """Write a batch; return the id of the new key if it forgets. Handled ids leave that are not needed any more, or
        that are beyond the most, those first that end first."""
        txn, db = self._txn, self._db
        for (table, key), row in batch.rows.items():
            self._apply_row(_row(table, key), row)
        for key, until_min in chain(batch.handled_before(), batch.handled):
            end = _MINUTE.pack(until_min)
            if txn.put(key, end, db=db["handled"], overwrite=False):
                txn.put(end + key, b"", db=db["ends"])
        for place, heads in batch.heads.items():
            packed = b"".join(id + _MINUTE.pack(until_min) for id, until_min in heads)
            txn.put(place, packed, db=db["heads"])
        for group, number in batch.numbers.items():
            txn.put(group, _NUMBER.pack(number), db=db["numbers"])
        self.prune(now_min, max(PRUNE_MIN, 2 * len(batch.handled)), ids_max)
        return self._secrets.renew(txn) if batch.forgets else b""

    def _apply_row(self, row: bytes, value: AppRow | None) -> None:
        if value is None or value.secret:
            self._txn.delete(row, db=self._db["rows"])
        if value is None or not value.secret:
            self._secrets.delete(self._txn, row)
        if value is not None and value.secret:
            self._secrets.put(self._txn, row, value.value)
        elif value is not None:
            self._txn.put(row, value.value, db=self._db["rows"])

    def prune(self, now_min: int, most: int, ids_max: int) -> None:
        """Remove at most so many handled ids: those whose time is over, and those beyond `ids_max`."""
        beyond = self.handled() - ids_max
        cursor = self._txn.cursor(self._db["ends"])
        for _ in range(max(most, beyond)):
            if not cursor.first():
                return
            end = bytes(cursor.key())
            if _MINUTE.unpack_from(end)[0] >= now_min and beyond <= 0:
                return
            cursor.delete()
            self._txn.delete(end[_MINUTE.size :], db=self._db["handled"])
            beyond -= 1

    def prune_heads(self, now_min: int, most: int) -> None:
        """Remove the heads of groups in which all have expired, of the first `most` groups."""
        rows = islice(self._txn.cursor(self._db["heads"]), most)
        gone = [bytes(place) for place, value in rows if all(end < now_min for _, end in _heads_in(bytes(value)))]
        for place in gone:
            self._txn.delete(place, db=self._db["heads"])


class MemoryRows:
    """The rows of an app that has no place on disk."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bytes], bytes] = {}
        self._handled: dict[bytes, int] = {}
        self._heads: dict[bytes, list[Until]] = {}
        self._numbers: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<{len(self._rows)} rows in memory>"

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._rows.get((table, key))

    def rows(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        found = ((key, value) for (at, key), value in self._rows.items() if at == table)
        return sorted((key, value) for key, value in found if key.startswith(prefix))

    def known(self, keys: Sequence[bytes]) -> Collection[bytes]:
        return {key for key in keys if key in self._handled}

    def handled(self) -> int:
        return len(self._handled)

    def heads(self, place: bytes) -> list[Until]:
        return self._heads.get(place, [])

    def number(self, group: bytes) -> int:
        return self._numbers.get(group, 0)

    def groups(self) -> int:
        return len(self._numbers)

    def apply(self, batch: AppBatch, now_min: int, ids_max: int) -> None:
        """Write a batch; handled ids leave as they do from the disk."""
        for place, row in batch.rows.items():
            if row is None:
                self._rows.pop(place, None)
            else:
                self._rows[place] = row.value
        for key, until_min in chain(batch.handled_before(), batch.handled):
            self._handled.setdefault(key, until_min)
        self._heads.update((place, list(heads)) for place, heads in batch.heads.items())
        self._numbers.update(batch.numbers)
        if batch.handled:
            gone = sorted(self._handled, key=lambda key: (self._handled[key], key))[: max(0, self.handled() - ids_max)]
            for key in [*gone, *(key for key, end in self._handled.items() if end < now_min)]:
                self._handled.pop(key, None)


def _row(table: str, key: bytes) -> bytes:
    return b"%b/%b" % (table.encode(), key)


def _heads_in(packed: bytes) -> list[Until]:
    places: Iterable[int] = range(0, len(packed), _HEAD_BYTES)
    return [(packed[at : at + _ID_BYTES], _MINUTE.unpack_from(packed, at + _ID_BYTES)[0]) for at in places]
