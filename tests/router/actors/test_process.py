"""Child processes import nothing from the working directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import router
from router.actors.process import program

ROOT = Path(router.__file__).parent.parent
FOREIGN = "import os, pathlib\npathlib.Path(os.environ['MARK']).touch()\n"


@pytest.mark.parametrize(
    "module",
    ["router.node.verifier_process", "router.bench.yardstick", "router.rig.with_parent", "router.service.apart"],
)
def test_a_package_of_our_name_in_the_working_directory_is_not_run(module: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for name in ("router", "spark_analytics"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    environment = os.environ | {"MARK": str(mark)}
    ran = subprocess.run(
        program(module), cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert not mark.exists()
    assert b"No module named" not in ran.stderr


def test_every_process_of_ours_is_started_so() -> None:
    sources = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "router").rglob("*.py")}
    assert {str(path) for path, text in sources.items() if "sys.executable" in text} == {"router/actors/process.py"}
