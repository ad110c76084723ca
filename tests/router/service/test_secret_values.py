"""A service that keeps secrets: its rules read them like other values, and what it forgets is gone from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.own_services import ask, one_service

from router.disk.state.secrets import KEY_FILE
from router.disk.state.service_state import State

VAULT = """
from router.service.contract import Answer, Asked, Forget, Put

class Vault:
    def __init__(self, setup):
        self.kept = setup.kept

    def hear(self, heard, now):
        if not isinstance(heard, Asked):
            return []
        if heard.word == "keep":
            return [
                Put(b"plain", b"in the open"), Put(b"code", heard.argument.encode(), secret=True),
                Answer(heard.number, "kept"),
            ]
        if heard.word == "forget":
            known = [Put(b"code", None), Put(b"next", b"the next code", secret=True)]
            return [*known, Forget(), Answer(heard.number, "gone")]
        return [Answer(heard.number, {key.decode(): value.decode() for key, value in self.kept.items()})]
"""


async def test_what_a_service_forgets_is_gone_from_its_state_and_the_rest_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_service(tmp_path, monkeypatch, "vault", VAULT) as (home, node):
        folder = home.path / "services" / "vault"
        assert await ask(node, "vault keep open-sesame") == "kept"
        assert await ask(node, "vault show") == {"plain": "in the open", "code": "open-sesame"}
        old_key = (folder / KEY_FILE).read_bytes()
        assert await ask(node, "vault forget") == "gone"
        assert await ask(node, "vault show") == {"plain": "in the open", "next": "the next code"}
    found = b"".join(one.read_bytes() for one in folder.iterdir())
    assert b"in the open" in found and b"sesame" not in found and b"the next code" not in found
    assert old_key.split()[-1] not in found
    state = State(folder)
    assert dict(state) == {b"plain": b"in the open", b"next": b"the next code"}
    state.close()
