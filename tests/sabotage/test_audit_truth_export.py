"""An audit of an export gives the same as that of the logs, whatever was done to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets

from router.audit.engine import AuditSpan, audit, evidence_of
from router.audit.export.logs import export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from sabotage.saboteur import ALONE, BESIDE_A_SOUND_LOG, SABOTAGES, spoil
from sabotage.scene import copied

LONG = 8
SHAPES = [(4, 400), (6, 400)]
"""Numbers of nodes and messages; some sabotages need several routers."""
NAMES = Pseudonyms(bytes(range(32)))
SAME = (
    "messages", "owed", "delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted", "unknown",
    "pending", "unaccounted", "contradictions", "duplicates", "redelivered", "strays", "residual", "watermark",
    "latency_ms", "custody_ms",
)  # fmt: skip
ABOUT_NAMES = ("moved", "copied_beside", "directory_instead")
"""Sabotages of file names only, which an export repairs."""
SEVERAL = "several"
OF_ANY = [name for name in SABOTAGES if name not in ALONE]
SETS = {"nothing": [], **{name: [name] for name in SABOTAGES}, SEVERAL: [*OF_ANY[::13], *ABOUT_NAMES]}
QUICK = (SEVERAL, "footer_of_other_times")


def told(summary: dict[str, Any], renamed: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the parts of a summary that must be equal."""
    logs = [
        (renamed(log["router"]), log["segments"], log["first"], log["last"], log["whole"], log["pruned_to"])
        for log in summary["logs"]
    ]
    holes = {(renamed(hole["router"]), at) for hole in summary["holes"]
             for at in (hole["first_seq"], hole["last_seq"])}  # fmt: skip
    statuses = Counter(one["status"] for one in summary["files"] if one["status"] not in ("copy", "pruned"))
    vouched = [text for text in summary["limits"] if text.startswith("Neighbours vouch")]
    return {name: summary[name] for name in SAME} | {
        "logs": sorted(logs), "holes": holes, "files": statuses, "vouched": len(vouched),
        "bad": summary["verdict"] == "bad",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if seed == 0 and name in QUICK else pytest.mark.long)
        for name in SETS
        for seed in range(LONG)
    ],
)
def test_an_export_of_what_was_spoilt(name: str, seed: int, fleets: Fleets, tmp_path: Path) -> None:
    """Quickly: several spoilt logs at once, beside sound ones, and a footer that an export must not set right."""
    nodes, messages = SHAPES[seed % len(SHAPES)]
    if name in (*QUICK, *BESIDE_A_SOUND_LOG):
        nodes, messages = 10, 200 if seed == 0 else 400
    scene = copied(fleets(nodes, messages, seed), tmp_path / "logs", seed)
    spoil(scene, SETS[name])
    listing = list_logs([scene.directory])
    export(*evidence_of(listing), tmp_path / "out", lambda: NAMES)
    before, after = (
        audit(listing, AuditSpan(scene.as_of_ns)),
        audit(list_logs([tmp_path / "out"]), AuditSpan(scene.as_of_ns)),
    )
    assert told(after) == told(before, NAMES.key)
    assert name in ABOUT_NAMES or after["verdict"] == before["verdict"]
