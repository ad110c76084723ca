"""A service is given another key by the files of the home: killed at any step, the next start finishes it."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from rigs.own_services import running
from rigs.patience import HANG_S

from router.client.node import connect
from router.disk import private_file
from router.node.key_files import KeyFiles
from router.rig.process import until
from router.settings import keyring, renewed_keys
from router.settings.home import Home

NAME = "service-echo"
BLOCK = '[[node.services]]\nname = "echo"\nmodule = "services.echo"\nrun = "{}"\n'


@pytest.mark.parametrize("step", ["begun", "written", "committed"])
async def test_killed_at_any_step_what_waits_and_what_still_comes_reaches_the_new_key(
    tmp_path: Path, step: str
) -> None:
    async with running(tmp_path, BLOCK.format("by-hand")) as (home, _), connect(home=home, as_name="asker") as asker:
        old, keys = keyring.load(home, NAME).public, home.key_path.parent
        await asker.send(old, b"waits", ttl_s=3600, plain=True)
    said = renewed_keys.begin(keys, NAME, lambda: keyring.load(home, NAME), int(time.time()))
    if step == "written":
        assert renewed_keys.rotate(keys, NAME) == said
    if step == "committed":
        shutil.copytree(keys, tmp_path / "before")
        async with running(tmp_path, BLOCK.format("by-hand")):
            await until("the rotation is finished", is_finished(home))
        shutil.rmtree(keys)
        (tmp_path / "before").rename(keys)
    async with running(tmp_path, BLOCK.format("inside")) as (home, _), connect(home=home, as_name="asker") as asker:
        with trio.fail_after(HANG_S):
            await asker.send(old, b"to the old address", plain=True)
            found = [await anext(asker.unicasts()) for _ in range(2)]
        assert {(one.source, one.body) for one in found} == {
            (said.new, b"echo: waits"),
            (said.new, b"echo: to the old address"),
        }
        await until("the rotation is finished", is_finished(home))
    assert keyring.load(home, NAME).public == said.new and keyring.former_addresses(home) == {old: NAME}


def is_finished(home: Home) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not renewed_keys.begun(home.key_path.parent)

    return look


def test_full_disk_leaves_the_old_key_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    old, files = keyring.load_or_create(home, NAME), KeyFiles(home.key_path.parent)
    said = renewed_keys.begin(files.keys, NAME, lambda: old, 1_800_000_000)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(private_file, "replace", full)
        assert files.rotated([NAME]) == {}
    assert "No space left on device; see that there is room" in caplog.text
    assert keyring.load(home, NAME).public == old.public
    assert files.rotated([NAME, "service-other"]) == {bytes(old.public): bytes(said.new)}
    assert keyring.load(home, NAME).public == said.new and files.begun() == [said]
