"""Logs written by hand for the audit: a router's lines in order, sealed with its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.log.line import Line
from router.core.log.segment import file_name
from router.core.wire.crypto import SigningKey
from samples.segments import sealed, tail
from spark_analytics.judgement.footer import decode_line

SECOND = 10**9
MINUTE = 60 * SECOND
START = 29_000_000 * MINUTE
"""A full minute in 2025."""
NEVER = 100_000_000
"""An expiry far in the future."""
BOOTED = 1000 * SECOND
"""The monotonic time at START."""
LATE = 10_000
"""Seconds after START, when all messages of a test are long due."""
A, B, C = (SigningKey(letter * 32) for letter in (b"a", b"b", b"c"))
APP, OTHER_APP = (SigningKey(letter * 32).public.hex() for letter in (b"p", b"q"))
Ranges = Sequence[tuple[int, int]]
Summary = dict[str, Any]


def name(key: SigningKey) -> str:
    return key.public.hex()


def message_id(number: int | str) -> str:
    return sha256(str(number).encode()).hexdigest()


class Log:
    """A router's log. `at`: seconds after START. Arrival numbers are given by the test, sequence numbers are
    counted, and each start after the first line begins another run."""

    def __init__(self, key: SigningKey = A) -> None:
        self.key = key
        self.lines: list[Line] = []
        self.seq = 1
        self.run = 0

    def _add(self, event: str, at: float, n: int = 1, boot: str | None = None, **columns: Any) -> Line:
        t = START + int(at * SECOND)
        columns = {"mono": t - START + BOOTED, "count": n} | columns
        self.run += event == "start" and bool(self.lines) and boot is None
        boot = f"{self.run:032x}" if boot is None else boot
        self.lines.append(Line(1, event, self.seq, n, t, router=name(self.key), boot=boot, **columns))
        self.seq += n
        return self.lines[-1]

    def accepted(
        self,
        first: int,
        ids: Iterable[int | str],
        recipients: Sequence[str] = (APP,),
        at: float = 0,
        ttl: int = 60,
        **columns: Any,
    ) -> Line:
        texts = [message_id(one) for one in ids]
        n = len(texts)
        given: dict[str, Any] = {
            "kind": "multicast",
            "group": message_id("group"),
            "peer": message_id("peer"),
            "link": 1,
        } | columns
        given = {"sizes": [9] * n, "ttls": [ttl] * n, "expiries": [NEVER] * n} | given
        return self._add(
            "accepted", at, n, first=first, ids="".join(texts), recipients=list(recipients), **given
        )  # fmt: skip

    def outward(
        self, event: str, ranges: Ranges, at: float = 1, recipient: str = APP, parcel: int = 1, **columns: Any
    ) -> Line:
        count = sum(count for _, count in ranges)
        columns = {"depth": 0, "duration_ns": 0, "link": 2} | columns
        return self._add(
            event,
            at,
            count=count,
            recipient=recipient,
            ranges=list(ranges),
            parcel=parcel,
            attempt=0,
            **columns,
        )

    def turned(
        self, event: str, count: int, reason: str, at: float = 1, peer: str | None = APP, ids: Sequence[str] = ()
    ) -> Line:
        named = "".join(map(message_id, ids)) or None
        return self._add(event, at, count=count, peer=peer, link=2, reason=reason, ids=named)

    def state(self, event: str, at: float = 1, n: int = 1, **fields: Any) -> Line:
        boot = fields.pop("boot", None)
        return self._add(event, at, n, boot, count=1, fields=fields)

    def noted(self, event: str, count: int, reason: str | None = None, at: float = 1, **fields: Any) -> Line:
        """An event of a service, whose key is `signer`."""
        said = {"service": "discovery", **fields, "times": count}
        return self._add(event, at, count=count, signer=message_id("service"), reason=reason, fields=said)

    def skip(self, n: int) -> None:
        """Leave out sequence numbers."""
        self.seq += n

    def write(
        self, directory: Path, cuts: Sequence[int] = (), reasons: Sequence[Sequence[str] | None] | None = None
    ) -> Path:
        """Write the log in segments: a new one begins at each of the `cuts` in the list of lines. `reasons`: those that
        the header of each segment names, None of one that does not say so."""
        directory.mkdir(parents=True, exist_ok=True)
        predecessor = None
        edges = [0, *cuts, len(self.lines)]
        for (start, stop), named in zip(pairwise(edges), reasons or [None] * (len(edges) - 1), strict=True):
            part = self.lines[start:stop]
            data = sealed(part, predecessor, self.key, named)
            (directory / file_name(part[0].seq)).write_bytes(data)
            predecessor = decode_line(data.splitlines()[-1])["sha256"]
        return directory

    def write_tail(self, directory: Path, start: int = 0) -> Path:
        """Write the lines from `start` on, unsealed."""
        directory.mkdir(parents=True, exist_ok=True)
        part = self.lines[start:]
        (directory / f"tail-{part[0].seq:016d}.jsonl").write_bytes(tail(part))
        return directory


def audited(*paths: Path, at: float = LATE, **span: Any) -> Summary:
    """Audit by the local engine, `at` seconds after START."""
    return audit(list_logs(paths), AuditSpan(START + int(at * SECOND), **span))


def states(summary: Summary) -> dict[str, int]:
    """Return the states that have any units, and how many are owed."""
    names = (
        "owed", "delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted", "unknown", "pending",
        "unaccounted",
    )  # fmt: skip
    assert summary["residual"] == 0
    return {name: summary[name] for name in names if summary[name]}
