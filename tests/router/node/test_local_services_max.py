"""An app that wants its key kept when no further key is: it is told so at once, and so is the operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.serving import serving

from router.client.errors import NodeUnavailable
from router.client.node import connect


async def test_one_app_too_many_is_told_which_limit_it_met(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path / "home", {"limits.local_services_max": 1}) as home:
        async with connect(home=home, as_name="first"), connect(home=home) as fleeting:
            assert fleeting.is_up
            with pytest.raises(NodeUnavailable) as told:
                async with connect(home=home, as_name="second") as second:
                    async for _ in second:
                        pass
        async with connect(home=home, as_name="first") as known:
            assert known.is_up
    assert "limits.local_services_max" in told.value.text and "does not know this app's key" not in told.value.text
    [warning] = [one.getMessage() for one in caplog.records if "is not let in" in one.getMessage()]
    assert "limits.local_services_max" in warning
