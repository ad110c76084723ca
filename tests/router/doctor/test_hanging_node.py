"""A node that accepts connections and never answers does not hold up the doctor."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from router.doctor import command
from router.settings import keyring
from router.settings.home import Home


async def test_a_node_that_does_not_answer_is_found_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "h")
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    monkeypatch.setattr(command, "NODE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home.prepare_socket()))
        silent.listen()
        findings, is_running = await command.examine(home)
    [node] = [one for one in findings if one.check == "node"]
    assert not is_running and (node.ok, node.found) == (None, "the node does not answer")
    assert node.remedy == "see its log, and start it again"
    home.clear_socket()
