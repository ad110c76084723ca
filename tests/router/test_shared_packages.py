"""A folder of a user's that stands before ours on Python's path adds to our services and transports, and hides none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FINDS = """
import router.transport.contract as transport
from router.service import plugins, worker
from router.settings import config_services
assert transport.load("tls") and plugins.load("services.discovery")
assert {"discovery", "pubsub", "capd", "dmq"} <= {name for name, _ in config_services.settings()}
assert "returned" not in worker.compute("services.dmq.signature_job:none_such", b"")[1]
assert "none_such" in worker.compute("services.dmq.signature_job:none_such", b"")[1]
"""


@pytest.mark.parametrize("file", ["", "__init__.py"])
def test_an_empty_folder_hides_none_of_ours(tmp_path: Path, file: str) -> None:
    for name in ("transports", "services"):
        (tmp_path / name).mkdir()
        if file:
            (tmp_path / name / file).touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FINDS], env=environment, check=True)


def test_a_module_of_that_name_hides_none_of_ours(tmp_path: Path) -> None:
    for name in ("transports.py", "services.py"):
        (tmp_path / name).touch()
    subprocess.run([sys.executable, "-c", FINDS], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True)


def test_a_transport_in_a_folder_before_ours_is_found_beside_ours(tmp_path: Path) -> None:
    (tmp_path / "transports").mkdir()
    (tmp_path / "transports" / "__init__.py").touch()
    (tmp_path / "transports" / "drum.py").write_text("SOUND = 'boom'\n")
    said = "from router.transport.contract import load; print(load('drum').SOUND, load('unix').__name__)"
    done = subprocess.run(
        [sys.executable, "-c", said], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout == "boom transports.unix\n", done.stderr
