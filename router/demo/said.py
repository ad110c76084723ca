"""What talkers say in a group, and whether it was read in causal order, which each message lets its reader check."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Said(NamedTuple):
    """A message: who said it, its number there (from 1), and how many messages of each other its author had read."""

    by: str
    number: int
    after: Mapping[str, int]

    def body(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def read_body(body: bytes) -> Said:
    return Said(**json.loads(body))


def too_early(read: Iterable[Said], own: str) -> list[str]:
    """Return a sentence for each message that came before one that its author had read or said before; `own`: who
    read them, whose own messages it does not read."""
    seen: Counter[str] = Counter()
    found = []
    for by, number, after in read:
        before = {**after, by: number - 1}
        lacks = [f"{who} {seen[who] + 1}" for who, count in before.items() if who != own and seen[who] < count]
        if lacks:
            found.append(f"{by} {number} came before {', '.join(lacks)}")
        seen[by] += 1
    return found
