"""What is wrong with a class in http.py is found before it runs; what fails then is that service's alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from router.cli import main
from router.service.running import services_over_http
from router.settings import config
from router.settings.home import Home

RULES = "class Rings:\n    def __init__(self, setup): ...\n    def hear(self, heard, now):\n        return []\n"
METHODS = {
    "__init__": "def __init__(self, setup): ...",
    "operations": "def operations(self): return []",
    "hear_request": "def hear_request(self, request, now): return []",
    "hear": "def hear(self, heard, now): return []",
    "gone": "def gone(self, number, now): return []",
}


def node(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, **changed: str) -> Home:
    """Return a home whose node has a service with such a class."""
    folder = place / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rules.py").write_text(RULES)
    body = "".join(f"    {one}\n" for one in {**METHODS, **changed}.values())
    (folder / "http.py").write_text(f"class OverHttp:\n{body}")
    monkeypatch.syspath_prepend(str(place))
    home = Home(place / "home")
    done = CliRunner().invoke(main, ["--home", str(home.path), "init"])
    assert done.exit_code == 0, done.output
    written = home.config_path.read_text()
    home.config_path.write_text(re.sub(r"(?m)^services = \[", f'services = ["{name}", ', written, count=1))
    return home


@pytest.mark.parametrize(
    ("number", "changed", "said"),
    [
        (0, {"gone": ""}, "has no gone; write `def gone(self, number, now)`"),
        (1, {"hear": "async def hear(self, heard, now): return []"}, "has hear, which is async"),
        (2, {"hear_request": "def hear_request(self, request): return []"}, "has hear_request, which cannot be called"),
        (3, {"__init__": "def __init__(self): ..."}, "has an __init__ that cannot be called so"),
        (4, {"gone": "1 / 0"}, "ZeroDivisionError"),
    ],
)
def test_class_that_cannot_be_called_is_found_by_config_check_and_its_service_alone_is_broken(
    number: int, changed: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = node(tmp_path, monkeypatch, f"rings{number}", **changed)
    checked = CliRunner().invoke(main, ["--home", str(home.path), "config", "check"])
    assert checked.exit_code != 0 and said in " ".join(checked.output.split())
    (found,) = services_over_http(home, config.load(home.config_path)[0], "web")
    assert found.answers is None and said in found.fault


def test_class_that_fails_as_it_is_made_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = node(tmp_path, monkeypatch, "rings9", __init__="def __init__(self, setup): 1 / 0")
    (found,) = services_over_http(home, config.load(home.config_path)[0], "web")
    assert found.fault.startswith("http.py of rings9 failed in __init__ (rings9/http.py, line 2): ZeroDivisionError")
