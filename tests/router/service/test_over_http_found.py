"""The services that answer over HTTP, as the web side finds them: one that cannot is named, and the others answer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

from router.service.running import services_over_http
from router.settings.config import Config
from router.settings.home import Home

SETTINGS = """
from typing import Annotated
from router.service.settings import Struct, span

class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    \"\"\"A bell.\"\"\"

    most: Annotated[int, span(1, 100, "The most rings.")] = 3
"""
HTTP = """
from router.service.http import Operation

class OverHttp:
    def __init__(self, setup):
        {init}

    def operations(self):
        return [Operation("ring", "POST", "/ring", "Ring.", needs_token={guarded})]

    def hear_request(self, request, now):
        return []
"""
FAULTS = {
    "a setting out of its range": ({"most": 1000}, "pass", False, r"services\.bell_bad\.most"),
    "a setting of another type": ({"most": "many"}, "pass", False, r"services\.bell_bad\.most"),
    "a setting that is not there": ({"least": 1}, "pass", False, r"services\.bell_bad\.least"),
    "a class that fails": ({}, "raise ValueError('no clapper')", False, "no clapper"),
    "a right that nothing judges": ({}, "pass", True, "its operation ring needs a token.*hear_request"),
    "a file that cannot be read": ({}, "(", False, "http.py"),
}


def write(place: Path, name: str, init: str = "pass", guarded: bool = False) -> None:
    folder = place / name
    folder.mkdir()
    (folder / "__init__.py").write_text('"""A bell."""\n')
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "http.py").write_text(HTTP.format(init=init, guarded=guarded))


@pytest.mark.parametrize("fault", FAULTS)
def test_service_that_cannot_answer_over_http_is_named_and_the_others_answer(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, init, guarded, text = FAULTS[fault]
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, "bell_bad", init, guarded)
    write(tmp_path, "bell_good")
    config = msgspec.convert(
        {"node": {"services": ["bell_bad", "bell_good", "web"]}, "services": {"bell_bad": options}}, Config
    )
    said: list[str] = []
    try:
        found = services_over_http(Home(tmp_path / "home"), config, "web", said.append)
    finally:
        for name in [one for one in sys.modules if one.startswith("bell_")]:
            del sys.modules[name]
    assert [one.name for one in found] == ["bell_good"]
    [warning] = said
    assert re.search(text, warning) and '"bell_bad"' in warning
