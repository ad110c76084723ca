"""The messages of talkers in a group, from which each reader can check that it reads them in causal order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class TalkMessage(NamedTuple):
    """A message: its author, its number there (from 1), and how many messages of each other talker the author had
    read."""

    by: str
    number: int
    after: Mapping[str, int]

    def body(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def read_body(body: bytes) -> TalkMessage:
    return TalkMessage(**json.loads(body))


def too_early(read: Iterable[TalkMessage], own: str) -> list[str]:
    """Return a sentence for each message that came before one that its author had read or said before. `own`: the
    reader, whose own messages do not come to it."""
    seen: Counter[str] = Counter()
    found = []
    for by, number, after in read:
        before = {**after, by: number - 1}
        lacks = [f"{who} {seen[who] + 1}" for who, count in before.items() if who != own and seen[who] < count]
        if lacks:
            found.append(f"{by} {number} came before {', '.join(lacks)}")
        seen[by] += 1
    return found
