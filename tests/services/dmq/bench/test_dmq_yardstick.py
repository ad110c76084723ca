"""The yardstick of the DMQ's bench is measured on both sides of what stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from services.dmq.bench import yardstick
from services.dmq.bench.yardstick import Yardstick, beside


def test_bare_verification_is_the_mean_of_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []

    def run(path: Path) -> Yardstick:
        order.append(path)
        return Yardstick(100.0 * len(order), 0.0, 0.0)

    async def measure() -> str:
        order.append("measured")
        return "found"

    monkeypatch.setattr(yardstick, "run", run)
    path = Path("wires")
    assert trio.run(beside, path, measure) == ("found", 200.0)
    assert order == [path, "measured", path]
