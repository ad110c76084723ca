"""The parts declared in a service's folder are found by name, and faults are reported in a sentence."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import services
from router.cli import main
from router.service import plugins
from router.settings.home import Home

RULES = """
from router.service.contract import Deed, Heard, Now, Setup


class Tally:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def hear(self, heard: Heard, now: Now) -> list[Deed]:
        return []
"""
SETTINGS = """
from typing import Annotated
from router.service.settings import Struct, about, span


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    \"\"\"What is counted.\"\"\"

    most: Annotated[int, span(1, 100, "The most that is counted.")] = 7
    word: Annotated[str, about("What to say.")] = "well"
"""
WITH_FAULT = """
    def {}:
        return {{}}["jar"]
"""
ASYNC_HEAR = "has hear, which is async; write `def hear(self, heard, now)`, since rules wait for nothing"
BAD_HEAR = "has hear, which cannot be called so; write `def hear(self, heard, now)`"
COMMANDS = """
import click
COMMANDS = {"NAME": "Say how much was counted."}
1 / 0
"""

REASON = "from router.core.wire.reasons import Reason\nFULL = Reason.declare({}, '{}', 'No more is counted.')\n"

_names = (f"tally{number}" for number in itertools.count())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a new service, in a directory on the path, with another name in each test."""
    found = tmp_path / "place" / "services" / next(_names)
    found.mkdir(parents=True)
    (found.parent / "__init__.py").touch()
    (found / "__init__.py").write_text('"""A tally."""\n')
    (found / "rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path / "place")
    monkeypatch.setattr(services, "__path__", [str(tmp_path / "place" / "services"), *services.__path__])
    yield found


def configured(tmp_path: Path, text: str) -> Home:
    home = Home(tmp_path / "home")
    CliRunner().invoke(main, ["--home", str(home.path), "init"])
    home.config_path.write_text(text)
    return home


def checked(tmp_path: Path, text: str) -> str:
    home = configured(tmp_path, text)
    found = CliRunner().invoke(main, ["--home", str(home.path), "config", "check"])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.output


def test_what_its_parts_have_in_common_is_no_service(folder: Path, tmp_path: Path) -> None:
    """The folder has a protocol with `hear` beside the rules, as every core made by `init` has."""
    rules = folder / "rules.py"
    part = "from typing import Protocol\n\nclass Part(Protocol):\n    def hear(self, heard, now): ...\n"
    rules.write_text(f"{part}{rules.read_text().replace('from __future__ import annotations', '')}")
    assert "is in order" in checked(tmp_path, f'[node]\nservices = ["services.{folder.name}"]\n')
    core = ("--home", str(tmp_path / "core"))
    CliRunner().invoke(main, [*core, "init", "--role", "core"])
    assert "is in order" in CliRunner().invoke(main, [*core, "config", "check"]).output


def test_settings_are_in_the_sample_judged_and_shown(folder: Path, tmp_path: Path) -> None:
    (folder / "settings.py").write_text(SETTINGS)
    name = folder.name
    home = Home(tmp_path / "new")
    CliRunner().invoke(main, ["--home", str(home.path), "init"])
    sample = home.config_path.read_text()
    for said in (f"#[services.{name}]", "# The most that is counted. (1 to 100)", "#most = 7"):
        assert said in sample
    text = f'[node]\nservices = ["services.{name}"]\n[services.{name}]\n'
    assert "is in order" in checked(tmp_path, text + "most = 9\n")
    assert f"line 4: unknown key `services.{name}.mots`; did you mean `most`?" in checked(tmp_path, text + "mots = 9\n")
    assert f"services.{name}.most is 900; it must be at most 100" in checked(tmp_path, text + "most = 900\n")
    home = configured(tmp_path, text + "most = 9\n")
    shown = CliRunner().invoke(main, ["--home", str(home.path), "config", "show", "services", "--json"]).stdout
    rows = {one["name"]: (one["value"], one["origin"]) for one in json.loads(shown)}
    assert rows == {
        f"services.{name}.most": (9, "router.toml"),
        f"services.{name}.word": ("well", "default"),
    }


@pytest.mark.parametrize(("default", "said"), [("0", "it must be at least 1"), ('"a"', "it must be a whole number")])
def test_default_that_its_own_form_does_not_allow_is_a_problem(
    folder: Path, tmp_path: Path, default: str, said: str
) -> None:
    (folder / "settings.py").write_text(SETTINGS.replace("= 7", f"= {default}"))
    text = f'[node]\nservices = ["services.{folder.name}"]\n'
    found = checked(tmp_path, text)
    assert said in found and f"services/{folder.name}/settings.py" in found


def test_instances_have_names_and_places_of_their_own(folder: Path, tmp_path: Path) -> None:
    (folder / "settings.py").write_text(SETTINGS)
    one = f'[[node.services]]\nname = "one"\nmodule = "services.{folder.name}"\n'
    two = f'[[node.services]]\nname = "two"\nmodule = "services.{folder.name}"\nrun = "apart"\n'
    assert "is in order" in checked(tmp_path, f"{one}{two}[services.two]\nmost = 3\n")
    assert 'line 4: node.services names "one" twice' in checked(tmp_path, one + one)
    assert 'did you mean "inside"?' in checked(tmp_path, one + 'run = "outside"\n')
    assert "has no `module`; add a line for it" in checked(tmp_path, '[[node.services]]\nname = "one"\n')


def test_protocols_beside_the_rules_are_no_services(folder: Path, tmp_path: Path) -> None:
    part = "\nfrom typing import Protocol\nclass Part(Protocol):\n    def hear(self, heard, now): ...\n"
    (folder / "rules.py").write_text(RULES + part)
    assert "is in order" in checked(tmp_path, f'[node]\nservices = ["services.{folder.name}", "services.discovery"]\n')


def test_commands_are_listed_without_being_loaded(folder: Path, tmp_path: Path) -> None:
    name = folder.name
    (folder / "commands.py").write_text(COMMANDS.replace("NAME", name))
    listed = CliRunner().invoke(main, ["--help"]).output
    assert name in listed and "Say how much was counted." in listed
    failed = CliRunner().invoke(main, [name])
    assert "ZeroDivisionError" in failed.output and "mend that file" in failed.output


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("rules.py", "def", "SyntaxError"),
        ("rules.py", "\nlife = 1 / 0", "rules.py, line 2: division by zero"),
        ("rules.py", "def mend():\n    raise ValueError('no')\nmend()", "rules.py, line 2: no"),
        ("rules.py", "x = 1", "does not hold exactly one service (there is none); write a class with"),
        ("rules.py", RULES + "\nclass Other(Tally):\n    pass\n", "(Tally, Other); name it as"),
        ("settings.py", "class Settings: ...", "has Settings that are no Struct"),
        ("settings.py", SETTINGS + WITH_FAULT.format("problems(self)"), "failed in services/"),
        (
            "settings.py",
            SETTINGS + WITH_FAULT.format("own_problems(self, own, router)"),
            "KeyError('jar'); mend that file",
        ),
        ("events.py", 'EVENTS = ["tally_up"]', "has EVENTS in events.py that are no table; write {event: sentence}"),
        ("__init__.py", "RUN = 7", "says RUN = something of type int; a service runs"),
        ("__init__.py", "ROLE = 'king'", "says ROLE = 'king'; there are"),
        ("rules.py", RULES.replace("    def hear", "    async def hear"), ASYNC_HEAR),
        ("rules.py", RULES.replace("return []", "yield 1").replace("    def hear", "    async def hear"), ASYNC_HEAR),
        ("rules.py", RULES.replace("def hear(self, heard: Heard, now: Now)", "def hear(self, heard)"), BAD_HEAR),
        (
            "rules.py",
            RULES.replace(", setup: Setup", "").replace("= setup", "= 1"),
            "write `def __init__(self, setup)`",
        ),
        (
            "rules.py",
            RULES + "    doors = {'desk': 'tcp://:1'}\n",
            "has doors, which is no method; write `def doors(self)`",
        ),
        (
            "rules.py",
            RULES + "    async def doors(self):\n        return {}\n",
            "has doors, which is async; write `def",
        ),
        ("rules.py", RULES + "    def settled(self):\n        return []\n", "write `def settled(self, now)`"),
        (
            "rules.py",
            RULES + "    admits = True\n",
            "has admits, which is no method; write `def admits(self, came, mono_s)`",
        ),
        ("events.py", 'EVENTS = {"Bad Word": "?"}', "in small letters, with a sentence of what it tells"),
        ("commands.py", "def", "has a commands.py that cannot be read: SyntaxError: "),
        ("commands.py", "COMMANDS = dict(tally='Ours.')", "cannot be read without running it; write COMMANDS = {"),
        ("commands.py", 'COMMANDS = {"Tally": "Ours."}\nTally = 1', "cannot be read without running it"),
        (
            "commands.py",
            'COMMANDS = {"tally-up": "Ours."}',
            'declares the command "tally-up" and has no function tally_up',
        ),
        ("scenarios.py", "def", "has a scenarios.py that cannot be read: SyntaxError: "),
        ("scenarios.py", 'SCENARIOS = {"many": "Many."}', 'declares the command "many" and has no function many'),
        ("settings.py", "def", "settings.py, line 1: invalid syntax"),
        ("events.py", "import nothing_at_all", "ModuleNotFoundError"),
        ("http.py", "def", "http.py, line 1"),
        ("http.py", "x = 1", "does not hold exactly one class with hear_request (there is none); write one"),
        (
            "reasons.py",
            REASON.format(121, "tally:low"),
            "with the number 121, outside its range; choose one from 256 to",
        ),
        (
            "commands.py",
            'COMMANDS = {"status": "Ours."}\ndef status(): ...',
            'declares the command "status", which belongs to the router itself',
        ),
        ("metrics.py", "families = 7", ".metrics has no function families; write `def families(status)`"),
        ("metrics.py", "def", "metrics.py, line 1: invalid syntax"),
        (
            "http.py",
            "class Over: ...",
            "class with hear_request (there is none); write one",
        ),
        ("reasons.py", REASON.format(400, "duplicate"), 'the word "duplicate" is that of reason 5 already'),
        ("reasons.py", REASON.format(2000, "tally:high"), "choose a number from 256 to 1023, and small letters"),
    ],
)
def test_what_is_wrong_with_a_folder_is_a_sentence(
    folder: Path, tmp_path: Path, file: str, text: str, said: str
) -> None:
    (folder / file).write_text(text)
    found = checked(tmp_path, f'[node]\nservices = ["services.{folder.name}"]\n')
    assert said in found and "router.toml line 2" in found and len(found.splitlines()) == 1, found


def test_a_service_without_its_folder_is_told_how_it_is_written(tmp_path: Path) -> None:
    assert "No module named 'echo'; write it with its folder: \"services.echo\"" in checked(
        tmp_path, '[node]\nservices = ["echo"]\n'
    )
    said = checked(tmp_path, '[node]\nservices = ["nothing_at_all"]\n')
    assert said.endswith("install it into this environment, or name its folder in PYTHONPATH\n")


def test_the_url_of_a_door_is_judged(folder: Path, tmp_path: Path) -> None:
    text = SETTINGS.replace("about", "door")
    (folder / "settings.py").write_text(text.replace('"well"', '""'))
    head = f'[node]\nservices = ["services.{folder.name}"]\n[services.{folder.name}]\nword = '
    for url in (
        "udp://127.0.0.1:4444",
        "tcp://[::1]:0",
        "tcp://:65535",
        "unix:board.sock?mode=660&group=staff",
        "",
        "tcp://a:1?key=k&certificate=c",
    ):
        assert "is in order" in checked(tmp_path, f'{head}"{url}"\n'), url
    for url in (
        "tpc://127.0.0.1:4444",
        "tcp://127.0.0.1",
        "udp://127.0.0.1:65536",
        "unix:",
        "board.sock",
        "tcp://a:1?key=k",
        "udp://a:1?key=k&certificate=c",
    ):
        assert "line 4" in (said := checked(tmp_path, f'{head}"{url}"\n')), said
        form = "udp://HOST:PORT, tcp://HOST:PORT, tcp://HOST:PORT?certificate=FILE&key=FILE, unix:PATH?mode=660&group"
        assert f"it must be {form}=NAME, or empty" in said


def test_a_name_that_stands_twice_is_the_cause_that_is_told(folder: Path, tmp_path: Path) -> None:
    (folder / "settings.py").write_text(SETTINGS)
    text = f'[node]\nservices = ["services.{folder.name}", "other.{folder.name}"]\n[services.{folder.name}]\nmost = 9\n'
    (tmp_path / "place" / "other").mkdir()
    (tmp_path / "place" / "other" / f"{folder.name}.py").write_text(RULES)
    told = checked(tmp_path, text).splitlines()
    assert len(told) == 1 and f'node.services names "{folder.name}" twice' in told[0], told


def test_a_fault_in_a_command_of_a_service_is_that_service_s(folder: Path, tmp_path: Path) -> None:
    name = folder.name
    text = f'import click\nCOMMANDS = {{"{name}": "Say."}}\n@click.command()\ndef {name}() -> None:\n    1 / 0\n'
    (folder / "commands.py").write_text(text)
    told = CliRunner().invoke(main, [name]).output
    assert f"something is wrong in {folder / 'commands.py'}, line 5: ZeroDivisionError" in told
    assert "that file belongs to a service: tell its author" in told


def test_a_command_of_a_service_that_is_not_on_the_path_has_a_hint(tmp_path: Path) -> None:
    home = configured(tmp_path, '[node]\nservices = ["far_bell"]\n')
    told = CliRunner().invoke(main, ["--home", str(home.path), "ringing"]).output
    assert 'there is no command "ringing"; it may be one of far_bell, whose folder is not in PYTHONPATH' in told


def test_a_service_without_settings_takes_none(folder: Path, tmp_path: Path) -> None:
    text = f'[node]\nservices = ["services.{folder.name}"]\n[services.{folder.name}]\na = 1\n'
    assert f"line 4: services.{folder.name}.a: services.{folder.name} has no settings" in checked(tmp_path, text)


def test_a_class_is_chosen_by_name() -> None:
    assert plugins.load("services.echo:Echo").kind is plugins.load("services.echo").kind is not None
