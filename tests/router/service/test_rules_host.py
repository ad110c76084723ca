"""The host of rules carries out their deeds in the order in which they are given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rigs.serving import serving

from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.settings.home import Home

KEYS = [SigningKey(bytes((n,)) * 32).public.hex() for n in range(1, 9)]
FICKLE = f"""
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, AddNeighbour

KEYS = {KEYS}

class Fickle:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        if not isinstance(heard, Asked):
            return []
        until_s = int(now.wall_s) + 3600
        last = {{"forget": 0, "know": until_s}}[heard.word]
        keys = [PublicKey(bytes.fromhex(key)) for key in KEYS]
        known = [AddNeighbour(key, ("tls://127.0.0.1:9",), until_s - last) for key in keys]
        return [*known, *(AddNeighbour(key, ("tls://127.0.0.1:9",), last) for key in keys), Answer(heard.number, last)]
"""


async def test_of_two_requests_about_one_key_the_later_one_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fickle.py").write_text(FICKLE)
    monkeypatch.syspath_prepend(tmp_path)
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["fickle"]\n')
    async with serving(home.path, {}), connect(home=home) as node:
        for word, known in (("know", set(KEYS)), ("forget", set())):
            await node.ask("service", f"fickle {word}")
            assert {one["address"] for one in json.loads(await node.ask("peers")) if one["learned"]} == known


HASTY = """
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, AddNeighbour, Send, Sent

class Hasty:
    def __init__(self, setup):
        self.asked, self.refused = 0, []

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            self.asked, until_s = heard.number, int(now.wall_s) + 3600
            keys = [PublicKey(bytes.fromhex(key)) for key in heard.argument.split()]
            known = [AddNeighbour(key, ("tls://127.0.0.1:9",), until_s) for key in keys]
            return [*(Send(key, b"hello", 60, tag=key.hex()) for key in keys), *known]
        if isinstance(heard, Sent):
            self.refused.append(str(heard.refused))
            return [Answer(self.asked, self.refused)] if len(self.refused) == 8 else []
        return []
"""


async def test_what_is_sent_goes_after_what_is_asked_of_the_router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour is known before a message is sent to it, whatever the order of the deeds of one event."""
    (tmp_path / "hasty.py").write_text(HASTY)
    monkeypatch.syspath_prepend(tmp_path)
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["hasty"]\n')
    async with serving(home.path, {}), connect(home=home) as node:
        assert json.loads(await node.ask("service", f"hasty send {' '.join(KEYS)}")) == ["None"] * 8


PACED = """
from router.service.contract import Answer, Asked

class Paced:
    def __init__(self, setup):
        self.delays, self.heard = 0, []

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            self.heard.append(heard.number)
        return []

    def batch_delay_s(self, now):
        self.delays += 1
        return 0.01

    def settled(self, now):
        heard, self.heard = self.heard, []
        return [Answer(number, self.delays) for number in heard]
"""


async def test_paced_rules_are_asked_how_long_the_next_cycle_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "paced.py").write_text(PACED)
    monkeypatch.syspath_prepend(tmp_path)
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["paced"]\n')
    async with serving(home.path, {}), connect(home=home) as node:
        delays = [json.loads(await node.ask("service", f"paced {word}")) for word in ("once", "again")]
    assert 0 < delays[0] < delays[1], "the host asks before each cycle"
