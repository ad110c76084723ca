"""A disk of one megabyte, in a namespace of its own, for tests of full disks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def on_a_small_disk(directory: Path, script: str) -> list[str]:
    """Run a shell script in `directory`, where `full` is a disk of 1 MB; return the lines it prints, and the files that
    are left."""
    (directory / "full").mkdir()
    if subprocess.run((*NAMESPACE, "mount", "-t", "tmpfs", "none", directory / "full"), capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    mounted = f"mount -t tmpfs -o size=1m none full\n{script} 2>&1 >/dev/null\necho code $?\necho $(find full)"
    ran = subprocess.run((*NAMESPACE, "sh", "-c", mounted), cwd=directory, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()
