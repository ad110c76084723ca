"""The end of the event log: the events that no segment holds yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from router.core.log.line import Line, encode_line, gaps, rows
from router.core.wire.codec import Malformed
from router.node.questions.question import CycleView, Questions, Respond

LOG_BYTES_MAX = 700_000
LOG_VALUES = 64


class LogQuestions(Questions):
    """Tells the events, in parts that fit an answer. `sealed_seq` returns the last sequence number in segments."""

    def __init__(self, sealed_seq: Callable[[], int]) -> None:
        self._sealed_seq = sealed_seq

    def answers(self) -> dict[str, Respond]:
        return {"log": self._lines}

    def _lines(self, asked: CycleView, after: str) -> dict[str, Any]:
        """Return a part of the events that no segment holds yet, as lines, after the sequence number `after`.

        `next_seq`: the number after the last returned line; `sealed_seq`: the last number that segments hold. Events
        sealed between two questions are in a segment by then, and are not returned here. An unreadable value is a gap,
        as it will be in the segment.
        """
        if not after.isdecimal():
            return {"error": f"{after!r} is not a sequence number"}
        sealed = self._sealed_seq()
        directory = asked.router.directory
        me = directory.successors.first(bytes(directory.me))  # the log is called by the first key
        at = done = max(int(after), sealed)
        size, told = 0, list[str]()
        while values := asked.store.log_values(at, LOG_VALUES, within=True):
            began = at
            for row in _following(done, (value for _, value in values), me):
                line = encode_line(row).decode()
                size += len(json.dumps(line))
                if size > LOG_BYTES_MAX and told:
                    return {"lines": told, "next_seq": done + 1, "sealed_seq": sealed, "more": True}
                told.append(line)
                done = row.seq + row.n - 1
            at = max(done, values[-1][0])
            if at == began:
                break
        return {"lines": told, "next_seq": done + 1, "sealed_seq": sealed, "more": False}


def _following(seq: int, values: Iterable[bytes], router: bytes) -> Iterator[Line]:
    """Yield all lines after that sequence number, with a gap for values that cannot be decoded."""
    for value in values:
        try:
            found = rows(value, router)
        except Malformed:  # The logbook has logged it.
            continue
        for row in found:
            end = row.seq + row.n - 1
            if end > seq:
                yield from gaps(seq + 1, row)
                yield row
                seq = end
