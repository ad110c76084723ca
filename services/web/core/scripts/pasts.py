"""The pasts of the groups that scripts read: in memory, and on disk if the operator wants that."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from router.core.wire.text import counted
from router.service import contract as c
from router.service.contract import Put, kept_under

from .past import Entry, GroupPast

PREFIX = b"past/"
"""Beginning of the keys of kept rows: a group's key follows, for when its past began, and behind that a number, for the
JSON of a message."""
_KEY_BYTES = 32
_NUMBER, _TIME = struct.Struct(">Q"), struct.Struct(">d")


class Pasts:
    """The pasts, by their groups' keys in hexadecimal digits. `is_on_disk`: whether they are kept beyond this life."""

    def __init__(self, kept: Mapping[bytes, bytes], *, is_on_disk: bool) -> None:
        self._kept = kept
        self._is_on_disk = is_on_disk
        self._pasts: dict[str, GroupPast] = {}
        for key, value in kept_under(kept, PREFIX) if is_on_disk else ():
            group, number = key[:_KEY_BYTES].hex(), key[_KEY_BYTES:]
            if not number:  # the first of a group in order
                self._pasts[group] = GroupPast(_TIME.unpack(value)[0])
            else:
                entry = _entry(value)
                past = self._pasts.setdefault(group, GroupPast(entry.at_s))
                past.restore(_NUMBER.unpack(number)[0], entry)

    def __repr__(self) -> str:
        return f"<the past of {counted(len(self._pasts), 'group')}>"

    def __len__(self) -> int:
        return len(self._pasts)

    def of(self, group: str) -> GroupPast | None:
        """Return the past of a group, None if it is not remembered."""
        return self._pasts.get(group)

    def keeps(self, group: str) -> bool:
        """Whether the messages of a group are kept beyond this life."""
        return self._is_on_disk and group in self._pasts

    @property
    def has_room(self) -> bool:
        """Whether what comes next can be kept as the others are."""
        return not self._is_on_disk or c.has_room(self._kept)

    def start(self, groups: frozenset[str], now: c.Now) -> Iterator[Put]:
        """Remember these groups alone."""
        for key, _ in kept_under(self._kept, PREFIX):
            if not self._is_on_disk or key[:_KEY_BYTES].hex() not in groups:
                yield Put(PREFIX + key, None)
        self._pasts = {group: past for group, past in self._pasts.items() if group in groups}
        for group in sorted(groups):
            yield from self.follow(group, now)

    def follow(self, group: str, now: c.Now) -> Iterator[Put]:
        """Remember the messages of a group from now on."""
        if group not in self._pasts:
            self._pasts[group] = GroupPast(now.wall_s)
            yield from self._put(group, b"", _TIME.pack(now.wall_s))

    def forget(self, group: str) -> Iterator[Put]:
        """Remember nothing of a group any more."""
        if (past := self._pasts.pop(group, None)) is not None:
            yield from self._put(group, b"", None)
            for number in past.numbers:
                yield from self._put(group, _NUMBER.pack(number), None)

    def add(self, group: str, entry: Entry) -> Iterator[Put]:
        """Remember a message of a group."""
        number, gone = self._pasts[group].add(entry)
        yield from self._put(group, _NUMBER.pack(number), entry.line)
        for one in gone:
            yield from self._put(group, _NUMBER.pack(one), None)

    def miss(self, group: str, now: c.Now) -> Iterator[Put]:
        """Record that a message of a group is not known here, so that a gap is said to who begins before it."""
        if (past := self._pasts.get(group)) is not None:
            yield from self._put(group, b"", _TIME.pack(past.miss(now.wall_s)))

    def _put(self, group: str, rest: bytes, value: bytes | None) -> Iterator[Put]:
        if self._is_on_disk:
            yield Put(PREFIX + bytes.fromhex(group) + rest, value)


def _entry(line: bytes) -> Entry:
    value = json.loads(line)
    return Entry(value["id"], value["at"], line)
