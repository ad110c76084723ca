"""A simulated fleet's segments that appear in a directory bit by bit, and the local audit of them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from fleets.writing import TRUTH

from router.audit import engine
from router.audit.listing import list_logs

KEY = ("router", "parcel", "recipient")


class GrowingLogs:
    """Logs that grow. `here`: the directory where segments appear; `now`: the time of every audit."""

    def __init__(self, fleet: Path, directory: Path, seed: int) -> None:
        self.there, self.here = fleet, directory / "logs"
        self.here.mkdir()
        self.now = int(json.loads((self.there / TRUTH).read_text())["as_of_ns"])
        self.chance = random.Random(seed)

    def portions(self, count: int) -> Iterator[list[Path]]:
        """Yield all segments in random order, in that many random portions."""
        segments = sorted(self.there.rglob("events-*.jsonl"))
        self.chance.shuffle(segments)
        cuts = sorted(self.chance.sample(range(1, len(segments)), count - 1))
        for start, end in zip([0, *cuts], [*cuts, len(segments)], strict=True):
            yield segments[start:end]

    def bring(self, segments: list[Path], under: str = "") -> None:
        """Move segments into place by a rename, as a router closes them."""
        for segment in segments:
            target = self.here / under / segment.relative_to(self.there)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(segment, target.with_name(f".{target.name}"))
            target.with_name(f".{target.name}").rename(target)

    def audited(self, out: Path | None = None) -> dict[str, Any]:
        """Audit by the local engine."""
        return said(engine.audit(list_logs([self.here]), engine.AuditSpan(self.now), out=out))


def said(summary: dict[str, Any] | None) -> dict[str, Any]:
    """Return the part of a summary in which two engines must agree."""
    assert summary is not None
    plain = json.loads(json.dumps(summary))
    return {name: value for name, value in plain.items() if name not in ("engine", "run")}


def delivered(out: Path) -> set[tuple[Any, ...]]:
    """Return the rows of `delivery` that a stream has written: for each key those of its last batch, and the open
    ones; or those of the local engine."""
    if (out / "delivery.parquet").exists():
        return delivered_locally(out)
    order = f"OVER (PARTITION BY {', '.join(KEY)} ORDER BY batch DESC)"
    last = f"FROM read_parquet('{out}/delivery/*/*.parquet', hive_partitioning = true) QUALIFY row_number() {order} = 1"
    return _rows(
        f"SELECT * EXCLUDE (batch) {last} UNION ALL BY NAME FROM read_parquet('{out}/delivery_open/*.parquet')"
    )


def delivered_locally(out: Path) -> set[tuple[Any, ...]]:
    return _rows(f"FROM read_parquet('{out}/delivery.parquet')")


def _rows(query: str) -> set[tuple[Any, ...]]:
    """Return the rows without `hole_first`, because a stream does not update it in rows that no hole concerns."""
    found = duckdb.sql(query)
    assert found is not None
    names = sorted(set(found.columns) - {"hole_first"})
    rows = found.project(", ".join(names)).fetchall()
    assert len(set(rows)) == len(rows), "a row is there twice"
    return set(rows)
