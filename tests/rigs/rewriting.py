"""Rewrite the asserts of each test file once for all workers.

After a checkout no rewritten file is in the cache, and workers that collect the same files in the same order would each
rewrite all of them, 5 to 10 s of CPU time each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def pytest_configure(config: pytest.Config) -> None:
    """Go through the test files in an order of this worker's own, and leave those that another has done."""
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


def _files(named: list[str]) -> Iterator[Path]:
    for place in {Path(one.partition("::")[0]).absolute() for one in named}:
        yield from place.rglob("test_*.py") if place.is_dir() else (place,)
