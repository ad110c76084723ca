"""Large logs: the logs of a fleet whose nodes have all stopped, written again and again as later lives of its nodes.

Each copy has other ids and boots, later times, and consecutive numbers; its segments are sealed with the nodes' keys,
so that every line is as genuine as the first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fleets.writing import KEYS, TRUTH, keys_of, log_directory
from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.wire.crypto import SigningKey, digest
from spark_analytics.judgement.schema import STATES

MINUTE_NS = 60 * 10**9
SUMS = ("messages", "owed", *STATES)


class Log:
    """One node's log, whose segments are written again with everything shifted."""

    def __init__(self, directory: Path, key: SigningKey) -> None:
        self.key = key
        self.segments = [
            [decode_line(line) for line in path.read_bytes().splitlines()]
            for path in sorted(directory.glob("events-*.jsonl"))
        ]
        rows = [row for segment in self.segments for row in segment[1:-1]]
        self.numbers = rows[-1].seq + rows[-1].n - 1
        self.arrivals = max(((row.first or 0) + row.n - 1 for row in rows if row.event == "accepted"), default=0)
        self.begin_ns, self.end_ns = min(row.t for row in rows), max(row.t for row in rows)
        self.head: str | None = None


def multiply(fleet: Path, out: Path, times: int) -> dict[str, Any]:
    """Write that many copies of the fleet below `out`, with truth.json of their sums; return these.

    Every message of the fleet must have ended: `write_fleet(..., is_over=True)`.
    """
    logs = {key.public.hex(): Log(log_directory(fleet, name), key) for name, key in keys_of(fleet).items()}
    truth: dict[str, Any] = json.loads((fleet / TRUTH).read_text())
    assert not truth["pending"], "what is pending would be lost in the next copy"
    span_ns = max(log.end_ns for log in logs.values()) - min(log.begin_ns for log in logs.values())
    period_ns = (span_ns // MINUTE_NS + 2) * MINUTE_NS
    names = {key.public.hex(): name for name, key in keys_of(fleet).items()}
    for name in names.values():
        log_directory(out, name).mkdir(parents=True)
    for number in range(times):
        copy = _Copy(number, period_ns, logs)
        for router, log in logs.items():
            for at in range(len(log.segments)):
                copy.digest_of(router, at)
        for (router, _), (first_seq, data) in copy.written.items():
            (log_directory(out, names[router]) / file_name(first_seq)).write_bytes(data)
    said = {"as_of_ns": truth["as_of_ns"] + (times - 1) * period_ns} | {name: truth[name] * times for name in SUMS}
    (out / TRUTH).write_text(json.dumps(said))
    (out / KEYS).write_text((fleet / KEYS).read_text())
    return said


class _Copy:
    """Copies all logs, for the `number`-th time. A segment is written when its digest is needed: by the next one of its
    log, or by the neighbours that witnessed it."""

    def __init__(self, number: int, period_ns: int, logs: dict[str, Log]) -> None:
        self.written: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._number = number
        self._shift_ns = number * period_ns
        self._mask = digest(b"copy %d" % number) if number else bytes(32)
        self._logs = logs
        self._before = {router: log.head for router, log in logs.items()}
        self._digests: dict[tuple[str, int], str] = {}
        self._places = {
            segment[-1].sha256: (router, at) for router, log in logs.items() for at, segment in enumerate(log.segments)
        }

    def digest_of(self, router: str, at: int) -> str:
        if (router, at) not in self._digests:
            self._write(router, at)
        return self._digests[router, at]

    def _write(self, router: str, at: int) -> None:
        log = self._logs[router]
        predecessor = self.digest_of(router, at - 1) if at else self._before[router]
        rows = [self._later(log, row) for row in log.segments[at][1:-1]]
        tally = SegmentTotals(rows[0].seq)
        for row in rows:
            tally.note(row)
        data = encode_lines([header(rows[0], predecessor), *rows])
        tally.digest.update(data)
        footer = sign(tally.footer(router, predecessor), log.key)
        log.head = self._digests[router, at] = footer.sha256 or ""
        self.written[router, at] = rows[0].seq, data + encode_lines([footer])

    def _later(self, log: Log, row: Line) -> Line:
        """Return the line as it is in this copy."""
        arrivals = self._number * log.arrivals
        changed: dict[str, Any] = {
            "seq": row.seq + self._number * log.numbers, "t": row.t + self._shift_ns, "boot": self._other(row.boot, 16),
        }  # fmt: skip
        if row.ids is not None:
            changed["ids"] = self._other(row.ids, len(row.ids) // 2)
        if row.event == "accepted":
            minutes = self._shift_ns // MINUTE_NS
            changed["first"] = (row.first or 0) + arrivals
            changed["expiries"] = [one + minutes for one in row.expiries or ()]
        elif row.ranges is not None:
            changed["ranges"] = [(first + arrivals, count) for first, count in row.ranges]
            changed["parcel"] = (row.parcel or 0) + arrivals
        elif row.event == "link" and row.fields and "head_seq" in row.fields:
            changed["fields"] = self._witnessed(row.fields)
        elif row.event == "start" and row.fields:
            changed["fields"] = {"arrival": row.fields["arrival"] + arrivals}
        return replace(row, **changed)

    def _other(self, text: str | None, size: int) -> str:
        """Return other random bytes for these, always the same in every log."""
        mask = self._mask * -(-size // 32)
        return f"{int(text or '0', 16) ^ int.from_bytes(mask[:size]):0{2 * size}x}"

    def _witnessed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a `link` line with the head that the neighbour has in this copy."""
        peer = self._logs[fields["peer"]]
        router, at = self._places[fields["head_digest"]]
        seq = fields["head_seq"] + self._number * peer.numbers
        return fields | {"head_seq": seq, "head_digest": self.digest_of(router, at)}
