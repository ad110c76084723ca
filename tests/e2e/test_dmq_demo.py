"""`router dmq demo` on real processes: every count that it checks holds, however often the node is killed."""

from __future__ import annotations

import json
import subprocess

import pytest
from rig import ROUTER
from rigs.patience import HANG_S


def played(*options: str) -> dict[str, object]:
    done = subprocess.run(
        [*ROUTER, "dmq", "demo", "--json", *options], capture_output=True, text=True, timeout=4 * HANG_S, check=False
    )
    assert done.stdout, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert found["ok"], [one for one in found["checks"] if not one["holds"]]  # type: ignore[attr-defined]
    assert done.returncode == 0
    return found


def test_a_killed_node_loses_nothing_that_it_has_accepted() -> None:
    assert played("--messages", "6", "--kills", "1")["kills"] == 1


@pytest.mark.long
@pytest.mark.parametrize("kills", (20, 100))
def test_however_often_it_is_killed(kills: int) -> None:
    assert played("--messages", "40", "--kills", str(kills))["kills"] == kills
