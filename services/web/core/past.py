"""The latest messages of the groups that scripts read, so that one that comes again misses none of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from router.core.wire.crypto import PublicKey

MESSAGES_MAX = 1_000
BYTES_MAX = 4 << 20
"""The messages of a group that are kept in memory, and their bytes as they are sent."""


class Entry(Struct, frozen=True):
    """A message of a group: its id, when it came, and its JSON."""

    id: str
    at_s: float
    line: bytes


class Gap(Struct, frozen=True):
    """What a script has asked for is not all here: `text` says why."""

    text: str


class GroupPast:
    """The past of one group. `began_s`: since when it is whole."""

    def __init__(self, began_s: float) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._whole_since_s = began_s

    def __repr__(self) -> str:
        return f"<{len(self._entries)} messages>"

    def add(self, entry: Entry) -> None:
        """Keep a message; forget the oldest beyond the limits."""
        self._entries.append(entry)
        self._bytes += len(entry.line)
        while len(self._entries) > MESSAGES_MAX or self._bytes > BYTES_MAX:
            gone = self._entries.popleft()
            self._bytes -= len(gone.line)
            self._whole_since_s = gone.at_s

    def begin_anew(self, at_s: float) -> None:
        """Forget all messages, since one that came at that Unix second cannot be kept."""
        self._entries.clear()
        self._bytes, self._whole_since_s = 0, at_s

    def after(self, id: str) -> tuple[Sequence[Entry], Gap | None]:
        """Return the messages behind that one; all, and the gap, if it is not here."""
        for at, entry in enumerate(self._entries):
            if entry.id == id:
                return list(islice(self._entries, at + 1, None)), None
        said = "the message to begin behind is not here any more, so some may be missing before these"
        return list(self._entries), Gap(said)

    def since(self, at_s: float) -> tuple[Sequence[Entry], Gap | None]:
        """Return the messages that came at that Unix second or later, and the gap if older ones of these are gone."""
        found = [one for one in self._entries if one.at_s >= at_s]
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
