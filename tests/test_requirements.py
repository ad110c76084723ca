"""The lock files: every package pinned with hashes, no index named, and everything that pyproject.toml requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: dict[str, list[str | dict[str, str]]] = PROJECT["dependency-groups"]
SPARK = PROJECT["project"]["optional-dependencies"]["spark"]
LOCKS = {  # as `make lock` makes them
    "run": ["build"],
    "spark": ["build", "build-spark"],
    "dev": ["build", "build-spark", "dev"],
    "setup": ["setup"],
    "trio-typing": ["trio-typing-compat"],
    "lake": ["lake"],
}


def pinned_lines(lock: str) -> list[tuple[str, str]]:
    """Return name and version of each line with a hash; a package may have a line for each range of Pythons."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    return re.findall(r"^([\w.-]+)==(\S+)[^\n]*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return dict(pinned_lines(lock))


def wanted(group: str) -> list[str]:
    own = [entry for entry in GROUPS[group] if isinstance(entry, str)]
    included = [wanted(entry["include-group"]) for entry in GROUPS[group] if isinstance(entry, dict)]
    return sum(included, own)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_with_hashes_and_names_no_place(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert "://" not in text and "index" not in text
    assert len(pinned_lines(lock)) == len(re.findall(r"^[\w.-]+", text, re.MULTILINE))


@pytest.mark.parametrize(("lock", "groups"), LOCKS.items())
def test_a_lock_holds_what_the_project_asks_for(lock: str, groups: list[str]) -> None:
    pinned = pins(lock)
    extra = SPARK if "build-spark" in groups else []
    product = [] if lock in ("setup", "lake") else PROJECT["project"]["dependencies"]
    for line in [*product, *extra, *(each for group in groups for each in wanted(group))]:
        requirement = Requirement(line)
        version = pinned.get(canonicalize_name(requirement.name), "nothing")
        assert requirement.specifier.contains(version), f"{lock}.txt has {version} for {line}: run `make lock`"


def test_the_product_is_the_same_with_and_without_the_tools() -> None:
    run, spark, dev = pins("run"), pins("spark"), pins("dev")
    assert {name: spark.get(name) for name in run} == run
    assert {name: dev.get(name) for name in spark} == spark


def test_the_build_group_is_what_the_build_system_asks_for() -> None:
    assert wanted("build") == PROJECT["build-system"]["requires"]


def test_what_fetches_the_packages_is_itself_fetched_by_its_hash() -> None:
    fetches = [
        line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line or "pip sync" in line
    ]
    assert any("-m pip install" in one and "--require-hashes -r $<" in one for one in fetches)
    assert all("--require-hashes" in one or "--no-deps --no-build-isolation" in one for one in fetches)
