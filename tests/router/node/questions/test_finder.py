"""A file in the folder of questions is all that a new word needs; a class that needs more must be given."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.plain_questions import plain_questions
from rigs.serving import serving

from router.client.node import connect
from router.node import questions
from router.node.questions.finder import load_questions

WEATHER = '''"""The weather at the node."""

from router.node.questions.question import CycleView, Questions, Respond


class WeatherQuestions(Questions):
    """Tells the weather."""

    def answers(self) -> dict[str, Respond]:
        return {"weather": self._weather}

    def _weather(self, asked: CycleView, place: str) -> dict[str, object]:
        return {"place": place, "sky": "clear", "apps": len(asked.open_links.writers)}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are in the folder of questions during a test."""
    added = tmp_path / "added"
    added.mkdir()
    monkeypatch.setattr(questions, "__path__", [*questions.__path__, str(added)])
    yield added
    for one in added.glob("*.py"):
        sys.modules.pop(f"{questions.__name__}.{one.stem}", None)
        vars(questions).pop(one.stem, None)


async def test_load_questions_finds_a_file_of_which_nothing_else_knows(folder: Path, tmp_path: Path) -> None:
    (folder / "weather.py").write_text(WEATHER)
    async with serving(tmp_path / "home", {}) as home, connect(home=home) as node:
        assert json.loads(await node.ask("weather", "here")) == {"place": "here", "sky": "clear", "apps": 1}
        said = {"error": "this node does not know the inquiry 'climate'"}
        assert json.loads(await node.ask("climate")) == said


def test_load_questions_makes_each_class_that_is_not_given_once() -> None:
    found = load_questions(*(given := plain_questions()))
    assert found[: len(given)] == given and len({type(one) for one in found}) == len(found)
    words = sorted(word for one in found for word in one.answers())
    assert " ".join(words) == "clock drop groups held invited log metrics peers queue reload report status whence"


def test_load_questions_tells_which_class_is_to_be_given() -> None:
    with pytest.raises(TypeError, match="StatusQuestions"):
        load_questions(*plain_questions()[1:])
