"""`router demo --meet`: its counts, and that a wrong count makes it fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rigs.patience import HANG_S

from router.demo import meet, on_a_lan
from router.demo.counts import BookCounts
from router.demo.meeting import Scene, SceneCounts, outcome, show
from router.demo.narrator import Telling

MEET = (sys.executable, "-m", "router", "demo", "--meet", "--json")
ON_A_LAN = "from router import cli; from router.demo import meet; meet.SCENES.pop('by-invitation'); cli.main()"
MESSAGES = 50


@pytest.mark.long
def test_those_who_meet_hear_everything_once(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(MEET, capture_output=True, text=True, timeout=HANG_S, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["ok"] and not found["failures"]
    scene = found["scenes"][0]
    assert (scene["title"], scene["published"], scene["first_s"] > 0) == ("by invitation", MESSAGES, True)
    assert [(one["where"], one["received"], one["lost"], one["doubled"]) for one in scene["heard"]] == [
        ("laptop 2", MESSAGES, 0, 0), ("laptop 3", MESSAGES - 1, 0, 0),
    ]  # fmt: skip
    assert scene["facts"]["uses taken of those given"] == [[1, 1], [2, 2]]
    assert not list(tmp_path.iterdir())
    lan = found["scenes"][1]
    if why_not := on_a_lan.why_not():
        assert lan["left_out"] == why_not
        return
    count = on_a_lan.APART
    assert (lan["title"], lan["published"], lan["first_s"] > 0) == ("on a local network", 2 * count, True)
    assert [(one["received"], one["lost"], one["doubled"], one["out_of_order"]) for one in lan["heard"]] == [
        (count, 0, 0, 0)
    ] * 4


def test_a_count_that_is_not_as_wanted_fails_the_demo() -> None:
    well = SceneCounts("by invitation", published=3, heard=[BookCounts("laptop 2", 3, 0, 0, 0, 0, 0)])
    well.check("guests", 3, 3)
    assert outcome([well])["ok"]
    wrong = SceneCounts("by invitation", published=3, heard=[BookCounts("laptop 2", 2, 1, 0, 0, 0, 0)])
    wrong.check("guests", 4, 3)
    assert outcome([well, wrong])["failures"] == [
        "by invitation: guests: 4 instead of 3", "by invitation: the app on laptop 2: 1 lost",
    ]  # fmt: skip


async def test_a_scene_that_cannot_be_played_is_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = cast(Scene, SimpleNamespace(TITLE="on a LAN", why_not=lambda: "namespaces are not permitted here"))
    monkeypatch.setattr(meet, "SCENES", {"lan": scene})
    found = await meet.perform(tmp_path, Telling(for_json=False))
    show(found, "met")
    said = capsys.readouterr().out
    assert "Meeting on a LAN is left out: namespaces are not permitted here" in said
    assert "met  on a LAN: left out, namespaces are not permitted here" in said
    assert outcome(found)["ok"] and not list(tmp_path.iterdir())


def test_a_signal_to_all_while_machines_are_made_ends_it_and_removes_its_homes(tmp_path: Path) -> None:
    tools, homes = tmp_path / "tools", tmp_path / "homes"
    tools.mkdir()
    homes.mkdir()
    for name, script in (("unshare", "echo held; exec cat"), ("nsenter", "kill -TERM 0"), ("ip", "exit 1")):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(homes), "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        (sys.executable, "-c", ON_A_LAN, "demo", "--meet"), capture_output=True, text=True, timeout=HANG_S,
        env=environment, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert not list(homes.iterdir())
