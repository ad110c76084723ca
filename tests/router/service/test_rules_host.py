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
