"""The error that a wallet gets from a pool that does not answer, on a real node."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.own_services import one_service

from router.cli.exits import Failure
from services.capd import client
from services.capd.core import messages as m

MUTE = """
from router.service.contract import Answer, Asked, Started, Warn

class Mute:
    def __init__(self, setup):
        self.address = setup.key.hex()

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            return [Answer(heard.number, {"address": self.address})]
        return [Warn("it is deaf; give it time")] if isinstance(heard, Started) else []
"""


async def test_ask_reports_the_warning_of_a_pool_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 1.0)
    async with (
        one_service(tmp_path, monkeypatch, "capd", MUTE, module="mute") as (_, node),
        client.pool_of(node) as pool,
    ):
        with pytest.raises(Failure, match=r"^the pool has not answered within 1 s: it is deaf; give it time$"):
            await pool.ask(m.Info)
