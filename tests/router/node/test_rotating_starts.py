"""A node that is ordered to get another key does so between two runs; what hinders that leaves it as it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from router.core.routing.effects import BeginAnew
from router.disk import private_file
from router.node.node_starts import NodeStarts
from router.settings import keyring, node_rotation
from router.settings.home import Home
from router.settings.own_successions import SuccessionError

NOW_S = 1_800_000_000


def home_in(path: Path) -> Home:
    home = Home(path / "home")
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    return home


async def test_it_has_another_key_in_its_next_run_and_the_same_in_those_after(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    starts, keys = NodeStarts(home.path), list[bytes]()

    async def run(again: bool) -> None:
        new = starts.rotate(home)
        keys.append(bytes(keyring.load(home, keyring.NODE).public))
        assert new == (keys[-1] if len(keys) == 2 else None) and again is (len(keys) > 1)
        if len(keys) < 3:
            await starts.begin_anew(BeginAnew(rotates_s=NOW_S) if len(keys) == 1 else BeginAnew())

    await starts.each(run)
    assert len(keys) == 3 and keys[0] != keys[1] == keys[2]


async def test_another_order_to_begin_anew_takes_no_rotation_back(tmp_path: Path) -> None:
    """Both were answered: `router keys rotate pubsub` while the node ends for `router keys rotate-node`."""
    home = home_in(tmp_path)
    old, starts = keyring.load(home, keyring.NODE).public, NodeStarts(home.path)
    await starts.begin_anew(BeginAnew(rotates_s=NOW_S))
    await starts.begin_anew(BeginAnew())
    assert starts.rotate(home) == keyring.load(home, keyring.NODE).public != old
    assert starts.rotate(home) is None, "once"


async def test_a_full_disk_leaves_the_key_and_the_next_start_finishes_what_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = home_in(tmp_path)
    old, starts = keyring.load(home, keyring.NODE).public, NodeStarts(home.path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    await starts.begin_anew(BeginAnew(rotates_s=NOW_S))
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(private_file, "create", full)
        assert starts.rotate(home) is None
    assert "No space left on device" in caplog.text and "goes on with the key that it has" in caplog.text
    assert starts.rotate(home) is None and keyring.load(home, keyring.NODE).public == old
    await starts.begin_anew(BeginAnew(rotates_s=NOW_S))
    with monkeypatch.context() as patched:
        patched.setattr(private_file, "replace", full)
        with pytest.raises(SuccessionError, match="No space left"):
            starts.rotate(home)
    assert node_rotation.has_begun(home)
    assert NodeStarts(home.path).rotate(home) == keyring.load(home, keyring.NODE).public != old
