"""What a node imports: each megabyte counts for a phone or a small server."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

from router.cli.version import DISTRIBUTION, own_version

LEFT_OUT = {"bcrypt", "duckdb", "h11", "importlib.metadata", "numpy", "PIL", "sqlite3", "wsproto"}
"""Modules for what a core without the web side does not do, or only when asked."""
IMPORTING = """
import sys
import router.node.command, services.discovery.rules, services.pubsub.rules
from router.cli.version import own_version
own_version()
print(*sys.modules)
"""


def test_a_core_with_its_two_services_leaves_out_what_it_does_not_need() -> None:
    done = subprocess.run((sys.executable, "-c", IMPORTING), capture_output=True, text=True, check=True)
    assert LEFT_OUT & set(done.stdout.split()) == set()


def test_the_version_is_the_one_that_is_installed() -> None:
    assert own_version() == importlib.metadata.version(DISTRIBUTION)
