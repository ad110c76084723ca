"""The latest messages of the groups that scripts read, so that one that comes again misses none of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from router.core.wire.crypto import PublicKey

MESSAGES_MAX = 1_000
BYTES_MAX = 4 << 20
"""The messages of a group that are remembered, and their bytes as they are sent."""
_TICK_S = 0.001
"""The time of a message is kept to so many seconds."""


MISSED = "a message was published here as the node ended, and what it said is not known any more"


class Entry(Struct, frozen=True):
    """A message of a group: its id, when it came, and its JSON."""

    id: str
    at_s: float
    line: bytes


class Gap(Struct, frozen=True):
    """What a script has asked for is not all here: `text` says why."""

    text: str


class GroupPast:
    """The past of one group, each message with a number that grows. `began_s`: since when it is whole; messages may be
    here that came before."""

    def __init__(self, began_s: float) -> None:
        self._entries: deque[tuple[int, Entry]] = deque()
        self._ids: set[str] = set()
        self._bytes = 0
        self._next = 1
        self._began_s = self._whole_since_s = began_s
        self._whole_from = 1  # the number behind the last gap

    def __repr__(self) -> str:
        return f"<{len(self._entries)} messages>"

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    @property
    def numbers(self) -> Sequence[int]:
        """Return the numbers of the messages that are here."""
        return [number for number, _ in self._entries]

    def add(self, entry: Entry) -> tuple[int, Sequence[int]]:
        """Keep a message, and forget the oldest beyond the limits; return its number, and theirs."""
        number, gone = self._next, list[int]()
        self._append(number, entry)
        while len(self._entries) > MESSAGES_MAX or self._bytes > BYTES_MAX:
            oldest, one = self._entries.popleft()
            self._ids.discard(one.id)
            self._bytes -= len(one.line)
            self._whole_since_s = one.at_s
            gone.append(oldest)
        return number, gone

    def miss(self, at_s: float) -> float:
        """Record that a message of this moment is not known; return since when the past is whole now."""
        self._began_s = self._whole_since_s = at_s + _TICK_S
        self._whole_from = self._next
        return self._began_s

    def restore(self, number: int, entry: Entry) -> None:
        """Take up a message that an earlier life has kept; those before it have been, in order."""
        if number != self._next:  # the ones between are gone
            self._whole_since_s = max(self._whole_since_s, entry.at_s)
        self._append(number, entry)
        if entry.at_s <= self._began_s:
            self._whole_from = self._next

    def _append(self, number: int, entry: Entry) -> None:
        self._entries.append((number, entry))
        self._ids.add(entry.id)
        self._bytes += len(entry.line)
        self._next = number + 1

    def after(self, id: str) -> tuple[Sequence[Entry], Gap | None]:
        """Return the messages behind that one; all, and the gap, if it is not here."""
        entries = [one for _, one in self._entries]
        for at, (number, entry) in enumerate(self._entries):
            if entry.id == id:
                is_whole = number >= self._whole_from
                return entries[at + 1 :], None if is_whole else Gap(MISSED)
        return entries, Gap("the message to begin behind is not here any more, so some may be missing before these")

    def since(self, at_s: float) -> tuple[Sequence[Entry], Gap | None]:
        """Return the messages that came at that Unix second or later, and the gap if older ones of these are gone."""
        found = [one for _, one in self._entries if one.at_s >= at_s]
        is_whole = at_s > self._whole_since_s
        return found, None if is_whole else Gap("what came so long ago is not here any more, or was never heard")


def entry_of(
    id: str, at_s: float, body: bytes, sender: PublicKey | None = None, seq: int | None = None, token: str = ""
) -> Entry:
    """Return a message as scripts read it. `token`: the one with which it came over HTTP."""
    value: dict[str, Any] = {"event": "message", "id": id, "at": round(at_s, 3)}
    if sender is not None:
        value["sender"] = sender.hex()
    if seq is not None:
        value["seq"] = seq
    if token:
        value["token"] = token
    try:
        value["text"] = body.decode()
    except UnicodeDecodeError:
        value["base64"] = b64encode(body).decode()
    return Entry(id, at_s, json.dumps(value, ensure_ascii=False).encode())
