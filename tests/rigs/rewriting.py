"""Rewrite the asserts of each test file, compile each module, and find its constants for hypothesis: each once.

After a checkout none is in its cache, and workers that go through the same files in the same order would each do all
of them, 10 s, 5 s and 4 s of CPU time each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from compileall import compile_file
from hashlib import sha1
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis.configuration import storage_directory
from hypothesis.internal.constants_ast import constants_from_module

TREE = Path(__file__).resolve().parents[2]
PACKAGES = ("router", "services", "transports", "spark_analytics")
"""Hypothesis tries constants of modules in these, of which each worker imports nearly all."""


def pytest_configure(config: pytest.Config) -> None:
    """Go through modules and test files in an order of this worker's own, and leave those that another has done."""
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    state, files = config.stash[rewrite.assertstate_key], sorted(_files(config.args))
    random.Random(worker["workerid"]).shuffle(files)
    for file in files:
        cache = rewrite.get_cache_dir(file)
        kept = cache / (file.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(file, kept) is None and rewrite.try_makedirs(cache):
            digest, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, digest, kept)
    for file in _modules(worker):
        compile_file(file, quiet=2)


def _modules(worker: dict[str, Any]) -> list[Path]:
    """Return the modules in an order of this worker's own."""
    files = sorted(one for package in PACKAGES for one in (TREE / package).rglob("*.py"))
    random.Random(worker["workerid"]).shuffle(files)
    return files


def _files(named: list[str]) -> Iterator[Path]:
    for place in {Path(one.partition("::")[0]).absolute() for one in named}:
        yield from place.rglob("test_*.py") if place.is_dir() else (place,)


def pytest_collection(session: pytest.Session) -> None:
    """Go through the modules in the same way. Hypothesis allows no access to its cache before the session begins."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    done = storage_directory("constants").path
    for file in _modules(worker):
        if not (done / sha1(file.read_bytes()).hexdigest()[:16]).exists():
            module = ModuleType(file.stem)
            module.__file__ = str(file)
            constants_from_module(module)
