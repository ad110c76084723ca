"""The client's files without a browser: whole, small, with the words and reasons of the router."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

import pytest
from site_of_pages import STATIC

from router.core.wire.reasons import Reason

CLIENT_BYTES_MAX = 72 * 1024
IMPORT = re.compile(r"""^(?:import|export)\b[^;'"]*?from\s*['"](\.[^'"]+)['"]""", re.MULTILINE)
EXPORTED = re.compile(r"^export (?:async )?(?:class|function|const) (\w+)", re.MULTILINE)
EXPORTED_TOGETHER = re.compile(r"^export \{([^}]*)\}", re.MULTILINE)
CLASS = re.compile(r"^export class (\w+)[^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
METHOD = re.compile(r"^  (?:async )?\*?(?:get )?(\w+)\(", re.MULTILINE)
REASONS = STATIC / "router" / "reasons.js"


def client() -> list[Path]:
    """Return the files that a page loads for the client alone: its own, and what these import."""
    found = [STATIC / "router.js", *(STATIC / "router").glob("*.js")]
    for path in found:  # which grows meanwhile
        imported = [(path.parent / name).resolve() for name in IMPORT.findall(path.read_text())]
        found += [one for one in dict.fromkeys(imported) if one not in found]
    return found


def test_client_and_what_it_takes_from_others_are_small() -> None:
    assert sum(len(zlib.compress(path.read_bytes(), 9)) + 12 for path in client()) <= CLIENT_BYTES_MAX


def test_each_script_imports_files_that_are_here() -> None:
    scripts = list(STATIC.rglob("*.js"))
    for path in scripts:
        for name in IMPORT.findall(path.read_text()):
            assert (path.parent / name).resolve() in scripts, f"{path.name} imports {name}"


def exported(text: str) -> set[str]:
    together = (one.split() for names in EXPORTED_TOGETHER.findall(text) for one in names.split(","))
    return {*EXPORTED.findall(text), *(one[-1] for one in together if one)}


@pytest.mark.parametrize("types", sorted(STATIC.glob("*.d.ts")), ids=lambda path: path.name)
def test_types_name_what_the_scripts_have(types: Path) -> None:
    script = types.with_name(types.name.replace(".d.ts", ".js")).read_text()
    typed, classes = types.read_text(), dict(CLASS.findall(script))
    assert exported(typed) and exported(typed) <= exported(script)
    for name, body in CLASS.findall(typed):
        if name in classes:
            assert set(METHOD.findall(body)) - {"constructor"} <= set(METHOD.findall(classes[name])), name


def test_each_vendored_package_has_its_licence_and_its_digest() -> None:
    vendor = STATIC / "vendor"
    locked = json.loads((vendor / "package-lock.json").read_text())["packages"]
    named = {path.split("/")[-1]: row for path, row in locked.items() if path}
    folders = {path.name for path in vendor.iterdir() if path.is_dir()}
    assert named.keys() == folders
    for name, row in named.items():
        assert (vendor / name / "LICENSE").is_file()
        assert row["integrity"].startswith("sha512-") and "resolved" not in row


def test_reasons_are_the_routers() -> None:
    rows = re.findall(r"^  (\d+): (\[.*\]),$", REASONS.read_text(), re.MULTILINE)
    assert rows
    for number, row in rows:
        reason = Reason(int(number))
        assert json.loads(row) == [reason.word, reason.sentence, reason.later]
    assert {int(number) for number, _ in rows} >= {int(one) for one in Reason}
