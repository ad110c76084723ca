"""`router demo --overlay`: its counts, and how it detects a message that came before its cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rigs.patience import HANG_S

from router.cli import main
from router.demo.overlay import IN_KILLS, SHORT, WHILE_AWAY
from router.demo.said import TalkMessage, read_body, too_early
from router.demo.talker import TalkerBook

OVERLAY = (sys.executable, "-m", "router", "demo", "--overlay", "--json")


@pytest.mark.long
def test_two_families_hear_each_other_through_kills_and_an_absence(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(OVERLAY, capture_output=True, text=True, timeout=HANG_S, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["ok"] and not found["failures"] and not list(tmp_path.iterdir())
    families, kills, absence = found["scenes"]
    assert (families["published"], families["first_s"] > 0) == (3, True)
    assert kills["published"] == 3 + 3 * IN_KILLS
    assert [one["received"] for one in kills["heard"]] == [2 + 2 * IN_KILLS] * 3
    missed = WHILE_AWAY + SHORT
    assert absence["facts"]["expired of those that were missing"] == [SHORT, missed]
    assert absence["heard"][1]["received"] == kills["heard"][1]["received"] + WHILE_AWAY
    assert absence["facts"]["copies from core to core"] > 0
    for scene in found["scenes"]:
        assert all(
            one["lost"] == one["doubled"] == one["out_of_order"] == one["strange"] == 0 for one in scene["heard"]
        )


def test_a_message_that_comes_before_what_its_author_had_read_is_found() -> None:
    first, second, answer = (
        TalkMessage("ann", 1, {}),
        TalkMessage("ann", 2, {}),
        TalkMessage("bob", 1, {"ann": 2, "eve": 3}),
    )
    assert read_body(answer.body()) == answer
    assert too_early([first, second, answer], "eve") == []
    assert too_early([first, answer, second], "eve") == ["bob 1 came before ann 2"]
    assert too_early([second, first], "eve") == ["ann 2 came before ann 1"]
    assert too_early([first, second, answer], "tom") == ["bob 1 came before eve 1"]


def test_a_talkers_book_has_each_message_once_also_after_a_restart(tmp_path: Path) -> None:
    said = TalkMessage("ann", 1, {"bob": 2})
    book = TalkerBook(tmp_path / "book")
    book.write(b"1", said.body())
    book.write(b"1", said.body())
    assert (book.again, book.rows()) == (1, [("31", said)])
    book.close()
    again = TalkerBook(tmp_path / "book")
    assert (again.read_of["ann"], again.again) == (1, 0)
    again.close()


def test_one_story_at_a_time() -> None:
    done = CliRunner().invoke(main, ["demo", "--meet", "--overlay"])
    assert done.exit_code == 2 and "play one after the other" in done.output
