"""A verb of services is two files (law 6), shown by a node with the two verbs that docs/verbs.md builds.

The paper's files are written into a copy of the tree, where no other file changes: a service follows whoever writes to
it, and hears when they are connected and when they are gone; another one is answered when somebody connects.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trio
from rigs.patience import HANG_S
from rigs.programs_in_papers import DOCS, programs
from test_one_folder import Node

from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.service.running import key_of
from router.settings.home import Home

ALICE = SigningKey(bytes((41,)) * 32)
BOB = SigningKey(bytes((42,)) * 32)
NEW = (
    "router/service/verbs/follow.py",
    "router/core/control/follow.py",
    "watch/rules.py",
    "router/service/verbs/await_link.py",
    "router/core/control/await_link.py",
    "greet/rules.py",
)


def write(place: Path) -> None:
    """Write a copy of the router with the files of the paper."""
    shutil.copytree(DOCS.parent / "router", place / "router", ignore=shutil.ignore_patterns("__pycache__"))
    for service in ("watch", "greet"):
        (place / service).mkdir()
        (place / service / "__init__.py").touch()
    shown = programs("verbs.md")
    for path in NEW:
        assert not (place / path).exists(), "the verb is new"
        (place / path).write_text(shown[path])


async def test_verbs_of_two_files_are_asked_by_services_and_answered_at_once_or_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "place")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "place"))
    node = Node(tmp_path)
    with trio.fail_after(HANG_S):
        await node.run("init")
        (node.home / "router.toml").write_text('[node]\nservices = ["watch", "greet"]\n')
        await node.start()
        home = Home(node.home)
        async with connect(home=home) as reader:

            async def until(place: str) -> None:
                while json.loads(await reader.ask("service", "watch all")) != {ALICE.public.hex(): place}:
                    await trio.sleep(0.02)

            async with connect(home=home, key=ALICE) as alice:
                await alice.send(key_of(home, "watch").public, b"here I am")
                await until("here")
            await until("away")
            async with connect(home=home, key=ALICE):
                await until("here")
            for _ in range(2):  # a second request follows when the first is answered
                assert json.loads(await reader.ask("service", f"greet greet {BOB.public.hex()}")) == {"waiting": True}
                async with connect(home=home, key=BOB) as bob:
                    assert (await anext(bob.unicasts())).body == b"good morning"
        await node.process.stop()
