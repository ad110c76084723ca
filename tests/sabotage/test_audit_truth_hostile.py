"""A router signs nonsense with its own key: the audit answers, and its findings from other routers' logs do not
change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets
from samples.audit_logs import A, B, Log, name
from samples.audit_logs import audited as at_late

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.log.line import Line, encode_lines
from sabotage.logs import Rows, read_rows, seal, segments
from sabotage.mixture import in_flight, without_times
from sabotage.scene import Scene, copied

BIG = 2**63 - 1
Change = Callable[[Line], bytes]


def raw(data: bytes) -> Change:
    return lambda row: data


def having(**columns: Any) -> Change:
    """Return a change of a line's columns; a column set to None is left out."""

    def change(row: Line) -> bytes:
        found = json.loads(encode_lines([row])) | columns
        return json.dumps({name: value for name, value in found.items() if value is not None}).encode() + b"\n"

    return change


NONSENSE: dict[str, tuple[str, Change]] = {
    "no JSON": ("link_up", raw(b"hello {\n")),
    "no UTF-8": ("link_up", raw(b'{"v":1,"event":"\xff\xfe"}\n')),
    "a list": ("link_up", raw(b"[1,2,3]\n")),
    "a text": ("link_up", raw(b'"x"\n')),
    "null": ("link_up", raw(b"null\n")),
    "an empty line": ("link_up", raw(b"\n")),
    "no event": ("link_up", having(event=None)),
    "an endless word": ("link_up", having(event="x" * 100_000)),
    "odd fields": ("link_up", having(fields={"a": {"b": [1]}, "c": 1.5})),
    "fields that are a list": ("link_up", having(fields=[1])),
    "a head that is none": ("link_up", having(event="link", fields={"peer": "zz", "head_seq": "many"})),
    "a gap that is none": ("link_up", having(event="log_gap", fields={"missing": -5})),
    "a column nobody knows": ("acked", having(zebra={"a": 1})),
    "a column twice": ("acked", lambda row: encode_lines([row]).replace(b'"v":1', b'"v":1,"v":1')),
    "a range without end": ("acked", having(ranges=[[1, 10**15]], count=10**15)),
    "a range of 64 bits": ("acked", having(ranges=[[BIG, BIG]], count=BIG)),
    "a negative range": ("acked", having(ranges=[[1, -5]], count=-5)),
    "odd ranges": ("acked", having(ranges=[[1], [1, 2, 3], []])),
    "ranges that are text": ("acked", having(ranges="x")),
    "no ranges": ("acked", having(ranges=None)),
    "no recipient": ("acked", having(recipient=None)),
    "a number beyond 64 bits": ("acked", having(count=10**30)),
    "a number that is text": ("acked", having(parcel="x")),
    "another router's line": ("accepted", having(router="ab" * 32)),
    "no count": ("accepted", having(n=None)),
    "a count that lies": ("accepted", having(n=10**12)),
    "ids too short": ("accepted", having(ids="ab")),
    "no recipients": ("accepted", having(recipients=None)),
    "no first": ("accepted", having(first=None)),
    "no ttls": ("accepted", having(ttls=[])),
    "the end of time": ("accepted", having(t=BIG)),
    "the beginning of time": ("accepted", having(t=0)),
}


@pytest.fixture(scope="module")
def fleet(fleets: Fleets) -> Path:
    return fleets(4, 400, 0)


def audited(scene: Scene) -> dict[str, Any]:
    return audit(list_logs([scene.directory]), AuditSpan(scene.as_of_ns))


@pytest.fixture(scope="module")
def before(fleet: Path) -> dict[str, Any]:
    """Return the audit of the sound logs."""
    return audited(Scene(fleet, 1))


QUICK = [*NONSENSE][::6]
"""Of all kinds: a line that is none, one of odd columns, numbers and times. Each line is judged by value elsewhere."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NONSENSE]
)
def test_signed_nonsense_spoils_one_log_at_most(name: str, fleet: Path, before: dict[str, Any], tmp_path: Path) -> None:
    scene = copied(fleet, tmp_path / "logs", 1)
    victim = scene.core()
    event, change = NONSENSE[name]
    _sign(scene, victim, event, change)
    found = audited(scene)
    assert found["residual"] == 0
    others = [[row for row in one["by_router"] if row["router"] != victim] for one in (before, found)]
    assert others[0] == others[1]


def test_a_log_without_times_spoils_no_audit(tmp_path: Path) -> None:
    timeless, other = Log(A), Log(B)
    without_times(timeless)
    in_flight(other)
    both = [log.write(tmp_path / name(log.key)[:8]) for log in (timeless, other)]
    found = [at_late(*logs) for logs in (both[:1], both[1:], both)]
    rows = [{row["router"]: row for row in one["by_router"]} for one in found]
    assert rows[0] | rows[1] == rows[2]
    assert found[2]["watermark"] == "1970-01-01T00:00:00+00:00" and found[2]["dropped"] == 1


def _sign(scene: Scene, router: str, event: str, change: Change) -> None:
    """Change one line of that event in the middle of the log, and seal the log again."""
    files = segments(scene.logs[router])
    rows = read_rows(one.path for one in files)
    some = [row for row in rows if row.event == event]
    chosen = some[len(some) // 2]

    def encode(part: Rows) -> bytes:
        return b"".join(change(row) if row is chosen else encode_lines([row]) for row in part)

    for one in files:
        one.path.unlink()
    seal(scene.logs[router], scene.keys[router], [rows], encode=encode)
