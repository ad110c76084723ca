"""`config check` and `serve` say which verbs of services have no part, and which have the word of another."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.commands import Run

VERB = """
from typing import ClassVar
from router.service.verbs.verb import Request

class {name}(Request, frozen=True):
    WORD: ClassVar[str] = "{word}"
"""
DEAF = """
from router.core.control.verb_part import VerbPart
from router.service.verbs.chime import Chime

class Chimes(VerbPart):
    def chime(self, link, said, now):
        return {}
"""
MISSING = 'Chime of router/service/verbs/chime.py, the verb "chime", has no part: none in router/core/control/ names it'


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder whose folders `verbs` and `control` belong to those of the router, until the test is over."""
    packages = {"verbs": "router.service.verbs", "control": "router.core.control"}
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patched:
        for name, module in packages.items():
            (tmp_path / name).mkdir()
            package = importlib.import_module(module)
            patched.setattr(package, "__path__", [*package.__path__, str(tmp_path / name)])
        yield tmp_path
    for module in set(sys.modules) - before:
        if module.endswith((".chime", ".chime_again")):
            parent, _, name = module.rpartition(".")
            delattr(sys.modules[parent], name)
            del sys.modules[module]
    gc.collect()


def write(tree: Path, file: str, text: str) -> None:
    (tree / file).write_text(text)


def test_a_verb_without_a_part_is_a_warning_and_the_node_may_start(router: Run, tree: Path) -> None:
    router("init")
    write(tree, "verbs/chime.py", VERB.format(name="Chime", word="chime"))
    checked = router("config", "check")
    assert checked.exit_code == 0 and "can be used, but:" in checked.stdout and MISSING in checked.stderr
    write(tree, "control/chime.py", DEAF)
    checked = router("config", "check")
    assert checked.exit_code == 0 and MISSING in checked.stderr
    assert "Chimes of router/core/control/chime.py hears nothing; write its table HEARS" in checked.stderr


def test_two_verbs_of_one_word_are_named_with_their_files_and_keep_the_node_from_starting(
    router: Run, tree: Path
) -> None:
    router("init")
    write(tree, "verbs/chime.py", VERB.format(name="Chime", word="dial"))
    checked, served = router("config", "check"), router("serve", "--verifiers", "0")
    assert (checked.exit_code, served.exit_code) == (2, 2) and checked.stderr == served.stderr
    assert "Chime of router/service/verbs/chime.py" in checked.stderr
    assert "Dial of router/service/verbs/dial.py" in checked.stderr
    assert 'have the word "dial"; give one of them another WORD' in checked.stderr


def test_a_file_of_a_verb_that_cannot_be_loaded_is_named_with_its_line(router: Run, tree: Path) -> None:
    router("init")
    write(tree, "control/chime.py", "\nbell = {}['rope']\n")
    checked, served = router("config", "check"), router("serve", "--verifiers", "0")
    assert (checked.exit_code, served.exit_code) == (2, 2) and checked.stderr == served.stderr
    assert "router/core/control/chime.py cannot be loaded" in checked.stderr
    assert "KeyError('rope')" in checked.stderr and "mend that file" in checked.stderr
