"""The host of rules calls each optional method of the contract's rules by the name that it has there."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from rigs.own_services import ask, one_service

from router.service import contract as c
from router.service import rules_host

RULES = """
from router.service import contract as c


class Paced:
    def __init__(self, setup):
        self.ended, self.delays, self.urgent = 0, 0, []

    def hear(self, heard, now):
        found = [self.ended, self.delays, self.urgent]
        return [c.Answer(heard.number, found)] if isinstance(heard, c.Asked) else []

    def settled(self, now):
        self.ended += 1
        return []

    def batch_delay_s(self, now):
        self.delays += 1
        return 0.0

    def is_urgent(self, heard, now):
        self.urgent.append(type(heard).__name__)
        return self.urgent.count("Asked") > 1
"""


def test_the_host_looks_up_what_the_contract_names() -> None:
    optional = {
        name
        for rules in (c.BatchRules, c.PacedRules)
        for name, _ in inspect.getmembers(rules, inspect.isfunction)
        if not name.startswith("_") and name != "hear"
    }
    assert optional == {"settled", "batch_delay_s", "is_urgent", "patient_doors"}
    text = inspect.getsource(rules_host)
    assert all(f'getattr(self._rules, "{name}"' in text for name in optional)


@pytest.mark.parametrize("settles", [True, False])
async def test_the_host_asks_rules_for_their_delay_and_ends_each_batch(
    *, settles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = RULES if settles else RULES.replace("def settled", "def unsettled")
    async with one_service(tmp_path, monkeypatch, "paced", rules, module=f"paced_rules_{settles}") as (_, node):
        ended, delays, urgent = await ask(node, "paced it")
        assert (ended >= 1) is settles and delays >= 1 and urgent.count("Asked") == 1
        more, later, urgent = await ask(node, "paced it")
        assert (more > ended) is settles and urgent.count("Asked") == 2
        assert later == delays, "what is urgent waits for no delay, so none is asked for"
